"""From chunks to memory."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from zvcore import codecs
from zvcore.boxes import box_of, slices
from zvcore.engine.buffers import Buffers
from zvcore.engine.chunks import Chunks, StaleSourcesError
from zvcore.engine.fetching import at_hand, fetch, in_file
from zvcore.engine.form import Form
from zvcore.engine.narrowing import narrowed
from zvcore.engine.read import fetch_chunks, parts_wanted, read_chunks
from zvcore.engine.selection import Selection
from zvcore.engine.sources import ABSENT
from zvcore.engine.steady import CHANGED, steadily
from zvcore.engine.streaming import arriving
from zvcore.engine.work import Work
from zvcore.errors import CorruptDataError, UnsupportedError, ZvcoreError
from zvcore.stores.again import BEING_REPLACED, again
from zvcore.stores.locks import held_locks
from zvcore.transfer.batches import BATCH_BYTES, BATCH_CHUNKS, Steps, windows
from zvcore.transfer.results import empty
from zvcore.transfer.windows import position_windows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zvcore.codecs import CodecChain
    from zvcore.engine.sources import Sources
    from zvcore.layout import ChunkForm, Layout
    from zvcore.transfer.batches import Positions, Rows

__all__ = [
    "read", "read_blocks", "read_decoded", "read_encoded", "read_in_windows", "read_positions", "read_window",
    "stored_sizes", "window_size",
]  # fmt: skip

# A single chunk of no more bytes than these is asked for.
_SMALL = 1 << 20
# This many chunks are decoded at a time from a store that may not take much memory.
_AT_ONCE = 8


def read(layout: Layout, selection: Selection, out: npt.NDArray[Any], work: Work) -> bool:
    """Read the selected items into `out`, whose shape is the selection's `result_shape`.

    Whether they are known to be the array's: found in a shard that is proven to be, or the array's document was seen to
    be as before when that was done. So nobody has removed it, or put another in its place.
    """
    if out.size == 0:
        return False
    if work.progress is None and layout.read_at_once(selection, out):
        return False
    try:
        # A caller that holds a lock reads a reopened file.
        shards = None if held_locks or work.progress is not None else layout.open_shards
        if held_locks:
            work = work.unwatched()
        proven = None if shards is None else shards.read(layout.prepared, selection, out, work)
        if proven is not None:
            return proven
        # Neighbours in memory follow each other: they share lines of the caches.
        reversed_axes = out.ndim > 1 and abs(out.strides[0]) < abs(out.strides[-1])
        positions = selection.positions(layout.form.shape, most=BATCH_CHUNKS, reversed=reversed_axes)
        if positions is None:
            steps = Steps(work, math.prod(selection.chunk_counts(layout.form.shape)))
            for positions in position_windows(selection, layout.form.shape, BATCH_CHUNKS):
                read_positions(layout, selection, positions, out, steps)
            return False
        count = len(positions)
        if count == 1 and shards is not None:
            # Its result must stay alive until the read is done.
            shard = layout.open_shard(positions)
            if shard and shards.read(layout.prepared, selection, out, work) is not None:
                return False
        steps = Steps(work, count)
        if count == 1:
            return read_window(layout, positions, None, Selected(layout, selection, out), steps)
        return read_positions(layout, selection, positions, out, steps)
    except CorruptDataError as error:
        raise layout.store.explained(error)


class Into(Protocol):
    """What becomes of chunks."""

    def narrowed(self, chunks: Chunks) -> Sources:
        """Sources that give no more of chunks far away than is needed."""
        ...

    def take(self, chunks: Chunks, work: Work) -> bool:
        """Decode them: whether the array's document was seen to be as before when that was done."""
        ...


@dataclass(frozen=True)
class Selected:
    """The selected items are read into `out`."""

    layout: Layout
    selection: Selection
    out: npt.NDArray[Any]

    def narrowed(self, chunks: Chunks) -> Sources:
        return narrowed(self.layout.store, chunks, partial(parts_wanted, selection=self.selection, out=self.out))

    def take(self, chunks: Chunks, work: Work) -> bool:
        return _decode(self.layout, chunks, self.selection, self.out, work)


