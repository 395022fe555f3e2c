"""Chunks behind codecs that make arrays of arrays, which only Python can run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import zvcore.codecs
from zvcore.cached import cached_property
from zvcore.casting import as_dtype, in_native_order
from zvcore.codecs.filters import plainly_filtered
from zvcore.codecs.unfit import check_of_values
from zvcore.documents.members import Place, named
from zvcore.errors import CorruptDataError, MetadataError, UnsupportedError, ZvcoreError
from zvcore.zarr3.chain import order_of

if TYPE_CHECKING:
    from zvcore.zarr3.chain import Pipeline

__all__ = ["Filtered"]


class _Transposed:
    """`transpose` behind another filter; in front of all, it is a matter of how chunks lie."""

    kind = "array"
    moves_only = True

    def __init__(self, order: Any, where: str) -> None:
        self._order, self._where = order, where

    def _axes(self, rank: int) -> tuple[int, ...]:
        return order_of(self._order, rank, Place(self._where, "$.codecs"))

    def casting_config(self, dtype: np.dtype[Any]) -> None:
        return None

    def encoded_form(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[np.dtype[Any], tuple[int, ...]]:
        return dtype, tuple(shape[axis] for axis in self._axes(len(shape)))

    def encode_array(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values.transpose(self._axes(values.ndim))

    def decode_array(self, stored: npt.NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        return stored.transpose(np.argsort(self._axes(stored.ndim)))


class Filtered:
    """The value codec of an array behind filters that only Python can run (numcodecs' delta and its like), and of
    records in the other byte order.
    """

    def __init__(self, pipeline: Pipeline, axes: tuple[int, ...] | None = None) -> None:
        """`axes`: those of the levels above and of this one, where there are several."""
        self.pipeline = pipeline
        self.axes = pipeline.axes if axes is None else axes

    @cached_property
    def _filters(self) -> list[Any]:
        filters: list[Any] = []
        for one in self.pipeline.filters:
            name, configuration, _ = named(one, Place(self.pipeline.where))
            if name == "transpose":
                filters.append(_Transposed(configuration.get("order"), self.pipeline.where))
                continue
            filters.append(zvcore.codecs.from_zarr3(one, where=self.pipeline.where))
            if not hasattr(filters[-1], "encoded_form"):
                raise UnsupportedError("a filter that does not say what it makes of an array", codec=name)
        return filters

    @cached_property
    def _serializer(self) -> Any:
        said = self.pipeline.serializer
        return None if said is None else zvcore.codecs.from_zarr3(said, where=self.pipeline.where)

    def _serialized(self, values: npt.NDArray[Any]) -> bytes:
        try:
            return bytes(self._serializer.encode_array(values))
        except (MemoryError, ZvcoreError):
            raise
        except Exception as error:
            what = f"{self._serializer.name} cannot hold such chunks: {error}"
            raise UnsupportedError(what, found=f"{values.dtype} {values.shape}") from error

    def check_fill(self, fill: Any) -> None:
        """Whether the fill value comes back as it went in through filters that change each item by itself."""
        values: Any = np.array([fill], self.pipeline.data_type.dtype)
        through: list[tuple[Any, Any]] = []
        for one in self._filters:
            if getattr(one, "elementwise", False):
                through.append((one, values))
                values = one.encode_array(values)
            elif not getattr(one, "moves_only", False):
                break
        for one, before in reversed(through):
            values = one.decode_array(values, before.dtype, (1,))
        kept = through[0][1] if through else values
        if not (values == kept).all() and not ((values != values) & (kept != kept)).all():
            what = "the fill value is another one behind the filters"
            raise MetadataError(what, key=self.pipeline.where, expected=str(kept[0]), found=str(values[0]))

    def check_readable(self) -> None:
        """Whether others read what is written through these filters."""
        self._forms(tuple(self.pipeline.shape[axis] for axis in self.axes))
        for one in self._filters:
            if getattr(one, "stores_untold_type", False):
                what = "zarr-python does not read what it stores as another type (astype)"
                raise UnsupportedError(what, key=self.pipeline.where, codec=one.name)

    def __getstate__(self) -> dict[str, Any]:
        return {"pipeline": self.pipeline, "axes": self.axes}

    def _forms(self, shape: tuple[int, ...]) -> list[tuple[np.dtype[Any], tuple[int, ...]]]:
        """Type and shape of a chunk of this shape before the first filter and behind each of them, in the byte order
        in which each filter has its items: some take bytes for those of their own type without a question.
        """
        forms = [(self.pipeline.data_type.dtype, shape)]
        for one in self._filters:
            dtype, _ = forms[-1]
            if hasattr(one, "taken_type") and one.taken_type(dtype).itemsize != dtype.itemsize:
                what = "a filter of items of another size than it gets"
                raise MetadataError(
                    what, key=self.pipeline.where, codec=one.name, expected=dtype, found=one.taken_type(dtype)
                )
            forms.append(one.encoded_form(*forms[-1]))
        return forms

    def encoded_form(self) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Type and shape of what is stored of a whole chunk."""
        dtype, shape = self._forms(tuple(self.pipeline.shape[axis] for axis in self.pipeline.axes))[-1]
        return in_native_order(dtype), shape

    @property
    def alike(self) -> Any:
        """Equal for codecs that make the same bytes of the same values; None where that is not known."""
        if self.pipeline.endian == "big":
            return None
        if self._serializer is not None or not all(isinstance(one, zvcore.codecs.Codec) for one in self._filters):
            return None
        said = plainly_filtered(self._filters, self.pipeline.data_type.dtype)
        return None if said is None else (self.axes, said)

    def _swapped(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Items in the byte order in which they are stored, or back: numpy's `byteswap` knows records, and the numbers
        of ml_dtypes, whose dtypes have no other order.
        """
        return values.byteswap() if self.pipeline.swapped else values

    def decode(self, data: memoryview, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        forms = self._forms(tuple(shape[axis] for axis in self.axes))
        wanted, stored = forms[-1]
        dtype = in_native_order(wanted)
        if self._serializer is not None:
            return self._unfiltered(self._serializer.decode_array(data, dtype, stored), forms)
        expected = math.prod(stored) * dtype.itemsize
        if len(data) != expected:
            raise CorruptDataError("the decoded chunk has a wrong size", expected=expected, found=len(data))
        return self._unfiltered(self._swapped(np.frombuffer(bytes(data), dtype)).reshape(stored), forms)

    def _unfiltered(self, values: npt.NDArray[Any], forms: list[Any]) -> npt.NDArray[Any]:
        made, _ = forms[-1]
        if not made.isnative:
            values = as_dtype(values, made)
        for one, form in zip(reversed(self._filters), reversed(forms[:-1]), strict=True):
            values = one.decode_array(values, *form)
        return values.transpose(np.argsort(self.axes))

    def encode(self, values: npt.NDArray[Any]) -> bytes:
        encoded: Any = np.ascontiguousarray(values.transpose(self.axes))
        assigned = True
        for one in self._filters:
            if not assigned and (check := check_of_values(one, in_native_order(encoded.dtype))) is not None:
                check(encoded)
            assigned = assigned and getattr(one, "moves_only", False)
            encoded = np.asarray(one.encode_array(encoded))
        if not encoded.dtype.isnative:
            encoded = as_dtype(encoded, encoded.dtype.newbyteorder("="))
        if self._serializer is not None:
            return self._serialized(encoded)
        return bytes(self._swapped(encoded).tobytes())
