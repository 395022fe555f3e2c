"""The layout of an array whose values another library gives, block by block."""

from __future__ import annotations

import math
import os
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from zvcore.borrowed.nowhere import Nowhere
from zvcore.borrowed.reading import ReadLayout, check_items
from zvcore.boxes import box_of, slices
from zvcore.engine import Keys
from zvcore.errors import CorruptDataError
from zvcore.exchange.target import grow
from zvcore.layout import Sources
from zvcore.stores.request_threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BlockLayout", "Blocks", "block_shape", "slabs"]

_NO_KEYS = Keys.of(["values"])
# Smaller chunks are read several at once, and larger ones in parts.
_FEWEST, _USUAL, _MOST = 1 << 17, 1 << 20, 64 << 20


class Blocks(Protocol):
    """What reads boxes of an array: each box is a whole block, or what the array's end leaves of one.

    shape, dtype  of the array
    parallel      whether several threads may read at once; else one does at a time
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    parallel: bool

    def read(self, region: tuple[slice, ...]) -> npt.NDArray[Any]: ...


def block_shape(shape: Sequence[int], itemsize: int, own: Sequence[int] | None) -> tuple[int, ...]:
    """The shape of the blocks to read of an array, whose own chunks have the shape `own`; None: it has no chunks."""
    base = [max(1, min(a, b)) for a, b in zip(own or (1,) * len(shape), shape, strict=True)]
    if math.prod(base) * itemsize < _FEWEST:
        return tuple(max(1, min(a, b)) for a, b in zip(grow(base, shape, itemsize, _USUAL), shape, strict=True))
    while math.prod(base) * itemsize > _MOST and max(base) > 1:
        longest = base.index(max(base))
        base[longest] = -(-base[longest] // 2)
    return tuple(base)


def slabs(shape: Sequence[int], itemsize: int, axes: Sequence[int]) -> tuple[int, ...]:
    """The shape of contiguous parts of about a megabyte of an array without chunks; `axes`: the slowest first."""
    chunk = [1] * len(shape)
    left = max(1, _USUAL // itemsize)
    for axis in reversed(axes):
        chunk[axis] = max(1, min(shape[axis], left))
        left //= chunk[axis]
        if chunk[axis] < shape[axis]:
            break
    return tuple(chunk)


class BlockLayout(ReadLayout):
    """Chunks are blocks, which are given to the engine as bytes in memory: none of them lies in a store.

    name   by which errors call the place that the blocks come from
    order  of the memory of what is read: "C", or "F" where the first axis is the fastest by the format's own words
    """

    def __init__(self, name: str, blocks: Blocks, chunks: Sequence[int], order: str = "C") -> None:
        check_items(name, blocks.dtype)
        self.store = Nowhere(name)
        self.blocks = blocks
        self.shape = tuple(int(n) for n in blocks.shape)
        # Blocks are brought into this machine's byte order.
        self.take_form(tuple(chunks), blocks.dtype.newbyteorder("="), order)
        self._guard = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_guard"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _guard=threading.Lock())

    def chunk_name(self, position: tuple[int, ...]) -> str:
        return self.store.root

    def locate(self, positions: npt.NDArray[np.int64]) -> Sources:
        places = [tuple(place) for place in positions.tolist()]
        if self.blocks.parallel:
            blobs = side_by_side(self._block, places, os.cpu_count() or 1)
        else:
            blobs = [self._block(place) for place in places]
        return Sources(keys=_NO_KEYS, blobs=blobs)

    def _block(self, place: tuple[int, ...]) -> memoryview:
        """The bytes of a block."""
        box = box_of(place, self.form.shape, self.shape)
        with nullcontext() if self.blocks.parallel else self._guard:
            values = np.asarray(self.blocks.read(slices(box)))
        expected = tuple(stop - start for start, stop in box)
        kind = self.form.dtype.kind
        if not expected and kind in "SU" and values.dtype.kind == kind and values.itemsize < self.form.dtype.itemsize:
            # Libraries give a single text as one of numpy's, which is as long as the text and not as its type.
            values = values.astype(self.form.dtype)
        if values.shape != expected or values.dtype.newbyteorder("=") != self.form.dtype:
            raise CorruptDataError(
                "what was read is not what the array says it is", key=self.store.root, chunk=place,
                expected=f"{self.form.dtype}{expected}", found=f"{values.dtype}{values.shape}",
            )  # fmt: skip
        # Nothing is copied if the values already lie this way in memory.
        laid = np.ascontiguousarray(values.transpose(self.form.axes), self.form.dtype)
        return memoryview(laid.reshape(-1).view(np.uint8))