def read_positions(
    layout: Layout, selection: Selection, positions: Positions, out: npt.NDArray[Any], steps: Steps
) -> bool:
    """Read the selected items of these chunks, as many at a time as are fetched before they are decoded: whether the
    array's document was seen to be as before each time.

    Of points, these are all that the selection touches.
    """
    return read_in_windows(layout, positions, Selected(layout, selection, out), steps, by_rows=selection.is_points)


def read_in_windows(layout: Layout, positions: Positions, into: Into, steps: Steps, *, by_rows: bool) -> bool:
    """`read_positions` into anything; `by_rows`: it has to know which of the chunks those of a window are."""
    size = window_size(layout, steps.work)
    if len(positions) <= size:
        return read_window(layout, positions, None, into, steps)
    seen = True
    for window in windows(len(positions), size):
        rows = np.arange(window.start, window.stop) if by_rows else None
        seen &= read_window(layout, positions[window], rows, into, steps)
    return seen


def window_size(layout: Layout, work: Work) -> int:
    """How many chunks are fetched (and decoded, if only Python makes values of them) before the next are."""
    local = layout.store.local_root is not None and layout.value_codec is None
    # What is behind a network comes in smaller parts by itself.
    if local or layout.store.remote:
        return BATCH_CHUNKS
    return max(1, min(BATCH_CHUNKS, work.ahead(BATCH_BYTES) // max(1, layout.chunk_nbytes)))


def read_window(layout: Layout, positions: Positions, rows: Rows | None, into: Into, steps: Steps) -> bool:
    """Read these chunks, all at once: whether the array's document was seen to be as before when that was done; `rows`:
    which they are of those of a selection of points.
    """
    before = steps.before
    ranges = None if layout.known_ranges is None else layout.known_ranges.recall(positions, layout.store)
    if ranges is not None:
        # Whatever is wrong: who asks for the chunks by their names says of which.
        with suppress(ZvcoreError, StaleSourcesError):
            chunks = Chunks(layout.prepared.with_root(ranges[0]), positions, ranges[1], rows)
            return into.take(chunks, steps.of(len(positions)))
        steps.before = before
    known = layout.recall(positions)
    if known is not None:
        try:
            return _take(layout, positions, known, rows, into, steps)
        except CHANGED:
            pass
    for attempt in again(layout.store.root, BEING_REPLACED, on=CHANGED):
        steps.before = before
        with attempt:
            first = layout.fetch_first(positions) if len(positions) == 1 else None
            return _take(layout, positions, first or layout.locate(positions), rows, into, steps)
    return False


def _take(layout: Layout, positions: Positions, sources: Sources, rows: Rows | None, into: Into, steps: Steps) -> bool:
    """`read_window` of what has been located."""
    count, prepared = len(positions), layout.prepared
    if layout.store.local_root is None:
        within = in_file(layout.store, sources, count) if _is_worth_it(layout, count) else None
        if within is None:
            _take_arriving(layout, positions, sources, rows, into, steps)
            return False
        prepared, sources = prepared.with_root(within[0]), within[1]
        if layout.known_ranges is not None:
            layout.known_ranges.note(positions, within[0], sources)
    return into.take(Chunks(prepared, positions, sources, rows), steps.of(count))


def _take_arriving(
    layout: Layout, positions: Positions, sources: Sources, rows: Rows | None, into: Into, steps: Steps
) -> None:
    if layout.store.remote and layout.value_codec is None:
        sources = into.narrowed(Chunks(layout.prepared, positions, sources, rows))
    for some, here in arriving(layout.store, sources, len(positions), layout.chunk_nbytes, steps.work):
        if some is None:
            chunks = Chunks(layout.prepared, positions, here, rows)
        else:
            chunks = Chunks(layout.prepared, positions[some], here, some if rows is None else rows[some])
        into.take(chunks, steps.of(len(chunks)))
        # Before the next parts are fetched, their memory is free again.
        del here, chunks


def _is_worth_it(layout: Layout, count: int) -> bool:
    """Whether to ask where in a file chunks lie, and not just for them. Who wants a single one, and only once, has it
    sooner so.
    """
    ranges = layout.known_ranges
    return ranges is not None and (count > 1 or layout.chunk_nbytes > _SMALL or ranges.asked_again)


def read_blocks(layout: Layout, positions: Positions, work: Work) -> list[npt.NDArray[Any] | None]:
    """The chunks at these grid positions, cut at the array's end; None for those that are not stored."""
    found: list[npt.NDArray[Any] | None] = [None] * len(positions)
    shape = np.array(layout.form.shape, np.int64)
    visible = np.minimum(shape, np.array(layout.shape, np.int64) - positions * shape)
    cut: npt.NDArray[np.bool_] = np.any(visible < shape, axis=1)
    # Chunks that are stored as they are seen have a form of their own.
    alone = cut & (layout.form.edge != "full") | (layout.value_codec is not None)
    single = np.flatnonzero(alone).tolist()
    rows = np.flatnonzero(~alone)
    shapes = [tuple(one) if smaller else None for one, smaller in zip(visible.tolist(), cut.tolist(), strict=True)]
    try:
        for attempt in again(layout.store.root, BEING_REPLACED, on=CHANGED):
            with attempt:
                if len(rows):
                    _read_stacked(layout, positions, rows, shapes, found, work)
                if single:
                    for row, values in zip(single, layout.store.each(partial(_read_block, layout, positions), single)):
                        found[row] = values
    except CorruptDataError as error:
        raise layout.store.explained(error)
    return found


def _read_block(layout: Layout, positions: Positions, row: int) -> npt.NDArray[Any] | None:
    position = positions[row : row + 1]
    sources = at_hand(layout.store, layout.locate(position), 1)
    if sources.blobs is None or sources.blobs[0] is None:
        return None
    place = tuple(position[0].tolist())
    region = slices(box_of(place, layout.form.shape, layout.shape))
    selection = Selection.basic(region, layout.shape)
    out = empty(selection.result_shape, layout.form.dtype)
    _decode(layout, Chunks(layout.prepared, position, sources), selection, out, Work(1))
    return out


def stored_sizes(layout: Layout, positions: Positions) -> npt.NDArray[np.uint64]:
    """How many bytes are stored of the chunks at these grid positions; ABSENT for those that are not stored."""
    sources = layout.locate(positions)
    if sources.length is not None:
        return np.asarray(sources.length, np.uint64)
    sizes = layout.store.sizes(sources.keys)
    return np.array([ABSENT if size is None else size for size in sizes], np.uint64)


def read_encoded(layout: Layout, positions: Positions, threads: int | None = None) -> Buffers:
    """The bytes of the chunks at these grid positions as they are stored."""
    return _fetched(layout, positions, (), 1 << 62, threads)


def read_decoded(layout: Layout, positions: Positions, threads: int | None = None) -> Buffers:
    """The bytes of the chunks at these grid positions as the layout's chains decode them.

    Of a store that may not take much memory, a few are decoded at a time, and up to its limit in all.
    """
    most = layout.store.largest
    if most is None or not len(positions):
        return _fetched(layout, positions, layout.chains, None, threads)
    parts: list[Buffers] = []
    for window in windows(len(positions), _AT_ONCE):
        ceiling = min(most // _AT_ONCE, codecs.max_decoded_size)
        parts.append(_fetched(layout, positions[window], layout.chains, ceiling, threads))
        if sum(part.nbytes for part in parts) > most:
            name = layout.chunk_name(tuple(positions[0].tolist()))
            raise UnsupportedError("more than may be decoded at once", key=name, expected=f"at most {most} bytes")
    return Buffers.chain(parts)


def _fetched(
    layout: Layout, positions: Positions, chains: Sequence[CodecChain], max_size: int | None, threads: int | None
) -> Buffers:
    def located() -> Buffers:
        sources = layout.locate(positions)
        if not chains:
            sources.chain = None
        return fetch(layout.store, sources, chains, count=len(positions), max_size=max_size, threads=threads)

    try:
        return steadily(located, layout.store.root)
    except CorruptDataError as error:
        raise layout.store.explained(error)


def _read_stacked(
    layout: Layout,
    positions: Positions,
    rows: Rows,
    shapes: list[tuple[int, ...] | None],
    found: list[npt.NDArray[Any] | None],
    work: Work,
) -> None:
    """Read chunks as if they lay one after the other in an array. `shapes`: of those that the end cuts."""
    form = layout.form
    axes = form.axes or tuple(range(len(form.shape)))
    for window in windows(len(rows), window_size(layout, work)):
        wanted = rows[window]
        sources = layout.locate(positions[wanted])
        for some, here in _with_presence(layout, sources, len(wanted), work):
            batch = wanted if some is None else wanted[some]
            stack, parts = _stack(form, axes, len(batch))
            places = np.zeros((len(batch), len(axes)), np.int64)
            if axes:
                places[:, axes[0]] = np.arange(len(batch))
            stacked = Form(form, stack.shape, layout.fill_value, layout.framing)
            chunks = Chunks(layout.prepared.with_form(stacked), places, here, known_as=positions[batch])
            read_chunks(chunks, Selection.basic(..., stack.shape), stack, work)
            for row, part, present in zip(batch.tolist(), parts, _present(here), strict=True):
                if present:
                    cut = shapes[row]
                    found[row] = part if cut is None else part[tuple([slice(end) for end in cut])]


def _with_presence(
    layout: Layout, sources: Sources, count: int, work: Work
) -> Iterable[tuple[npt.NDArray[np.intp] | None, Sources]]:
    """The sources, as they arrive, of which it is known whether each chunk is stored."""
    if layout.store.local_root is not None and sources.length is not None:
        # Ranges of files, which the engine's threads read.
        return [(None, sources)]
    return arriving(layout.store, sources, count, layout.chunk_nbytes, work)


def _present(sources: Sources) -> list[bool]:
    if sources.blobs is not None:
        return [blob is not None for blob in sources.blobs]
    assert sources.length is not None
    present: list[bool] = (sources.length != ABSENT).tolist()
    return present


def _stack(form: ChunkForm, axes: tuple[int, ...], count: int) -> tuple[npt.NDArray[Any], list[npt.NDArray[Any]]]:
    """(an array of this many chunks, one after the other; the chunks)."""
    shape = [*form.shape]
    if not axes:
        stack = np.empty((), form.dtype)
        return stack, [stack] * count
    axis, extent = axes[0], shape[axes[0]]
    shape[axis] *= count
    last = len(axes) > 1 and axis == len(shape) - 1
    stack = empty(tuple(shape), form.dtype, "F" if last else "C")
    before = (slice(None),) * axis
    return stack, [stack[(*before, slice(start, start + extent))] for start in range(0, shape[axis], extent)]


def _decode(layout: Layout, chunks: Chunks, selection: Selection, out: npt.NDArray[Any], work: Work) -> bool:
    """From stored bytes to the selected items, as `read_chunks`."""
    if layout.value_codec is None:
        return read_chunks(chunks, selection, out, work)
    _decode_values(layout, chunks, selection, out, work)
    return False


def _decode_values(layout: Layout, chunks: Chunks, selection: Selection, out: npt.NDArray[Any], work: Work) -> None:
    """`_decode` for chunks whose bytes only Python can turn into values."""
    positions, rows = chunks.positions, chunks.rows
    assert positions is not None
    stored = fetch_chunks(chunks, work)
    # A view in the shape that keeps the axes of integers; where the output's strides do not allow one, a copy.
    target = out.reshape(-1) if selection.is_points else out.reshape(selection.full_shape)
    for i, position in enumerate(positions):
        within, place = selection.share(position, layout.form.shape, i if rows is None else int(rows[i]))
        data = stored[i]
        if data is None:
            target[place] = layout.fill_value
        else:
            target[place] = layout.decode_values(data, tuple(position.tolist()))[within]
    if not np.shares_memory(target, out):
        out[...] = target.reshape(out.shape)
