"""Chunks that are taken over as they are stored, without decoding them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.cached import cached_property
from zvcore.codecs.variable_items import VariableItems
from zvcore.converting.outcome import slices
from zvcore.converting.parts import nbytes_of
from zvcore.converting.view import Held, View
from zvcore.converting.way import Encoded, Part, Positions, Way
from zvcore.engine import Buffers
from zvcore.engine.chunks import Chunks
from zvcore.engine.fetching import fetch, reachable
from zvcore.engine.selection import Selection
from zvcore.engine.sinks import Files
from zvcore.engine.sources import ABSENT, Sources
from zvcore.engine.steady import steadily
from zvcore.engine.taking_over import UnlikeChunkError, take_over_chunks
from zvcore.engine.work import Work
from zvcore.layout import Layout
from zvcore.placement import OneChunkPerObject
from zvcore.transfer import Packing, abandoning

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.array import Array
    from zvcore.boxes import Box
    from zvcore.codecs.base import Codec
    from zvcore.converting.coarse import CoarseView
    from zvcore.report import Outcome

__all__ = ["TakenOver", "Verbatim", "same_fill"]


@dataclass
class TakenOver:
    """What could be taken over: `chunks[i]` are the parts of the chunk of row `rows[i]`, None for one that is absent.

    left      rows that have to be decoded
    nbytes    stored bytes read
    stored    the chunks as the engine has them, where nothing was changed about them
    """

    rows: list[int]
    chunks: list[Any]
    left: list[int]
    nbytes: int = 0
    stored: Buffers | None = None
    held: Held | None = None

    def buffers(self, count: int) -> Buffers:
        """The chunks taken over, as rows of `count`."""
        return self._own().spread(self.rows, count)

    def _own(self) -> Buffers:
        return Buffers.of(self.chunks) if self.stored is None else self.stored

    def merged(self, count: int, fresh: Buffers) -> Buffers:
        """The chunks taken over and, for the rows that were left, those that were made."""
        if not self.rows:
            return fresh
        order = np.argsort([*self.rows, *self.left], kind="stable")
        return Buffers.chain([self._own(), fresh]).select(order)


class Verbatim(Way):
    """The way of stored chunks from a view's array to a target. Others are left to the rest.

    effort    whether a codec that only encodes with another effort (a level) counts as another codec
    """

    how = "verbatim"
    encodes = False
    passes = True

    def __init__(self, view: View | CoarseView, target: Array, rest: Way | None, effort: bool, limit: int = 0) -> None:
        self.rest = rest
        self.target: Layout = target.layout
        self._alike: dict[tuple[int, int], bool] = {}
        self._effort = effort
        self._applies = False
        if isinstance(view, View):
            self.view = view
            self.source: Layout = view.array.layout
            self._applies = self._same_grid() and self._same_values() and self._any_chain()

    @property
    def applies(self) -> bool:
        return self._applies

    def chunks(self, part: Part) -> Encoded:
        asked = part.asked
        taken = self.take(asked, part.threads)
        copied = sum(chunk is not None for chunk in taken.chunks)
        if not taken.left:
            values = None
            if part.needed and taken.held is not None:
                values, _ = self.view.read(part.box, part.threads, taken.held)
            if values is not None or not part.needed:
                return Encoded(taken.buffers(len(asked)), taken.nbytes, copied, values=values)
        assert self.rest is not None
        fresh = self.rest.chunks(replace(part, rows=taken.left))
        # A box that was read as a whole includes the chunks that were taken over: they are counted once.
        nbytes = fresh.nbytes + (taken.nbytes if fresh.values is None else 0)
        chunks = taken.merged(len(asked), fresh.chunks) if taken.left else taken.buffers(len(asked))
        return Encoded(chunks, nbytes, copied, fresh.made, fresh.values)

    def _same_grid(self) -> bool:
        """Whether each chunk of the target is a chunk of the source, in the same memory order."""
        if not (self.source.regular and self.target.regular):
            return False
        view, source, target = self.view, self.source.form, self.target.form
        if view.dtype is not None or source.dtype != target.dtype:
            return False
        if source.dtype.hasobject and not isinstance(self.source.value_codec, VariableItems):
            return False
        for place, axis in enumerate(view.axes):
            if axis is None:
                if target.shape[place] != 1:
                    return False
            elif source.shape[axis] != target.shape[place] or view.start[axis] % source.shape[axis]:
                return False
        kept = {axis for axis in view.axes if axis is not None}
        if any(source.shape[axis] != 1 for axis in range(len(source.shape)) if axis not in kept):
            return False
        ours = [axis for axis in source.axes if axis in kept]
        theirs = [view.axes[place] for place in target.axes]
        return ours == [axis for axis in theirs if axis is not None]

    def _same_values(self) -> bool:
        """Whether decoded chunks are the same bytes."""
        source, target = self.source, self.target
        if source.form.dtype.itemsize > 1 and source.form.swapped != target.form.swapped:
            return False
        ours, theirs = source.value_codec, target.value_codec
        if ours is None or theirs is None:
            return ours is theirs
        said = getattr(ours, "alike", None)
        if said is not None and said == getattr(theirs, "alike", None):
            return True
        return type(ours) is type(theirs) and vars(ours) == vars(theirs)

    def _any_chain(self) -> bool:
        return any(self._chains_alike(i, j) for i in range(len(self.source.chains)) for j in self.target.chains_of_new)

    def _chains_alike(self, ours: int, theirs: int) -> bool:
        known = self._alike.get((ours, theirs))
        if known is None:
            first = [codec for codec in self.source.chains[ours].codecs if not codec.identity]
            second = [codec for codec in self.target.chains[theirs].codecs if not codec.identity]
            known = len(first) == len(second) and all(map(self._codecs_alike, first, second))
            self._alike[(ours, theirs)] = known
        return known

    def _codecs_alike(self, ours: Codec, theirs: Codec) -> bool:
        if self._effort and _effort(ours) != _effort(theirs):
            return False
        return theirs.decodes_alike(ours)

    def take(self, positions: Positions, threads: int | None) -> TakenOver:
        """What of the target's chunks at these positions can be taken over."""
        mapped = self._mapped(positions)
        whole = self._same_extent(positions, mapped)
        chosen = np.flatnonzero(whole)
        taken = TakenOver([], [], np.flatnonzero(~whole).tolist())
        if len(chosen):
            self._fetch(positions, mapped, chosen, threads, taken)
            taken.left.sort()
        return taken

    def _mapped(self, positions: Positions) -> Positions:
        """Where the source has the chunks that the target has at these positions."""
        view = self.view
        ndim = len(self.source.shape)
        mapped = np.zeros((len(positions), ndim), np.int64)
        for axis in range(ndim):
            mapped[:, axis] = view.start[axis] // self.source.form.shape[axis]
        for place, own in enumerate(view.axes):
            if own is not None:
                mapped[:, own] += positions[:, place]
        return mapped

    def _same_extent(self, positions: Positions, mapped: Positions) -> npt.NDArray[np.bool_]:
        """Whether the chunk shows as much in the target as in the source."""
        whole = np.ones(len(positions), np.bool_)
        for place, axis in enumerate(self.view.axes):
            if axis is None:
                continue
            extent = self.source.form.shape[axis]
            here = np.minimum(extent, self.source.shape[axis] - mapped[:, axis] * extent)
            there = np.minimum(extent, self.target.shape[place] - positions[:, place] * extent)
            whole &= here == there
        return whole

    def _fetch(
        self,
        positions: Positions,
        mapped: Positions,
        chosen: npt.NDArray[np.intp],
        threads: int | None,
        taken: TakenOver,
    ) -> None:
        store, count = self.source.store, len(chosen)

        def located() -> tuple[Sources, Buffers]:
            sources = reachable(store, self.source.locate(mapped[chosen]), count)
            raw = replace(sources, chain=None)
            return sources, fetch(store, raw, count=count, max_size=1 << 62, threads=threads)

        sources, stored = steadily(located, store.root)
        column = sources.chain
        if sources.blobs is not None:
            taken.held = Held(mapped[chosen], sources)
        theirs = self.target.chain_column(positions[chosen])
        absent_alike = same_fill(self.source, self.target)
        picked: list[int] = []
        unchanged = True
        absent = stored.sizes == ABSENT
        if absent_alike and not self.target.store_empty:
            # Of a large shard, these may be nearly all.
            picked = np.flatnonzero(absent).tolist()
            taken.rows.extend(chosen[absent].tolist())
            taken.chunks.extend([None] * len(picked))
        else:
            taken.left.extend(chosen[absent].tolist())
        for i in np.flatnonzero(~absent).tolist():
            row, data = int(chosen[i]), stored[i]
            assert data is not None
            parts = None
            chain = 0 if theirs is None else int(theirs[i])
            if self._chains_alike(0 if column is None else int(column[i]), chain):
                parts = self._repacked(data, tuple(mapped[row].tolist()), tuple(positions[row].tolist()), chain)
            if parts is None:
                taken.left.append(row)
            else:
                unchanged = unchanged and parts is data
                picked.append(i)
                taken.nbytes += len(data)
                taken.rows.append(row)
                taken.chunks.append(parts)
        if unchanged:
            taken.stored = stored.select(picked)

    def _repacked(self, data: memoryview, ours: tuple[int, ...], theirs: tuple[int, ...], chain: int) -> Any:
        """A stored chunk of the source as the target stores it, or None if it has another shape.

        `chain` is which of the target's it is encoded with.
        """
        unpacked = self.source.unframed(data, ours)
        if unpacked is None:
            return None
        shape, payload = unpacked
        shown = [1 if axis is None else shape[axis] for axis in self.view.axes]
        if tuple(shown) != tuple(self.target.block_shape(theirs)):
            return None
        fits = self._fitting(math.prod(shape) * self.source.form.dtype.itemsize, chain)
        if not (len(payload) == fits if isinstance(fits, int) else fits(payload)):
            return None
        return self.target.framed(payload, theirs)

    def _fitting(self, size: int, chain: int) -> int | Callable[[memoryview], bool]:
        """How long stored chunks of so many bytes of values are, or what else is seen of them without decoding them.

        Nobody decodes what is taken over: what is known of its size is looked at.
        """
        if self.source.value_codec is not None:
            return _anything
        codecs = [codec for codec in self.target.chains[chain].codecs if not codec.identity]
        while codecs and codecs[0].of_items and (filtered := codecs[0].encoded_size(size)) is not None:
            size = filtered
            codecs = codecs[1:]
        if not codecs:
            return size
        return partial(codecs[0].reads_as, size=size) if len(codecs) == 1 else _anything

    # --- from files to files

    def write(self, box: Box, threads: int | None, outcome: Outcome) -> bool:
        """Stored chunks are handed on one by one; nothing is kept but what comes before its turn."""
        asked = Selection.basic(slices(box), self.target.shape).positions(self.target.form.shape)
        if not self._between_files or not len(asked) or self.target.chain_column(asked) is not None:
            return False
        mapped = self._mapped(asked)
        if not self._same_extent(asked, mapped).all():
            return False
        try:
            done = self._handed_on(asked, mapped, Work(threads))
        except UnlikeChunkError:
            return False
        if done is None:
            return False
        outcome.bytes_in, outcome.copied, outcome.bytes_out = done
        outcome.values = nbytes_of([stop - first for first, stop in box], self.target.form.dtype)
        outcome.empty = len(asked) - outcome.copied
        return True

    @cached_property
    def _between_files(self) -> bool:
        """Whether both sides are files in which all chunks lie in the same way, and missing ones mean the same."""
        return (
            all(one.store.local_root is not None and _is_plain(one) for one in (self.source, self.target))
            and len(self.source.chains) == 1
            and self._chains_alike(0, 0)
            and same_fill(self.source, self.target)
            and not self.target.store_empty
        )

    def _handed_on(self, asked: Positions, mapped: Positions, work: Work) -> tuple[int, int, int] | None:
        """(stored bytes read, chunks stored, bytes written); None if the shards cannot be written in this way."""

        def handed_on() -> tuple[int, int, int] | None:
            there = Chunks(self.source.prepared, mapped, self.source.locate(mapped))
            return self._put(there, asked, work)

        return steadily(handed_on, self.source.store.root)

    @property
    def _decoded(self) -> int | None:
        """How many bytes of values a chunk has, if all of them have as many."""
        return self.source.chunk_nbytes if self.source.value_codec is None else None

    def _put(self, there: Chunks, asked: Positions, work: Work) -> tuple[int, int, int] | None:
        target = self.target
        here = Chunks(target.prepared, asked)
        fits = self._fitting(target.chunk_nbytes, 0)
        placement = target.placement
        if isinstance(placement, OneChunkPerObject):
            sink = Files(placement.keys(asked), target.prepared)
            nbytes, present = take_over_chunks(there, here, sink, fits, work, self._decoded)
            return nbytes, present, nbytes
        groups = list(placement.groups(asked))
        keys = [group.key for group in groups]
        with target.store.edit_all(keys):
            packing = Packing.of(target, asked, groups)
            if packing is None or len(packing.keys) < len(keys):
                return None
            with abandoning():
                nbytes, present = _pack(packing, there, here, fits, work, self._decoded)
        return nbytes, present, sum(size or 0 for size in target.store.sizes(keys))


def _pack(packing: Packing, there: Chunks, here: Chunks, fits: Any, work: Work, decoded: int | None) -> tuple[int, int]:
    """Take chunks over into shards: (stored bytes read, chunks stored)."""
    packer = packing.packer(packing.rows)
    found = take_over_chunks(there, here, packer, fits, work, decoded)
    packing.finish(packer, packer.sizes[packing.rows], work)
    return found


def _anything(data: memoryview) -> bool:
    return True


def _is_plain(layout: Layout) -> bool:
    """Whether chunks are stored whole, without anything before or behind them."""
    kind = type(layout)
    return layout.form.edge == "full" and kind.unframed is Layout.unframed and kind.framed is Layout.framed


def _effort(codec: Codec) -> Any:
    return {name: value for name, value in codec.config().items() if name in codec.encoding_only}


def same_fill(source: Layout, target: Layout) -> bool:
    """Whether what neither of them has stored is the same value."""
    if source.form.dtype.hasobject:
        return bool(source.fill_value == target.fill_value)
    mine = np.asarray(source.fill_value, source.form.dtype)
    theirs = np.asarray(target.fill_value, target.form.dtype)
    return mine.tobytes() == theirs.tobytes()
