"""Chunks that are taken over as they are stored, without decoding them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.converting.view import View
from zvcore.converting.way import Encoded, Part, Positions, Way
from zvcore.engine import Buffers
from zvcore.engine.fetching import StaleSourcesError, fetch
from zvcore.stores.again import BEING_REPLACED, again

if TYPE_CHECKING:
    from zvcore.array import Array
    from zvcore.codecs.base import Codec
    from zvcore.converting.coarse import CoarseView
    from zvcore.layout import Layout

__all__ = ["TakenOver", "Verbatim"]


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
        if not taken.left and not part.needed:
            return Encoded(taken.buffers(len(asked)), taken.nbytes, copied)
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
        if view.dtype is not None or source.dtype != target.dtype or source.dtype.hasobject:
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
        view = self.view
        ndim = len(self.source.shape)
        mapped = np.zeros((len(positions), ndim), np.int64)
        for axis in range(ndim):
            mapped[:, axis] = view.start[axis] // self.source.form.shape[axis]
        for place, own in enumerate(view.axes):
            if own is not None:
                mapped[:, own] += positions[:, place]
        whole = self._same_extent(positions, mapped)
        chosen = np.flatnonzero(whole)
        taken = TakenOver([], [], np.flatnonzero(~whole).tolist())
        if len(chosen):
            self._fetch(positions, mapped, chosen, threads, taken)
            taken.left.sort()
        return taken

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
        for attempt in again(self.source.store.root, BEING_REPLACED, on=StaleSourcesError):
            with attempt:
                sources = self.source.locate(mapped[chosen])
                column, sources.chain = sources.chain, None
                stored = fetch(self.source.store, sources, count=len(chosen), max_size=1 << 62, threads=threads)
        theirs = self.target.chain_column(positions[chosen])
        absent_alike = _same_fill(self.source, self.target)
        picked: list[int] = []
        unchanged = True
        for i, row in enumerate(chosen.tolist()):
            data = stored[i]
            if data is None:
                if absent_alike and not self.target.store_empty:
                    picked.append(i)
                    taken.rows.append(row)
                    taken.chunks.append(None)
                else:
                    taken.left.append(row)
                continue
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
        size = int(np.prod(shape, dtype=np.int64)) * self.source.form.dtype.itemsize
        codecs = [codec for codec in self.target.chains[chain].codecs if not codec.identity]
        # Nobody decodes what is taken over: what is known of its size is looked at.
        while codecs and codecs[0].of_items and (filtered := codecs[0].encoded_size(size)) is not None:
            size = filtered
            codecs = codecs[1:]
        if not codecs and len(payload) != size and self.source.value_codec is None:
            return None
        if len(codecs) == 1 and self.source.value_codec is None and not codecs[0].reads_as(payload, size):
            return None
        return self.target.framed(payload, theirs)


def _effort(codec: Codec) -> Any:
    return {name: value for name, value in codec.config().items() if name in codec.encoding_only}


def _same_fill(source: Layout, target: Layout) -> bool:
    mine = np.asarray(source.fill_value, source.form.dtype)
    theirs = np.asarray(target.fill_value, target.form.dtype)
    return mine.tobytes() == theirs.tobytes()
