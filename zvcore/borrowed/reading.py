"""What layouts of arrays that are only read have in common."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.borrowed.nowhere import ReadOnlyPlacement
from zvcore.casting import in_native_order
from zvcore.codecs import CodecChain
from zvcore.errors import CorruptDataError, UnsupportedError
from zvcore.layout import ChunkForm, Layout

if TYPE_CHECKING:
    import numpy.typing as npt

    from zvcore.layout import ValueCodec
    from zvcore.placement import Placement

__all__ = ["ReadLayout", "axes_of", "check_items"]

_NO_CODECS = (CodecChain(),)


class ReadLayout(Layout):
    """Chunks of plain values that end where the array does and are never written."""

    store_empty = True
    value_codec: ValueCodec | None = None

    def take_form(self, chunks: tuple[int, ...], dtype: np.dtype[Any], order: str) -> None:
        """Set what each chunk is like: items of `dtype`, in its byte order, and axes in `order`, "C" or "F"."""
        native, axes = in_native_order(dtype), axes_of(len(chunks), order)
        self.form = ChunkForm(chunks, native, native != dtype, axes, "cropped")
        if native != dtype and dtype.fields is not None:
            self.value_codec = _OtherRecords(dtype, axes)
        self.fill_value = np.zeros((), native)[()]

    def check_rest(self) -> None:
        """Look at what no read of values does, though it tells of damage: the checksum of what holds them."""

    @property
    def placement(self) -> Placement:
        return ReadOnlyPlacement(self.store)

    @property
    def chains(self) -> tuple[CodecChain, ...]:
        return _NO_CODECS


class _OtherRecords:
    """The value codec of records whose fields are in the other byte order, or some of them: the engine swaps no parts.

    dtype  as they are stored
    axes   of the array, from the slowest to the fastest
    """

    def __init__(self, dtype: np.dtype[Any], axes: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.axes = axes

    def decode(self, data: memoryview, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        expected = math.prod(shape) * self.dtype.itemsize
        if len(data) != expected:
            raise CorruptDataError("the values have the wrong size", expected=expected, found=len(data))
        stored = np.frombuffer(data, self.dtype).reshape([shape[axis] for axis in self.axes])
        return stored.transpose(np.argsort(self.axes)).astype(in_native_order(self.dtype))

    def encode(self, values: npt.NDArray[Any]) -> bytes:
        raise UnsupportedError("this array is only read")


def axes_of(rank: int, order: str) -> tuple[int, ...]:
    """The axes of an array from the slowest to the fastest."""
    axes = tuple(range(rank))
    return axes if order == "C" else axes[::-1]


def check_items(name: str, dtype: np.dtype[Any]) -> None:
    """Refuse items that are Python objects or have no size."""
    if dtype.hasobject or not dtype.itemsize:
        raise UnsupportedError("items without a size of their own cannot be read", key=name, found=str(dtype))
