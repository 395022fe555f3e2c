"""Decoding and encoding chunk by chunk, without gathering the values of more than a few chunks."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import transfer
from zvcore.cached import cached_property
from zvcore.converting.outcome import count, slices
from zvcore.converting.view import View
from zvcore.converting.way import Encoded, Part, Positions, Way
from zvcore.engine.cells import Cells
from zvcore.engine.chunks import Chunks, StaleSourcesError
from zvcore.engine.fetching import reachable
from zvcore.engine.form import Form
from zvcore.engine.packer import Packer
from zvcore.engine.recode import recode_chunks
from zvcore.engine.selection import Selection
from zvcore.engine.sinks import Files, Gathered
from zvcore.engine.steady import CHANGED
from zvcore.engine.work import Work
from zvcore.layout import ABSENT
from zvcore.placement import OneChunkPerObject
from zvcore.stores.again import BEING_REPLACED, again, changed
from zvcore.stores.request_threads import on_their_way
from zvcore.transfer import Written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.array import Array
    from zvcore.boxes import Box
    from zvcore.converting.coarse import CoarseView
    from zvcore.engine.buffers import Buffers
    from zvcore.engine.prepared import Prepared
    from zvcore.engine.sinks import Sink
    from zvcore.layout import Layout
    from zvcore.placement import Group
    from zvcore.report import Outcome
    from zvcore.stores.editing import Edit

__all__ = ["Recode"]

Offsets = npt.NDArray[np.int64]


@dataclasses.dataclass
class CellChunks:
    """Some chunks of the target, cell after cell, and the chunks of the source that these are made of.

    order          for each chunk, which row of the positions asked for it is
    begin, extent  where each cell lies in the target
    """

    order: npt.NDArray[np.intp]
    targets: Positions
    sources: Positions
    target_first: Offsets
    source_first: Offsets
    begin: Positions
    extent: Positions


class Recode(Way):
    """From the chunks of a view to those of a target, if neither cuts the other's, and values stay values.

    limit    how many bytes of values a thread may hold
    """

    how = "recode"

    def __init__(self, view: View | CoarseView, target: Array, rest: Way | None, effort: bool, limit: int) -> None:
        self.rest = rest
        self.array = target
        self.target: Layout = target.layout
        self._applies = False
        if isinstance(view, View):
            self.view = view
            self.source: Layout = view.array.layout
            self._applies = self._plain() and self._aligned(limit)

    @property
    def applies(self) -> bool:
        return self._applies

    def described(self, needed: bool) -> str:
        return self.rest.described(needed) if needed and self.rest is not None else self.how

    def chunks(self, part: Part) -> Encoded:
        if part.needed or not self.whole(part.box):
            assert self.rest is not None
            return self.rest.chunks(part)
        made, nbytes = self.encode(part.box, part.asked, part.threads)
        return Encoded(made, nbytes, made=int((made.sizes != ABSENT).sum()))

    def write(self, box: Box, threads: int | None, outcome: Outcome) -> bool:
        if not self.whole(box):
            assert self.rest is not None
            return self.rest.write(box, threads, outcome)
        outcome.bytes_in, written = self.store(box, threads)
        count(self.array, box, written, outcome)
        return True

    def write_through(self, box: Box, threads: int | None, outcome: Outcome) -> npt.NDArray[Any] | None:
        assert self.rest is not None
        return self.rest.write_through(box, threads, outcome)

    def shares(self, grain: Sequence[int], local: bool) -> bool:
        return local and self.source.store.local_root is not None and not any(map(int.__mod__, grain, self.cell))

    @property
    def waiting(self) -> int:  # type: ignore[override]
        return math.prod(self.cell) * self._itemsize

    def _plain(self) -> bool:
        source, target = self.source, self.target
        return (
            self.view.dtype is None
            and source.regular
            and target.regular
            and source.value_codec is None
            and target.value_codec is None
            and target.refuse_unfit is None
            and source.form.dtype == target.form.dtype
            and source.form.dtype.kind in "biuf"
            and bool(source.shape and target.shape)
        )

    def _aligned(self, limit: int) -> bool:
        """Whether chunks of one side are whole numbers of chunks of the other along each axis."""
        cell = []
        for place, axis in enumerate(self.view.axes):
            theirs = self.target.form.shape[place]
            ours = theirs if axis is None else self.source.form.shape[axis]
            if max(ours, theirs) % min(ours, theirs):
                return False
            if axis is not None and self.view.start[axis] % ours:
                return False
            cell.append(max(ours, theirs))
        self.cell = tuple(cell)
        # A larger cell is many chunks that wait for each other.
        return math.prod(min(a, b) for a, b in zip(cell, self.view.shape, strict=True)) * self._itemsize <= limit

    @property
    def _itemsize(self) -> int:
        return self.target.form.dtype.itemsize

    @property
    def single(self) -> bool:
        """Whether a cell is one chunk of the target."""
        return self.cell == self.target.form.shape

    def whole(self, box: Box) -> bool:
        """Whether a box cuts no cell."""
        return all(
            first % extent == 0 and (stop % extent == 0 or stop == bound)
            for (first, stop), extent, bound in zip(box, self.cell, self.view.shape, strict=True)
        )

    @cached_property
    def _prepared(self) -> Prepared:
        """The source, for values that are put together as the target stores them."""
        source, target = self.source, self.target
        if not self.single or not target.form.swapped:
            return source.prepared
        fill = np.array([source.fill_value], source.form.dtype).byteswap()[0]
        form = dataclasses.replace(source.form, swapped=not source.form.swapped)
        return source.prepared.with_form(Form(form, source.shape, fill, source.framing))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_prepared"}

    # --- which chunks

    def _parts(self, positions: Positions) -> CellChunks:
        """The cells of these chunks of the target, in the order of the first chunk of each."""
        chunk = np.array(self.target.form.shape, np.int64)
        extents = np.array(self.cell, np.int64)
        bounds = np.array(self.view.shape, np.int64)
        places = positions * chunk // extents
        grid = tuple((-(-bounds // extents)).tolist())
        _, first, which = np.unique(np.ravel_multi_index(tuple(places.T), grid), return_index=True, return_inverse=True)
        rank = np.empty(len(first), np.intp)
        rank[np.argsort(first)] = np.arange(len(first))
        which = rank[which.reshape(-1)]
        order = np.argsort(which, kind="stable")
        target_first = np.concatenate([[0], np.cumsum(np.bincount(which, minlength=len(first)))])
        begin = places[np.sort(first)] * extents
        extent = np.minimum(extents, bounds - begin)
        sources, source_first = self._sources(begin, extent)
        return CellChunks(order, positions[order], sources, target_first, source_first, begin, extent)

    def _sources(self, begin: Positions, extent: Positions) -> tuple[Positions, Offsets]:
        """(the source's chunks in each of these boxes of the view, where those of each begin)."""
        view = self.view
        own = self.source.form.shape
        steps = np.array([1 if axis is None else own[axis] for axis in view.axes], np.int64)
        counts = -(-extent // steps)
        most = counts.max(axis=0)
        within = np.array(list(np.ndindex(*most.tolist())), np.int64)
        found = begin[:, None, :] // steps + within
        there = (within[None, :, :] < counts[:, None, :]).all(axis=2)
        chosen = found[there]
        mapped = np.empty((len(chosen), len(own)), np.int64)
        mapped[:] = np.array(view.start, np.int64) // np.array(own, np.int64)
        for place, mine in enumerate(view.axes):
            if mine is not None:
                mapped[:, mine] += chosen[:, place]
        return mapped, np.concatenate([[0], np.cumsum(there.sum(axis=1))])

    # --- work

    def encode(self, box: Box, positions: Positions, threads: int | None) -> tuple[Buffers, int]:
        """(these chunks of the target, which lie in a box that cuts no cell; how many stored bytes were read)."""
        parts = self._parts(positions)
        gathered = Gathered(len(positions))
        nbytes = self._run(box, parts, gathered, threads)
        back = np.empty(len(positions), np.intp)
        back[parts.order] = np.arange(len(positions))
        return gathered.chunks.select(back), nbytes

    def store(self, box: Box, threads: int | None) -> tuple[int, Written]:
        """Write the objects of a box that holds them whole; how many stored bytes were read, and what was written."""
        target = self.target
        selection = Selection.basic(slices(box), target.shape)
        positions = selection.positions(target.form.shape)
        placement = target.placement
        if isinstance(placement, OneChunkPerObject):
            if target.store.local_root is None:
                made, nbytes = self.encode(box, positions, threads)
                placement.put(positions, made)
                written = Written()
                written.add(made.sizes)
                return nbytes, written
            parts = self._parts(positions)
            files = Files(placement.keys(parts.targets), target.prepared)
            return self._run(box, parts, files, threads), Written(known=False)
        groups = list(placement.groups(positions))
        total, written = 0, Written()
        for attempt in again(self.source.store.root, BEING_REPLACED, on=CHANGED):
            with attempt, target.store.edit_all([group.key for group in groups]) as edits:
                total, written = self._store_shards(box, positions, groups, edits, threads)
        return total, written

    def _store_shards(
        self, box: Box, positions: Positions, groups: list[Group], edits: dict[str, Edit], threads: int | None
    ) -> tuple[int, Written]:
        target = self.target
        total, written = 0, Written()
        # A cell that is larger than a shard fills several of them.
        apart = target.shard_shape is not None and not any(map(int.__mod__, target.shard_shape, self.cell))
        packing = transfer.Packing.of(target, positions, groups) if apart else None
        if packing is not None:
            with transfer.abandoning():
                total += self._pack(box, positions, packing, written, threads)
            groups = [group for group in groups if group.key not in packing.keys]
        # Of stores behind a network, one is put while the next is made.
        with on_their_way(min(1, target.store.parts_ahead())) as put:
            for group in groups:
                own = positions[group.rows]
                made, nbytes = self.encode(box, own, threads)
                put(partial(self._put, edits, group, positions, made))
                written.add(made.sizes)
                total += nbytes
        return total, written

    def _put(self, edits: dict[str, Edit], group: Group, positions: Positions, made: Buffers) -> None:
        if not all(self.target.placement.replace_all(edits, [group], positions, made, 1)):
            raise changed(group.key, "")

    def _pack(
        self, box: Box, positions: Positions, packing: transfer.Packing, written: Written, threads: int | None
    ) -> int:
        """Write whole shards while their chunks are encoded: how many stored bytes were read."""
        parts = self._parts(positions[packing.rows])
        numbers = np.empty(len(packing.rows), np.intp)
        numbers[parts.order] = np.arange(len(numbers))
        firsts = parts.order[parts.target_first[:-1]]
        packer = packing.packer(numbers, np.arange(len(firsts)), np.searchsorted(firsts, packing.bounds))
        total = self._run(box, parts, packer, threads)
        packing.finish(packer, packer.sizes[numbers], Work(threads))
        written.add(packer.sizes)
        return total

    def _run(self, box: Box, parts: CellChunks, sink: Sink, threads: int | None) -> int:
        """Encode the target's chunks from the source's: how many stored bytes were read."""
        source, target = self.source, self.target
        cells = self._cells(box, parts)
        chunks = Chunks(target.prepared, parts.targets, chain=target.chain_column(parts.targets))
        sink.store_empty = target.store_empty
        nbytes = 0
        # A packer that was begun cannot be used again: its caller begins again with another one.
        on = () if isinstance(sink, Packer) else StaleSourcesError
        for attempt in again(source.store.root, BEING_REPLACED, on=on):
            with attempt:
                sources = reachable(source.store, source.locate(parts.sources), len(parts.sources))
                there = Chunks(self._prepared, parts.sources, sources)
                nbytes = recode_chunks(cells, there, chunks, sink, Work(threads))
        return nbytes

    def _cells(self, box: Box, parts: CellChunks) -> Cells:
        """The cells of a box of the target."""
        view, source, target = self.view, self.source, self.target
        ranges = [slice(first, first + 1) for first in view.start]
        for (first, stop), axis in zip(box, view.axes, strict=True):
            if axis is not None:
                ranges[axis] = slice(view.start[axis] + first, view.start[axis] + stop)
        return Cells(
            Selection.basic(tuple(ranges), source.shape),
            Selection.basic(slices(box), target.shape),
            [view.axes.index(axis) if axis in view.axes else -1 for axis in range(len(source.shape))],
            parts.begin - np.array([first for first, _ in box]),
            parts.extent,
            parts.source_first,
            parts.target_first,
            self.single,
        )
