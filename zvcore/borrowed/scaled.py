"""Values of a file that are compressed as one stream, or scaled, with the first axis the fastest."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.borrowed.array import BorrowedArray, reopened_blocks
from zvcore.borrowed.flat import FlatLayout, Values
from zvcore.errors import CorruptDataError

if TYPE_CHECKING:
    from zvcore.borrowed.unpacking import Unpacked
    from zvcore.stores import Store

__all__ = ["ScaledValues"]


class ScaledValues:
    """The blocks of such an array: each lies in one piece.

    format, store  by which it is opened in another process
    source         what unpacks the values; None: they lie in the store's file as they are
    scale          (slope, intercept), by which they become numbers
    """

    parallel = False

    def __init__(
        self,
        format: str,
        store: Store,
        values: Values,
        source: Unpacked | None,
        scale: tuple[float, float] | None = None,
    ) -> None:
        self.format, self.store, self.values, self.scale = format, store, values, scale
        self.source = source
        self.shape = values.shape
        stored = values.dtype.newbyteorder("=")
        # Numbers of at least 64 bits, or pairs of them: a float of 32 bits stays one when it meets Python's floats.
        self.dtype: np.dtype[Any] = stored if scale is None else np.result_type(stored, np.float64)
        self._flat = None if source is not None else BorrowedArray(
            FlatLayout(store, store.file or "", values), format=format, store=store
        )  # fmt: skip
        self._strides = np.cumprod([values.dtype.itemsize, *values.shape[:-1]], dtype=object)

    def __reduce__(self) -> tuple[Any, ...]:
        return (reopened_blocks, (self.format, self.store))

    def read(self, region: tuple[slice, ...]) -> npt.NDArray[Any]:
        raw = self._flat[region] if self._flat is not None else self._unpacked(region)
        if self.scale is None:
            return np.asarray(raw)
        slope, inter = self.scale
        return np.asarray(raw, self.dtype) * slope + inter

    def _unpacked(self, region: tuple[slice, ...]) -> npt.NDArray[Any]:
        assert self.source is not None
        start = self.values.start + int(
            sum(one.start * int(step) for one, step in zip(region, self._strides, strict=True))
        )
        shape = [one.stop - one.start for one in region]
        length = math.prod(shape) * self.values.dtype.itemsize
        data = self.source.read(start, length)
        if len(data) != length:
            raise CorruptDataError("the values are cut off", key=self.store.root, offset=start, expected=length)
        if start + length == self.values.start + self.values.nbytes:
            self.source.check_end()
        return np.frombuffer(data, self.values.dtype).reshape(shape, order="F")
