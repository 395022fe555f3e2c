"""Moves items between an array's chunks and memory, whatever the format: the way of the data, step by step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.engine.arriving import arriving
from zvcore.engine.buffers import Buffers, Keys
from zvcore.engine.fetching import StaleSourcesError, at_hand, fetch
from zvcore.engine.form import Form
from zvcore.engine.packer import Packer
from zvcore.engine.read import fetch_native, read_chunks
from zvcore.engine.selection import Selection
from zvcore.engine.write import encode_chunks, encode_many
from zvcore.errors import ConflictError, ReadOnlyError
from zvcore.stores.base import give_way
from zvcore.stores.locks import held_locks
from zvcore.stores.writing import ANYTHING

if TYPE_CHECKING:
    from zvcore.layout import ChunkForm, Layout, Sources

__all__ = ["encode", "put", "read", "read_blocks", "read_encoded", "update", "write", "write_gathered"]

Progress = Callable[[int, int], Any]
Rows = npt.NDArray[np.intp]

# How many chunks one native batch takes at most; bounds the memory for their positions and names.
_BATCH_CHUNKS = 1 << 16
# How many bytes of chunks are written to shards in one go, which need no memory.
_PACK_BYTES = 512 << 20
# How many bytes of chunks are fetched before they are decoded, from stores that are neither local nor remote.
_BATCH_BYTES = 64 << 20
# How many objects are locked at once for read-modify-write.
_BATCH_LOCKS = 128
# How often a read or write begins anew because somebody else changed the object in the meantime.
_ATTEMPTS = 100
_NO_STAMPS: Mapping[str, Hashable] = MappingProxyType({})


class _Steps:
    """Progress over several batches, told as one."""

    def __init__(self, callback: Progress | None, total: int) -> None:
        self.callback = callback
        self.total = total
        self.before = 0

    def of(self, count: int) -> Progress | None:
        callback = self.callback
        if callback is None:
            return None
        start = self.before
        self.before += count

        def tell(done: int, items: int) -> None:
            callback(start + done * count // max(items, 1), self.total)

        return tell


def _windows(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def read(
    layout: Layout, selection: Selection, out: npt.NDArray[Any], threads: int | None, progress: Progress | None
) -> None:
    """Read the selected items into `out`, whose shape is the selection's `result_shape`."""
    if out.size == 0:
        return
    # Who holds a lock reads what is opened anew.
    shards = None if held_locks or progress is not None else layout.open_shards
    if shards is not None and shards.read(layout.prepared, selection, layout.chains[0], out):
        return
    chunk_shape = layout.form.shape
    positions = selection.positions(chunk_shape)
    count = len(positions)
    if count == 1 and progress is None:
        # What it gives must not go before the read is done.
        shard = None if shards is None else layout.open_shard(positions)
        if shard and shards and shards.read(layout.prepared, selection, layout.chains[0], out):
            return
        _read_window(layout, selection, positions, None, out, threads, None)
        return
    steps = _Steps(progress, count)
    size = _BATCH_CHUNKS if layout.store.local_root is not None else _window_size(layout)
    if count <= size:
        _read_window(layout, selection, positions, None, out, threads, steps)
        return
    for window in _windows(count, size):
        rows = np.arange(window.start, window.stop)
        _read_window(layout, selection, positions[window], rows, out, threads, steps)


