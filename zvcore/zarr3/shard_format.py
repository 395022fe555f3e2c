"""How a shard is put together: which chunk comes when, and where the index stands.

Everything that writes shards asks here where the next chunk goes, and what the index says in the end: shards that are
written at once, in parts, afresh or in place, by whatever way their bytes reach the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from zvcore.zarr3._entries import plan
from zvcore.zarr3.shard_index import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zvcore.zarr3.shard_index import Index, ShardIndexForm

__all__ = ["Order", "ShardAssembler", "cell_order", "indexes_of"]

Order = Literal["C", "F", "morton"]
Uints = npt.NDArray[np.uint64]

_MISSING = np.uint64(MISSING)


class WritesAnywhere(Protocol):
    def write_at(self, offset: int, data: Any, /) -> None: ...


class ShardAssembler:
    """One shard that is being written: chunks one after the other, the index before or behind them.

    With the index of a shard that is there already, chunks are added behind its end, and what it has stays.

    offsets, lengths  what the index will say
    end               where the next chunk begins
    """

    def __init__(self, form: ShardIndexForm, old: Index | None = None) -> None:
        self.form = form
        if old is None:
            self.offsets: Uints = np.full(form.count, _MISSING)
            self.lengths: Uints = self.offsets.copy()
            self.end = form.head
        else:
            self.offsets, self.lengths = old.offsets.copy(), old.lengths.copy()
            self.end = old.size

    def add(self, places: Any, sizes: Any) -> int:
        """Chunks for these places of the index, one after the other. Returns where the first of them begins.

        A chunk whose size is MISSING takes no bytes, and its place becomes empty.
        """
        begin = self.end
        sizes = np.asarray(sizes, np.uint64)
        present = sizes != _MISSING
        if not present.all():
            self.remove(places[~present])
            places, sizes = places[present], sizes[present]
        if len(sizes):
            ends = np.uint64(begin) + np.cumsum(sizes)
            self.offsets[places] = ends - sizes
            self.lengths[places] = sizes
            self.end = int(ends[-1])
        return begin

    def rewrite(
        self, order: npt.NDArray[np.int64], places: npt.NDArray[np.int64], sizes: Uints
    ) -> tuple[list[tuple[int, int, int]], list[int]]:
        """Put all chunks one after the other in `order`, with new ones for these places.

        (runs of what the shard is made of, rows of new chunks): a run is (-1, offset, size) of bytes of the old shard,
        or (first, stop, 0) of new chunks, whose rows stand there in the second list. Old chunks that lie one after the
        other and stay so are one run: changing one chunk in thousands moves few large ranges.
        """
        runs, rows, self.end = plan(order, self.offsets, self.lengths, places, sizes, self.form.head)
        return runs, rows

    def remove(self, places: Any) -> None:
        """Leave these places of the index empty."""
        self.offsets[places] = self.lengths[places] = _MISSING

    @property
    def empty(self) -> bool:
        """Whether there is no chunk."""
        return bool((self.lengths == _MISSING).all())

    @property
    def live(self) -> int:
        """How many bytes the chunks have together."""
        return int(self.lengths[self.lengths != _MISSING].sum())

    def index(self) -> bytes:
        """The index as it is stored."""
        return self.form.build(self.offsets, self.lengths)

    def finish(self, chunks: Iterable[Any]) -> list[Any]:
        """The bytes of the whole shard in parts; `chunks` are those that were added, in the order of adding."""
        return [self.index(), *chunks] if self.form.head else [*chunks, self.index()]

    def finish_in(self, writer: WritesAnywhere) -> None:
        """Write the index of a shard whose chunks were written at the offsets that `add` gave."""
        writer.write_at(0 if self.form.head else self.end, self.index())


def indexes_of(
    form: ShardIndexForm, places: npt.NDArray[np.int64], sizes: Uints, bounds: npt.NDArray[np.int64]
) -> list[bytes | None]:
    """The indexes of several new shards as they are stored, None for one without chunks.

    Shard i has, one after the other, chunks of sizes[bounds[i]:bounds[i + 1]] for these places of its index; MISSING is
    the size of one that is not there.
    """
    if len(bounds) == 2:  # it may have millions of chunks
        assembler = ShardAssembler(form)
        assembler.add(places, sizes)
        return [None if assembler.empty else assembler.index()]
    counts = np.diff(bounds)
    which = np.repeat(np.arange(len(counts)), counts)
    there = sizes != _MISSING
    ends = np.cumsum(np.where(there, sizes, np.uint64(0)))
    before = np.concatenate([np.zeros(1, np.uint64), ends])
    begins = before[:-1] - before[bounds[:-1]][which] + np.uint64(form.head)
    offsets = np.full((len(counts), form.count), _MISSING)
    lengths = offsets.copy()
    offsets[which[there], places[there]] = begins[there]
    lengths[which[there], places[there]] = sizes[there]
    holding = np.bincount(which[there], minlength=len(counts)) > 0
    return [form.build(offsets[i], lengths[i]) if holding[i] else None for i in range(len(counts))]


def cell_order(cells: tuple[int, ...], order: Order) -> npt.NDArray[np.int64]:
    """The places of a shard's index, which counts its cells in C order, along one of the orders."""
    if order == "morton" and len(cells) > 1:
        return _morton(cells)
    places = np.arange(int(np.prod(cells, dtype=np.int64)))
    return places.reshape(cells).ravel(order="F") if order == "F" else places


def _morton(cells: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Along a Morton curve with the first axis as the least significant bit, as zarr-python lays cells out."""
    grid = np.indices(cells).reshape(len(cells), -1).astype(np.uint64)
    code = np.zeros(grid.shape[1], np.uint64)
    place = 0
    for bit in range(max(int(extent - 1).bit_length() for extent in cells)):
        for axis, extent in enumerate(cells):
            if bit < int(extent - 1).bit_length():
                code |= ((grid[axis] >> np.uint64(bit)) & np.uint64(1)) << np.uint64(place)
                place += 1
    return np.argsort(code, kind="stable")
