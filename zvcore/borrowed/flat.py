"""The layout of values that lie in a file one after the other, as they are: the engine reads them from there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.borrowed.blocks import slabs
from zvcore.borrowed.reading import ReadLayout, axes_of, check_items
from zvcore.engine import Keys
from zvcore.errors import CorruptDataError, NotFoundError
from zvcore.layout import Sources
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["FlatLayout", "Values"]


@dataclass(frozen=True)
class Values:
    """Where values lie in a file.

    start  the first byte
    shape  and
    dtype  of the array, with the byte order that they have there
    order  of its axes: "C", the last is the fastest, or "F"
    """

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str = "C"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class FlatLayout(ReadLayout):
    """Chunks are parts of the file. `whole`: all of the values are one chunk, where parts cost as much as all."""

    def __init__(self, store: Store, key: str, values: Values, *, whole: bool = False) -> None:
        check_items(key, values.dtype)
        size, self.stamp = store.size(key), store.stamp(key)
        if size is None or self.stamp is None:
            raise NotFoundError("there is no file here", key=f"{store.root}/{key}")
        if values.start > size or values.nbytes > size - values.start:
            raise CorruptDataError(
                "the file is too short for the values that it tells of", key=key, offset=values.start,
                expected=f"{values.nbytes} bytes", found=f"{max(0, size - values.start)} bytes",
            )  # fmt: skip
        # The engine reads files of a folder by itself.
        self.store = store.folder if isinstance(store, SingleFileStore) else store
        self.key = key
        self.values = values
        self.shape = values.shape
        axes = axes_of(len(self.shape), values.order)
        chunk = tuple(max(1, n) for n in self.shape) if whole else slabs(self.shape, values.dtype.itemsize, axes)
        self.take_form(chunk, values.dtype, values.order)
        strides = np.zeros(len(self.shape), np.int64)
        step = values.dtype.itemsize
        for axis in reversed(axes):
            strides[axis] = step
            step *= max(1, self.shape[axis])
        self._strides = strides

    def chunk_name(self, position: tuple[int, ...]) -> str:
        return self.key

    def locate(self, positions: npt.NDArray[np.int64]) -> Sources:
        if self.store.stamp(self.key) != self.stamp:
            raise CorruptDataError("the file is another one by now; open it again", key=self.key)
        chunk, shape = np.array(self.form.shape, np.int64), np.array(self.shape, np.int64)
        first = positions * chunk
        offset = self.values.start + (first * self._strides).sum(axis=1)
        length = np.minimum(chunk, shape - first).prod(axis=1) * self.values.dtype.itemsize
        return Sources(
            keys=Keys.of([self.key]), key=np.zeros(len(positions), np.int32), offset=offset.astype(np.uint64),
            length=length.astype(np.uint64), stamps=[self.stamp],
        )  # fmt: skip