def _window_size(layout: Layout) -> int:
    """How many chunks are fetched one after the other; what is behind a network comes in smaller parts by itself."""
    if layout.store.remote:
        return _BATCH_CHUNKS
    return max(1, min(_BATCH_CHUNKS, _BATCH_BYTES // max(1, layout.chunk_nbytes)))


def _read_window(
    layout: Layout,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    rows: Rows | None,
    out: npt.NDArray[Any],
    threads: int | None,
    steps: _Steps | None,
) -> None:
    count = len(positions)
    decode = _read_native if layout.value_codec is None else _read_values
    before = 0 if steps is None else steps.before
    for _ in range(_ATTEMPTS):
        try:
            sources = layout.locate(positions)
            if layout.store.local_root is not None:
                progress = None if steps is None else steps.of(count)
                decode(layout, selection, positions, rows, sources, out, threads, progress)
                return
            for some, here in arriving(layout.store, sources, count, layout.chunk_nbytes):
                progress = None if steps is None else steps.of(count if some is None else len(some))
                if some is None:
                    decode(layout, selection, positions, rows, here, out, threads, progress)
                else:
                    among = some if rows is None else rows[some]
                    decode(layout, selection, positions[some], among, here, out, threads, progress)
        except StaleSourcesError:
            if steps is not None:
                steps.before = before
            continue
        return
    raise ConflictError("the objects are being replaced faster than they can be read", key=layout.store.root)


def read_blocks(layout: Layout, positions: npt.NDArray[np.int64], threads: int | None) -> list[npt.NDArray[Any] | None]:
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
    for attempt in range(_ATTEMPTS):
        try:
            if len(rows):
                _read_stacked(layout, positions, rows, shapes, found, threads)
            if single:
                for row, values in zip(single, layout.store.each(partial(_read_block, layout, positions), single)):
                    found[row] = values
        except StaleSourcesError:
            give_way(attempt)
            continue
        return found
    raise ConflictError("the objects are being replaced faster than they can be read", key=layout.store.root)


def _read_block(layout: Layout, positions: npt.NDArray[np.int64], row: int) -> npt.NDArray[Any] | None:
    position = positions[row : row + 1]
    sources = at_hand(layout.store, layout.locate(position), 1)
    if sources.blobs is None or sources.blobs[0] is None:
        return None
    place = tuple(position[0].tolist())
    region = tuple(slice(i * n, min((i + 1) * n, end)) for i, n, end in zip(place, layout.form.shape, layout.shape))
    selection = Selection.basic(region, layout.shape)
    out = np.empty(selection.result_shape, layout.form.dtype)
    if layout.value_codec is not None:
        _read_values(layout, selection, position, None, sources, out, 1, None)
    else:
        _read_native(layout, selection, position, None, sources, out, 1, None)
    return out


def read_encoded(layout: Layout, positions: npt.NDArray[np.int64]) -> Buffers:
    """The bytes of the chunks at these grid positions as they are stored."""
    for attempt in range(_ATTEMPTS):
        sources = layout.locate(positions)
        sources.chain = None
        try:
            return fetch(layout.store, sources, count=len(positions), max_size=1 << 62)
        except StaleSourcesError:
            give_way(attempt)
    raise ConflictError("the objects are being replaced faster than they can be read", key=layout.store.root)


def _name_of(layout: Layout, positions: npt.NDArray[np.int64], row: int) -> str:
    return layout.chunk_name(tuple(positions[row].tolist()))


def _read_stacked(
    layout: Layout,
    positions: npt.NDArray[np.int64],
    rows: Rows,
    shapes: list[tuple[int, ...] | None],
    found: list[npt.NDArray[Any] | None],
    threads: int | None,
) -> None:
    """Read chunks as if they lay behind each other in an array. `shapes`: of those that the end cuts."""
    form = layout.form
    axes = form.axes or tuple(range(len(form.shape)))
    for window in _windows(len(rows), _window_size(layout)):
        wanted = rows[window]
        sources = layout.locate(positions[wanted])
        for some, here in arriving(layout.store, sources, len(wanted), layout.chunk_nbytes):
            batch = wanted if some is None else wanted[some]
            stack, parts = _stack(form, axes, len(batch))
            places = np.zeros((len(batch), len(axes)), np.int64)
            if axes:
                places[:, axes[0]] = np.arange(len(batch))
            read_chunks(
                Form(form, stack.shape, layout.fill_value, layout.framing),
                Selection.basic(..., stack.shape),
                places,
                here,
                layout.chains,
                stack,
                root=layout.store.local_root,
                threads=threads,
                names=partial(_name_of, layout, positions[batch]),
            )
            assert here.blobs is not None
            for row, part, blob in zip(batch.tolist(), parts, here.blobs, strict=True):
                if blob is not None:
                    cut = shapes[row]
                    found[row] = part if cut is None else part[tuple([slice(end) for end in cut])]


def _stack(form: ChunkForm, axes: tuple[int, ...], count: int) -> tuple[npt.NDArray[Any], list[npt.NDArray[Any]]]:
    """(an array of so many chunks behind each other, the chunks)."""
    shape = [*form.shape]
    if not axes:
        stack = np.empty((), form.dtype)
        return stack, [stack] * count
    axis, extent = axes[0], shape[axes[0]]
    shape[axis] *= count
    last = len(axes) > 1 and axis == len(shape) - 1
    stack = np.empty(shape, form.dtype, order="F" if last else "C")
    before = (slice(None),) * axis
    return stack, [stack[(*before, slice(start, start + extent))] for start in range(0, shape[axis], extent)]


def _read_native(
    layout: Layout,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    rows: Rows | None,
    sources: Sources,
    out: npt.NDArray[Any],
    threads: int | None,
    progress: Progress | None,
) -> None:
    read_chunks(
        layout.prepared,
        selection,
        positions,
        sources,
        layout.chains,
        out,
        root=layout.store.local_root,
        rows=rows,
        threads=threads,
        progress=progress,
        names=lambda row: layout.chunk_name(tuple(positions[row].tolist())),
    )


def _read_values(
    layout: Layout,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    rows: Rows | None,
    sources: Sources,
    out: npt.NDArray[Any],
    threads: int | None,
    progress: Progress | None,
) -> None:
    """`read` for chunks whose bytes only Python can turn into values."""
    codec = layout.value_codec
    assert codec is not None
    chunk_shape = layout.form.shape
    stored = fetch_native(
        sources,
        len(positions),
        layout.chains,
        root=layout.store.local_root,
        threads=threads,
        progress=progress,
        names=lambda row: layout.chunk_name(tuple(positions[row].tolist())),
    )
    # A view in the shape that keeps the axes of integers; where the output's strides do not allow one, a copy.
    target = out.reshape(-1) if selection.is_points else out.reshape(selection.full_shape)
    for i, position in enumerate(positions):
        within, place = selection.share(position, chunk_shape, i if rows is None else int(rows[i]))
        data = stored[i]
        if data is None:
            target[place] = layout.fill_value
        else:
            target[place] = layout.decode_values(data, tuple(position.tolist()))[within]
    if not np.shares_memory(target, out):
        out[...] = target.reshape(out.shape)


def write(
    layout: Layout, selection: Selection, value: npt.NDArray[Any], threads: int | None, progress: Progress | None
) -> None:
    """Assign `value`, which has the selection's `result_shape` and the array's dtype, to the selected items."""
    if value.size == 0:
        return
    _check_writable(layout)
    positions = selection.positions(layout.form.shape)
    covered = selection.covered(positions, layout.form.shape)
    steps = _Steps(progress, len(positions))
    if not layout.sharded:
        _write_chunks(layout, selection, positions, covered, value, threads, steps)
    else:
        _write_shards(layout, selection, positions, covered, value, threads, steps)


def _check_writable(layout: Layout) -> None:
    # The engine's threads write files without asking the store.
    if layout.store.read_only:
        raise ReadOnlyError(f"{layout.store.root} was opened for reading")


def _encode(
    layout: Layout,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    rows: Rows,
    covered: npt.NDArray[np.bool_],
    value: npt.NDArray[Any],
    threads: int | None,
    progress: Progress | None,
    to_files: bool = False,
    packer: Packer | None = None,
    seen: dict[str, Hashable] | None = None,
    store_empty: bool | None = None,
) -> Buffers:
    """The chunks in `rows` with the new values in them, encoded. With `to_files` they are written at once, with a
    `packer` it takes them. `seen` takes the stamps of the shards from which old values came."""
    positions = positions[rows]
    covered = covered[rows]
    sources = None
    if not covered.all():
        sources = layout.locate(positions)
        if seen is not None and sources.stamps is not None:
            seen.update(zip(sources.keys, sources.stamps, strict=True))
        if layout.store.local_root is None:
            sources = at_hand(layout.store, sources, len(positions))
    if store_empty is None:
        store_empty = layout.store_empty
    if layout.value_codec is not None:
        return _encode_values(layout, selection, positions, rows, covered, sources, value, threads, store_empty)
    root = layout.store.local_root
    result = encode_chunks(
        layout.prepared,
        selection,
        positions,
        covered,
        sources,
        layout.chains,
        value,
        rows=rows if selection.is_points else None,
        chain=layout.chain_column(positions),
        store_empty=store_empty,
        keys=layout.keys(positions) if to_files else None,
        packer=packer,
        root=root,
        sync=getattr(layout.store, "fsync", False),
        threads=threads,
        progress=progress,
        names=lambda row: layout.chunk_name(tuple(positions[row].tolist())),
    )
    return Buffers(0) if result is None else result


def _encode_values(
    layout: Layout,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    rows: Rows,
    covered: npt.NDArray[np.bool_],
    sources: Sources | None,
    value: npt.NDArray[Any],
    threads: int | None,
    store_empty: bool,
) -> Buffers:
    codec = layout.value_codec
    assert codec is not None
    old = None
    if sources is not None:
        old = fetch_native(
            sources,
            len(positions),
            layout.chains,
            root=layout.store.local_root,
            threads=threads,
            names=lambda row: layout.chunk_name(tuple(positions[row].tolist())),
        )
    source = value.reshape(-1) if selection.is_points else value.reshape(selection.full_shape)
    encoded: list[bytes] = []
    present = []
    for i, position in enumerate(positions):
        data = None if old is None or covered[i] else old[i]
        where = tuple(position.tolist())
        if data is None:
            values = np.full(layout.block_shape(where), layout.fill_value, layout.form.dtype)
        else:
            values = layout.decode_values(data, where).copy()
        within, place = selection.share(position, layout.form.shape, int(rows[i]))
        values[within] = source[place]
        if store_empty or not layout.is_empty(values):
            present.append(i)
            encoded.append(codec.encode(values))
    results = encode_many(encoded, layout.chains[0], threads=threads)
    return results if len(present) == len(positions) else results.spread(present, len(positions))


def _write_chunks(
    layout: Layout,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    covered: npt.NDArray[np.bool_],
    value: npt.NDArray[Any],
    threads: int | None,
    steps: _Steps,
) -> None:
    """One object per chunk. Covered chunks are written without looking; for the others the object is locked."""
    store = layout.store
    native = store.local_root is not None and layout.value_codec is None
    size = _BATCH_CHUNKS if native else max(1, min(_BATCH_CHUNKS, _BATCH_BYTES // max(1, layout.chunk_nbytes)))
    whole = np.flatnonzero(covered)
    for window in _windows(len(whole), size):
        rows = whole[window]
        encoded = _encode(layout, selection, positions, rows, covered, value, threads, steps.of(len(rows)), native)
        if not native:
            _put(layout, list(layout.keys(positions[rows])), encoded)
    partial = np.flatnonzero(~covered)
    for window in _windows(len(partial), min(size, _BATCH_LOCKS)):
        rows = partial[window]
        keys = list(layout.keys(positions[rows]))
        tell = steps.of(len(rows))
        if store.can_lock:
            with ExitStack() as stack:
                for key in sorted(keys):
                    stack.enter_context(store.lock(key))
                encoded = _encode(layout, selection, positions, rows, covered, value, threads, tell, native)
                if not native:
                    _put(layout, keys, encoded)
        else:

            def change(work: tuple[int, str]) -> None:
                row, key = work
                _put_unlocked(layout, selection, positions, np.array([row]), covered, value, key)

            store.each(change, list(zip(rows.tolist(), keys, strict=True)))


def _put(layout: Layout, keys: list[str], encoded: Buffers, stamps: Mapping[str, Hashable] = _NO_STAMPS) -> None:
    """Store chunks as objects; those that have a stamp, only if they are still the ones that it was taken of."""

    def put(i: int) -> None:
        key, data = keys[i], encoded[i]
        if key in stamps:
            if data is not None:
                layout.store.put_if_unchanged(key, data, stamps[key])
        elif data is None:
            layout.store.delete(key)
        else:
            layout.store.put(key, data)

    layout.store.each(put, range(len(keys)))


def _put_unlocked(
    layout: Layout,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    rows: Rows,
    covered: npt.NDArray[np.bool_],
    value: npt.NDArray[Any],
    key: str,
) -> None:
    """Change one chunk in a store without locks: begin anew whenever somebody else was quicker."""
    for attempt in range(_ATTEMPTS):
        stamp = layout.store.stamp(key)
        # Nothing can be removed under a condition, so a chunk that becomes empty is stored if it was there before.
        keep = layout.store_empty or stamp is not None
        data = _encode(layout, selection, positions, rows, covered, value, 1, None, store_empty=keep)[0]
        try:
            if data is not None:
                layout.store.put_if_unchanged(key, data, stamp)
        except ConflictError:
            give_way(attempt)
            continue
        return
    raise ConflictError("other writers keep changing this object", key=key)


def _write_shards(
    layout: Layout,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    covered: npt.NDArray[np.bool_],
    value: npt.NDArray[Any],
    threads: int | None,
    steps: _Steps,
) -> None:
    """Several chunks in one object. As many objects at a time as keep the threads busy."""
    window: list[tuple[str, Rows]] = []
    held = 0
    limit = _BATCH_BYTES if layout.store.local_root is None else _PACK_BYTES
    for key, rows in sorted(layout.shards(positions), key=lambda group: group[0]):
        window.append((key, rows))
        held += len(rows) * layout.chunk_nbytes
        if held >= limit or len(window) >= _BATCH_LOCKS:
            _write_shard_window(layout, selection, positions, covered, value, threads, steps, window)
            window, held = [], 0
    if window:
        _write_shard_window(layout, selection, positions, covered, value, threads, steps, window)


def _write_shard_window(
    layout: Layout,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    covered: npt.NDArray[np.bool_],
    value: npt.NDArray[Any],
    threads: int | None,
    steps: _Steps,
    window: list[tuple[str, Rows]],
) -> None:
    if not layout.store.can_lock:
        _write_unlocked_window(layout, selection, positions, covered, value, threads, steps, window)
        return
    for _ in range(_ATTEMPTS):
        try:
            with ExitStack() as stack:
                for key, _rows in window:
                    stack.enter_context(layout.store.lock(key))
                _pack_shards(layout, selection, positions, covered, value, threads, steps, window)
                while window:
                    batch = _leading(window, max(1, _BATCH_BYTES // max(1, layout.chunk_nbytes)))
                    rows = np.concatenate([rows for _key, rows in batch])
                    encoded = _encode(layout, selection, positions, rows, covered, value, threads, steps.of(len(rows)))
                    start = 0
                    for key, own in batch:
                        layout.update(key, positions[own], encoded.select(range(start, start + len(own))))
                        start += len(own)
                        window.pop(0)
        except (StaleSourcesError, ConflictError):
            # Somebody who does not take our locks.
            continue
        return
    raise ConflictError("other writers keep changing this object", key=window[0][0])


def _write_unlocked_window(
    layout: Layout,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    covered: npt.NDArray[np.bool_],
    value: npt.NDArray[Any],
    threads: int | None,
    steps: _Steps,
    window: list[tuple[str, Rows]],
) -> None:
    """Shards in a store without locks: those that somebody else has changed meanwhile are begun anew."""
    while window:
        batch = _leading(window, max(1, _BATCH_BYTES // max(1, layout.chunk_nbytes)))
        window = window[len(batch) :]
        for attempt in range(_ATTEMPTS):
            batch = _write_unlocked_once(layout, selection, positions, covered, value, threads, steps, batch)
            if not batch:
                break
            give_way(attempt)
        else:
            raise ConflictError("other writers keep changing this object", key=batch[0][0])


def _write_unlocked_once(
    layout: Layout,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    covered: npt.NDArray[np.bool_],
    value: npt.NDArray[Any],
    threads: int | None,
    steps: _Steps,
    window: list[tuple[str, Rows]],
) -> list[tuple[str, Rows]]:
    """Which shards are still to be written."""
    rows = np.concatenate([rows for _key, rows in window])
    seen: dict[str, Hashable] = {}
    try:
        encoded = _encode(layout, selection, positions, rows, covered, value, threads, steps.of(len(rows)), seen=seen)
    except (StaleSourcesError, ConflictError):
        return window
    ends = np.cumsum([len(own) for _key, own in window]).tolist()

    def store(number: int) -> bool:
        key, own = window[number]
        chunks = encoded.select(range(ends[number] - len(own), ends[number]))
        # Where chunks keep old values, the shard must still be the one that these came from.
        stamp = ANYTHING if covered[own].all() else seen.get(key)
        try:
            layout.update(key, positions[own], chunks, stamp)
        except (StaleSourcesError, ConflictError):
            return False
        return True

    done = layout.store.each(store, range(len(window)))
    return [work for work, stored in zip(window, done, strict=True) if not stored]


def _leading(window: list[tuple[str, Rows]], most: int) -> list[tuple[str, Rows]]:
    """The first shards of a window: together at most so many chunks, but at least one shard."""
    count = 0
    for number, (_key, rows) in enumerate(window):
        count += len(rows)
        if number and count > most:
            return window[:number]
    return window[:]


def _pack_shards(
    layout: Layout,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    covered: npt.NDArray[np.bool_],
    value: npt.NDArray[Any],
    threads: int | None,
    steps: _Steps,
    window: list[tuple[str, Rows]],
) -> None:
    """Write those shards that are replaced as a whole while their chunks are encoded; they leave the window."""
    packing = Packing.of(layout, positions, window)
    if packing is None:
        return
    rows = packing.rows
    packer = packing.packer(np.arange(len(rows)))
    _encode(layout, selection, positions, rows, covered, value, threads, steps.of(len(rows)), packer=packer)
    packing.finish(packer, packer.sizes)


@dataclass
class Packing:
    """Shards that are replaced as a whole, written while their chunks are encoded.

    rows      of `positions`: their chunks, in the order in which they will lie in them
    bounds    the chunks of shard i are rows[bounds[i]:bounds[i + 1]]
    """

    layout: Layout
    positions: npt.NDArray[np.int64]
    keys: list[str]
    rows: Rows
    bounds: npt.NDArray[np.int64]

    @classmethod
    def of(cls, layout: Layout, positions: npt.NDArray[np.int64], window: list[tuple[str, Rows]]) -> Packing | None:
        """Those of these shards that can be written so; they leave the window. Called under their locks."""
        if layout.store.local_root is None or layout.value_codec is not None:
            return None
        keys: list[str] = []
        rows: list[Rows] = []
        for key, own in list(window):
            order = layout.pack_order(key, positions[own])
            if order is not None:
                keys.append(key)
                rows.append(own[order])
                window.remove(next(one for one in window if one[0] == key))
        if not keys:
            return None
        bounds = np.cumsum([0, *(len(own) for own in rows)])
        return cls(layout, positions, keys, np.concatenate(rows), bounds)

    def packer(
        self,
        order: npt.NDArray[np.intp],
        work: npt.NDArray[np.intp] | None = None,
        work_bounds: npt.NDArray[np.intp] | None = None,
    ) -> Packer:
        """What takes the encoded chunks; `order` gives the number that the engine has for each of `rows`."""
        root = self.layout.store.local_root
        assert root is not None
        return Packer(Keys.of(self.keys), root, order, self.bounds, self.layout.pack_head, work, work_bounds)

    def finish(self, packer: Packer, sizes: npt.NDArray[np.uint64]) -> None:
        """Put the shards in their places. `sizes` are those of the encoded chunks, a row for each of `rows`."""
        sync = getattr(self.layout.store, "fsync", False)
        for number, key in enumerate(self.keys):
            span = slice(int(self.bounds[number]), int(self.bounds[number + 1]))
            own = self.positions[self.rows[span]]
            self.layout.pack(key, own, np.arange(len(own)), sizes[span], partial(packer.finish, number, sync=sync))


def encode(
    layout: Layout,
    selection: Selection,
    positions: npt.NDArray[np.int64],
    rows: Rows,
    value: npt.NDArray[Any],
    threads: int | None,
) -> Buffers:
    """The selection's chunks in `rows` of its `positions`, all of them covered by it, encoded and not yet stored."""
    covered = np.ones(len(positions), np.bool_)
    return _encode(layout, selection, positions, rows, covered, value, threads, None)


def put(layout: Layout, positions: npt.NDArray[np.int64], chunks: Buffers) -> None:
    """Store encoded chunks as they are, whether several lie in one object or not; absent ones are taken out."""
    _check_writable(layout)
    if layout.sharded:
        update(layout, positions, chunks)
    else:
        _put(layout, list(layout.keys(positions)), chunks)


def update(layout: Layout, positions: npt.NDArray[np.int64], chunks: Buffers) -> None:
    """Put encoded chunks into their shards as they are; absent ones are taken out."""
    _check_writable(layout)
    for key, rows in sorted(layout.shards(positions), key=lambda group: group[0]):
        for attempt in range(_ATTEMPTS):
            try:
                with layout.store.lock(key) if layout.store.can_lock else nullcontext():
                    layout.update(key, positions[rows], chunks.select(rows))
            except (StaleSourcesError, ConflictError):
                if not layout.store.can_lock:
                    give_way(attempt)
                continue
            break
        else:
            raise ConflictError("other writers keep changing this object", key=key)


def write_gathered(
    layout: Layout,
    box: tuple[tuple[int, int], ...],
    values: npt.NDArray[Any],
    missing: list[tuple[tuple[int, int], ...]],
    threads: int | None,
) -> None:
    """Write `values` to a box of whole chunks, except for the parts of it that are `missing` in them.

    Chunks that are missing altogether stay as they are; those that are missing in part are completed from the store.
    """
    _check_writable(layout)
    selection = Selection.basic(tuple(slice(start, stop) for start, stop in box), layout.shape)
    if not missing:
        write(layout, selection, values, threads, None)
        return
    positions = selection.positions(layout.form.shape)
    extents = np.array(layout.form.shape, np.int64)
    begin = positions * extents
    end = np.minimum(begin + extents, np.array(layout.shape, np.int64))
    lacking = np.zeros(len(positions), np.int64)
    for hole in missing:
        low = np.maximum(begin, [start for start, _ in hole])
        high = np.minimum(end, [stop for _, stop in hole])
        lacking += np.prod(np.maximum(high - low, 0), axis=1)
    rows = np.flatnonzero(lacking < np.prod(end - begin, axis=1))
    if layout.sharded:
        keys = layout.shards(positions[rows])
    else:
        keys = [(key, np.array([row])) for row, key in enumerate(layout.keys(positions[rows]))]
    whole = np.ones(len(positions), np.bool_)
    store = layout.store
    for attempt in range(_ATTEMPTS):
        try:
            with ExitStack() as stack:
                stamps: dict[str, Hashable] = {}
                if store.can_lock:
                    for key in sorted(key for key, _ in keys):
                        stack.enter_context(store.lock(key))
                else:
                    completed = [key for key, own in keys if (lacking[rows[own]] > 0).any()]
                    stamps.update(zip(completed, store.each(store.stamp, completed), strict=True))
                for row in rows[lacking[rows] > 0].tolist():
                    _complete(layout, box, values, missing, begin[row], end[row])
                # See `_put_unlocked`.
                keep = layout.store_empty or (not layout.sharded and any(s is not None for s in stamps.values()))
                encoded = _encode(layout, selection, positions, rows, whole, values, threads, None, store_empty=keep)
                for key, own in keys:
                    if layout.sharded:
                        layout.update(key, positions[rows[own]], encoded.select(own), stamps.get(key, ANYTHING))
                    else:
                        _put(layout, [key], encoded.select(own), stamps)
        except (StaleSourcesError, ConflictError):
            if not store.can_lock:
                give_way(attempt)
            continue
        return
    raise ConflictError("other writers keep changing this object", key=keys[0][0])


def _complete(
    layout: Layout,
    box: tuple[tuple[int, int], ...],
    values: npt.NDArray[Any],
    missing: list[tuple[tuple[int, int], ...]],
    begin: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
) -> None:
    """Fill the missing parts of one chunk in `values` with what the store has."""
    for hole in missing:
        part = [(max(a, int(c)), min(b, int(d))) for (a, b), c, d in zip(hole, begin, end, strict=True)]
        if any(start >= stop for start, stop in part):
            continue
        stored = np.empty([stop - start for start, stop in part], values.dtype)
        selection = Selection.basic(tuple(slice(start, stop) for start, stop in part), layout.shape)
        read(layout, selection, stored, 1, None)
        place = tuple(slice(start - base, stop - base) for (start, stop), (base, _) in zip(part, box, strict=True))
        values[place] = stored
