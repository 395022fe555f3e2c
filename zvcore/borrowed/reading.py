"""What layouts of arrays that are only read have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.borrowed.nowhere import ReadOnlyPlacement
from zvcore.codecs import CodecChain
from zvcore.errors import UnsupportedError
from zvcore.layout import ChunkForm, Layout

if TYPE_CHECKING:
    from zvcore.placement import Placement

__all__ = ["ReadLayout", "axes_of", "check_items"]

_NO_CODECS = (CodecChain(),)


class ReadLayout(Layout):
    """Chunks of plain values that end where the array does and are never written."""

    store_empty = True

    def take_form(self, chunks: tuple[int, ...], dtype: np.dtype[Any], order: str) -> None:
        """Set what each chunk is like: items of `dtype`, in its byte order, and axes in `order`, "C" or "F"."""
        native = dtype.newbyteorder("=")
        self.form = ChunkForm(chunks, native, native != dtype, axes_of(len(chunks), order), "cropped")
        self.fill_value = np.zeros((), native)[()]

    def check_rest(self) -> None:
        """Look at what no read of values does, though it tells of damage: the checksum of what holds them."""

    @property
    def placement(self) -> Placement:
        return ReadOnlyPlacement(self.store)

    @property
    def chains(self) -> tuple[CodecChain, ...]:
        return _NO_CODECS


def axes_of(rank: int, order: str) -> tuple[int, ...]:
    """The axes of an array from the slowest to the fastest."""
    axes = tuple(range(rank))
    return axes if order == "C" else axes[::-1]


def check_items(name: str, dtype: np.dtype[Any]) -> None:
    """Refuse items that are Python objects or have no size."""
    if dtype.hasobject or not dtype.itemsize:
        raise UnsupportedError("items without a size of their own cannot be read", key=name, found=str(dtype))
