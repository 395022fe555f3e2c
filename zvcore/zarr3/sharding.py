"""Where the inner chunks of a sharded Zarr v3 array live, and how a shard is put together anew."""

from __future__ import annotations

import itertools
import math
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from zvcore.engine import ABSENT, Buffers, Keys, Sources, index_cache
from zvcore.engine.single import OpenShards
from zvcore.errors import ConflictError, CorruptDataError, UnsupportedError
from zvcore.layout import Layout
from zvcore.stores.writing import ANYTHING, Anything
from zvcore.zarr3.layout import form_of
from zvcore.zarr3.nested import locate_nested
from zvcore.zarr3.shard_index import Index, index_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zvcore.codecs import CodecChain
    from zvcore.stores import Snapshot, Store
    from zvcore.zarr3.chain import Pipeline, Sharding
    from zvcore.zarr3.metadata import ArrayMetadata

__all__ = ["ShardLayout", "WriteMode"]

WriteMode = Literal["rewrite", "append", "inplace"]
Order = Literal["C", "F", "morton"]
Positions = npt.NDArray[np.int64]
Uints = npt.NDArray[np.uint64]

_NONE = np.uint64(ABSENT)
# Chunks of at least this are not copied together before they are written.
_JOIN_BYTES = 16 << 10


@dataclass(frozen=True)
class Level:
    """One level of shards, in the array's axes.

    cells   how many of this level's cells (inner shards, at last inner chunks) lie along each axis of its shard
    extent  how many inner chunks one cell spans along each axis
    order   the axes in the order in which the index counts the cells
    """

    sharding: Sharding
    cells: tuple[int, ...]
    extent: tuple[int, ...]
    order: tuple[int, ...]
    # The codecs behind the shards of this level; a shard behind any can only be read whole.
    codecs: Pipeline

    @cached_property
    def strides(self) -> npt.NDArray[np.int64]:
        """What one step along each axis adds to a cell's place in the index."""
        strides = np.zeros(len(self.cells), np.int64)
        step = 1
        for axis in reversed(self.order):
            strides[axis] = step
            step *= self.cells[axis]
        return strides

    def slots(self, positions: Positions) -> Positions:
        """The place in its shard's index of the cell that holds each inner chunk."""
        within = positions // np.array(self.extent, np.int64) % np.array(self.cells, np.int64)
        return within @ self.strides


def _levels(pipeline: Pipeline) -> tuple[list[Level], tuple[int, ...], tuple[int, ...]]:
    """(levels from the outermost inwards, shape of an inner chunk in the array's axes, its axes from slowest to
    fastest).
    """
    order = pipeline.axes
    shape = pipeline.shape
    found: list[tuple[Pipeline, Sharding, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = []
    while pipeline.sharding is not None:
        sharding = pipeline.sharding
        inner = [0] * len(shape)
        for i, axis in enumerate(order):
            inner[axis] = sharding.chunk_shape[i]
        cells = tuple(outer // one for outer, one in zip(shape, inner, strict=True))
        found.append((pipeline, sharding, cells, tuple(inner), order))
        shape = tuple(inner)
        pipeline = sharding.inner
        order = tuple(order[i] for i in pipeline.axes)
    levels = [
        Level(sharding, cells, tuple(one // last for one, last in zip(inner, shape, strict=True)), at, outer)
        for outer, sharding, cells, inner, at in found
    ]
    return levels, shape, order


class ShardLayout(Layout):
    """An array whose chunks lie together in shards, nested as deep as its metadata say."""

    def __init__(
        self,
        store: Store,
        metadata: ArrayMetadata,
        store_empty: bool = False,
        write_mode: WriteMode = "rewrite",
        order_in_shard: Order = "C",
        dead_bytes_threshold: float = 0.5,
    ) -> None:
        if write_mode not in ("rewrite", "append", "inplace"):
            raise ValueError(f"write_mode is 'rewrite', 'append' or 'inplace', not {write_mode!r}")
        if order_in_shard not in ("C", "F", "morton"):
            raise ValueError(f"order_in_shard is 'C', 'F' or 'morton', not {order_in_shard!r}")
        if not 0 <= dead_bytes_threshold <= 1:
            raise ValueError(f"dead_bytes_threshold lies between 0 and 1, not at {dead_bytes_threshold}")
        self.dead_bytes_threshold = dead_bytes_threshold
        self.store = store
        self.metadata = metadata
        self.shape = metadata.shape
        self.fill_value = metadata.fill_value
        self.store_empty = store_empty
        self.write_mode = write_mode
        self.order_in_shard = order_in_shard
        self.pipeline = metadata.pipeline
        self.levels, chunk_shape, axes = _levels(self.pipeline)
        self.innermost = self.pipeline.innermost
        self.form, self.value_codec = form_of(self.innermost, chunk_shape, axes)
        self.shard_shape = metadata.chunk_shape
        # Inner chunks per shard along each axis, all levels together.
        self.per_shard = np.array(
            [shard // chunk for shard, chunk in zip(self.shard_shape, chunk_shape, strict=True)], np.int64
        )
        self._per_shard = tuple(self.per_shard.tolist())
        # The common case: one level, and nothing behind the shard that would have to be undone first.
        self.simple = len(self.levels) == 1 and not self.pipeline.compressors
        # Whether each chunk is a range of its object.
        self.ranged = not store.blind and not any(level.codecs.compressors for level in self.levels)
        self._strides = tuple(self.levels[0].strides.tolist())

    @cached_property
    def chains(self) -> tuple[CodecChain, ...]:  # type: ignore[override]
        return (self.innermost.chain,)

    @cached_property
    def open_shards(self) -> OpenShards | None:  # type: ignore[override]
        grid = [-(-bound // extent) for bound, extent in zip(self.shape, self.metadata.chunk_shape, strict=True)]
        if not self.simple or self.value_codec is not None or self.store.local_root is None:
            return None
        return OpenShards(self._per_shard, self._strides, grid) if math.prod(grid) < 2**62 else None

    def __getstate__(self) -> dict[str, Any]:
        made_anew = ("chains", "open_shards")
        return {name: value for name, value in super().__getstate__().items() if name not in made_anew}

    # --- which shard

    def shard_key(self, shard: tuple[int, ...]) -> str:
        return self.metadata.keys(np.array([shard], np.int64).reshape(1, len(self.shape)))[0]

    def chunk_name(self, position: tuple[int, ...]) -> str:
        return self.shard_key(tuple(i // n for i, n in zip(position, self._per_shard, strict=True)))

    def _group(self, positions: Positions) -> tuple[Keys, npt.NDArray[np.int32]]:
        """(the keys of the shards, which of them holds each chunk)."""
        shards = positions // self.per_shard
        if len(shards) > 1:
            low = shards.min(axis=0)
            span = shards.max(axis=0) - low + 1
            strides = np.ones(len(span), np.int64)
            strides[:-1] = np.cumprod(span[:0:-1])[::-1]
            if float(np.prod(span.astype(float))) < 2**62:
                number = (shards - low) @ strides
                _, first, inverse = np.unique(number, return_index=True, return_inverse=True)
                return self.metadata.keys(shards[first]), inverse.reshape(-1).astype(np.int32)
            unique, inverse = np.unique(shards, axis=0, return_inverse=True)
            return self.metadata.keys(unique), inverse.reshape(-1).astype(np.int32)
        return self.metadata.keys(shards), np.zeros(len(shards), np.int32)

    def shards(self, positions: Positions) -> list[tuple[str, npt.NDArray[np.intp]]]:
        keys, which = self._group(positions)
        order = np.argsort(which, kind="stable")
        bounds = np.flatnonzero(np.diff(which[order])) + 1
        return list(zip(keys, np.split(order, bounds), strict=True))

    # --- reading

    def index(self, key: str, unchecked: bool = False) -> Index | None:
        """The index of a shard, from the cache if the object is still the same; None if there is no such shard.

        With `unchecked`, a remote object is not asked whether it is: who reads its chunks learns that.
        """
        form = self.levels[0].sharding.index

        def load(found: Snapshot) -> tuple[Index, int]:
            offsets, lengths, size = index_of(self.store, form, key, found)
            return Index(offsets, lengths, found.stamp, size), offsets.nbytes + lengths.nbytes

        span = self._index_span
        if self.store.blind:
            raw = self.store.get(key, *span)
            # Where the object ends is not known: the ranges that are read will tell.
            return None if raw is None else Index(*form.parse(raw, None, key), None, 0)
        return index_cache().get_part(self.store, key, span, load, part=form, unchecked=unchecked)

    @cached_property
    def _index_span(self) -> tuple[int, int | None]:
        form = self.levels[0].sharding.index
        return (0, form.size) if form.location == "start" else (-form.size, None)

    def locate(self, positions: Positions) -> Sources:
        keys, which = self._group(positions)
        if not self.simple:
            find = locate_nested if self.ranged else ShardLayout._whole_shards
            return find(self, positions, keys, which)
        slots = self.levels[0].slots(positions)
        if len(keys) == 1:
            index = self.index(keys[0], unchecked=True)
            if index is None:
                nothing = np.full(len(positions), _NONE)
                return Sources(keys, which, nothing, nothing, stamps=[None])
            return Sources(keys, which, index.offsets[slots], index.lengths[slots], stamps=[index.stamp])
        offset = np.full(len(positions), _NONE)
        length = np.full(len(positions), _NONE)
        stamps: list[Any] = []
        order = np.argsort(which, kind="stable")
        bounds = np.flatnonzero(np.diff(which[order])) + 1
        for index, rows in zip(self._indexes([*keys]), np.split(order, bounds), strict=True):
            stamps.append(None if index is None else index.stamp)
            if index is not None:
                offset[rows] = index.offsets[slots[rows]]
                length[rows] = index.lengths[slots[rows]]
        return Sources(keys, which, offset, length, stamps=stamps)

    def _indexes(self, keys: list[str]) -> list[Index | None]:
        """Those of several shards, without checking them. No thread is woken for those that are here."""
        found: list[Index | None] = [None] * len(keys)
        if self.store.remote and not self.store.blind:
            form, cache = self.levels[0].sharding.index, index_cache()
            found = [cache.known(self.store, key, form) for key in keys]
        missing = [number for number, index in enumerate(found) if index is None]
        read = self.store.each(lambda number: self.index(keys[number], unchecked=True), missing)
        for number, index in zip(missing, read, strict=True):
            found[number] = index
        return found

    def open_shard(self, positions: Positions) -> Index | None:
        key = self.metadata.keys(positions // self.per_shard)[0]
        index = self.index(key)
        file = None if index is None else self.store.kept_file(key)
        if self.open_shards is None or index is None or file is None:
            return None
        self.open_shards.note(positions, file, index, index.stamp)
        return index

    def locate_whole(self, positions: Positions) -> Sources:
        """`locate` by the bytes of whole shards, of whatever kind they are."""
        return self._whole_shards(positions, *self._group(positions))

    def _whole_shards(self, positions: Positions, keys: Keys, which: npt.NDArray[np.int32]) -> Sources:
        blobs: list[memoryview | None] = [None] * len(positions)
        stamps: list[Any] = []
        for number, (key, found) in enumerate(zip(keys, self.store.each(self._whole, list(keys)), strict=True)):
            stamps.append(None if found is None else found[1])
            if found is None:
                continue
            rows = np.flatnonzero(which == number)
            for row, part in zip(rows.tolist(), self._cut(0, found[0], positions[rows], key), strict=True):
                blobs[row] = part
        return Sources(keys=keys, blobs=blobs, stamps=stamps)  # type: ignore[arg-type]

    def _whole(self, key: str) -> tuple[memoryview, Any] | None:
        """(the bytes of a shard, its stamp where writing it needs one)."""
        if self.store.can_lock:
            raw = self.store.get(key)
            return None if raw is None else (memoryview(raw), None)
        found = self.store.snapshot(key)
        return None if found is None else (memoryview(found.data), found.stamp)

    def _cut(self, depth: int, raw: memoryview, positions: Positions, key: str) -> list[memoryview | None]:
        """The encoded inner chunks in a shard of the given level."""
        level = self.levels[depth]
        raw = self._undo(level, raw, key)
        form = level.sharding.index
        at = slice(0, form.size) if form.location == "start" else slice(max(0, len(raw) - form.size), None)
        offsets, lengths = form.parse(raw[at], len(raw), key)
        slots = level.slots(positions)
        found: list[memoryview | None] = [None] * len(positions)
        if depth + 1 == len(self.levels):
            for row, slot in enumerate(slots.tolist()):
                if lengths[slot] != _NONE:
                    found[row] = raw[int(offsets[slot]) : int(offsets[slot]) + int(lengths[slot])]
            return found
        for slot in np.unique(slots).tolist():
            if lengths[slot] == _NONE:
                continue
            rows = np.flatnonzero(slots == slot)
            part = raw[int(offsets[slot]) : int(offsets[slot]) + int(lengths[slot])]
            for row, chunk in zip(rows.tolist(), self._cut(depth + 1, part, positions[rows], key), strict=True):
                found[row] = chunk
        return found

    def _undo(self, level: Level, raw: memoryview, key: str) -> memoryview:
        """A shard's bytes before the codecs that stand behind it."""
        try:
            for codec in reversed(level.codecs.chain.codecs):
                raw = memoryview(codec.decode(raw)).cast("B")
        except CorruptDataError as error:
            raise error.located(key=key)
        return raw

    # --- writing

    @property
    def can_stream(self) -> bool:
        return self.simple

    @contextmanager
    def stream(self, key: str) -> Iterator[Callable[[Positions, Buffers], None]]:
        form = self.levels[0].sharding.index
        offsets = np.full(form.count, _NONE)
        lengths = np.full(form.count, _NONE)
        at = self.pack_head
        empty = True
        with self.store.writer(key) as writer:

            def add(positions: Positions, chunks: Buffers) -> None:
                nonlocal at, empty
                sizes = chunks.sizes
                present = sizes != _NONE
                slots = self.levels[0].slots(positions)[present]
                offsets[slots] = np.uint64(at) + np.cumsum(sizes[present]) - sizes[present]
                lengths[slots] = sizes[present]
                data, _ = chunks.joined()
                if len(data):
                    writer.write_at(at, data.data)
                    at += len(data)
                empty = empty and not present.any()

            yield add
            if empty:
                writer.discard()
            else:
                writer.write_at(0 if form.location == "start" else at, form.build(offsets, lengths))
        if empty:
            self.store.delete(key)
        index_cache().invalidate(self.store, key)

    def update(self, key: str, positions: Positions, chunks: Buffers, stamp: Any = ANYTHING) -> None:
        try:
            if self.simple:
                self._update(key, positions, chunks, stamp)
                return
            old = self._whole(key)
            found = None if old is None else old[1]
            self._expect(key, found, stamp)
            keep = old is not None and not self.store.can_lock
            new = self._rebuilt(0, None if old is None else old[0], positions, list(chunks), key, keep)
            if new is not None:
                self._replace(key, new, found)
            elif old is not None:
                self.store.delete(key)
        finally:
            index_cache().invalidate(self.store, key)

    def _is_whole(self, positions: Positions) -> bool:
        """Whether these chunks of one shard are all that it has: those behind the array's end are never stored."""
        shard = positions[0] // self.per_shard
        bounds = -(-np.array(self.shape, np.int64) // np.array(self.form.shape, np.int64))
        return len(positions) == int(np.prod(np.minimum(self.per_shard, bounds - shard * self.per_shard)))

    @property
    def pack_head(self) -> int:  # type: ignore[override]
        form = self.levels[0].sharding.index
        return form.size if form.location == "start" else 0

    def pack_order(self, key: str, positions: Positions) -> npt.NDArray[np.intp] | None:
        if not self.simple or not self._is_whole(positions):
            return None
        if self.write_mode != "rewrite" and self.index(key) is not None:
            return None
        return np.argsort(self._place_in_shard[self.levels[0].slots(positions)])

    def pack(
        self,
        key: str,
        positions: Positions,
        order: npt.NDArray[np.intp],
        sizes: Uints,
        finish: Callable[[bytes, bytes], None],
    ) -> None:
        form = self.levels[0].sharding.index
        rows = order[sizes[order] != _NONE]
        try:
            if not len(rows):
                self.store.delete(key)
                return
            slots = self.levels[0].slots(positions)[rows]
            offsets = np.full(form.count, _NONE)
            lengths = np.full(form.count, _NONE)
            lengths[slots] = sizes[rows]
            offsets[slots] = np.cumsum(sizes[rows]) - sizes[rows] + np.uint64(self.pack_head)
            index = form.build(offsets, lengths)
            finish(*((index, b"") if form.location == "start" else (b"", index)))
        finally:
            index_cache().invalidate(self.store, key)

    def _expect(self, key: str, found: Any, stamp: Any) -> None:
        """Without locks: is the shard still the one that the new chunks were made from?"""
        if not isinstance(stamp, Anything) and not self.store.can_lock and found != stamp:
            raise ConflictError("the shard was changed by someone else in the meantime", key=key)

    def _replace(self, key: str, new: Any, stamp: Any) -> None:
        """Store a shard anew; without locks, only if it is still the one that `stamp` was taken of."""
        if self.store.can_lock or isinstance(stamp, Anything):
            self.store.put(key, new)
        else:
            self.store.put_if_unchanged(key, new, stamp)

    def _update(self, key: str, positions: Positions, chunks: Buffers, stamp: Any) -> None:
        form = self.levels[0].sharding.index
        slots = self.levels[0].slots(positions)
        # A shard that is replaced as a whole is not looked at.
        replaced = self.write_mode == "rewrite" and len(positions) > 0 and self._is_whole(positions)
        index = None if replaced else self.index(key)
        found = stamp if replaced else None if index is None else index.stamp
        if not replaced:
            self._expect(key, found, stamp)
        sizes = chunks.sizes
        if (
            index is not None
            and self.write_mode != "rewrite"
            and self._changed_in_place(key, index, slots, chunks, sizes)
        ):
            return
        lengths = np.full(form.count, _NONE) if index is None else index.lengths.copy()
        lengths[slots] = sizes
        present = self._write_order[lengths[self._write_order] != _NONE]
        if not len(present):
            if self.store.can_lock or isinstance(found, Anything):
                self.store.delete(key)
                return
            if found is None:
                return
            # Nothing can be removed under a condition; a shard without chunks says the same.
        offsets = np.full(form.count, _NONE)
        before = np.cumsum(lengths[present]) - lengths[present]
        offsets[present] = before + np.uint64(form.size if form.location == "start" else 0)
        row_of = np.full(form.count, -1, np.int64)
        row_of[slots] = np.arange(len(slots))
        pieces = self._pieces(key, index, row_of[present], present, chunks)
        footer = form.build(offsets, lengths)
        self._replace(key, [footer, *pieces] if form.location == "start" else [*pieces, footer], found)

    def _pieces(
        self, key: str, index: Index | None, rows: Positions, present: npt.NDArray[np.int64], chunks: Buffers
    ) -> list[Any]:
        """The chunks of a new shard one after the other, in as few pieces as can be.

        `rows` says which of `chunks` stands at each of the cells `present`, -1 where the old one is kept. Old chunks
        that lie behind each other and stay so are one piece: changing one chunk of thousands moves a few large ranges.
        """
        new = rows >= 0
        starts = np.ones(len(rows), bool)
        starts[1:] = new[1:] != new[:-1]
        if index is not None:
            begin = index.offsets[present]
            follows = begin[1:] == begin[:-1] + index.lengths[present][:-1]
            starts[1:] |= ~new[1:] & ~follows
        bounds = [*np.flatnonzero(starts).tolist(), len(rows)]
        pieces: list[Any] = []
        ranges: list[tuple[int, int]] = []
        places: list[int] = []
        for first, stop in itertools.pairwise(bounds):
            if new[first]:
                chosen = chunks.select(rows[first:stop])
                # Large chunks are written from where they are, small ones are cheaper to join first.
                if chosen.nbytes >= _JOIN_BYTES * (stop - first):
                    pieces.extend(list(chosen))
                else:
                    pieces.append(chosen.joined()[0])
            else:
                assert index is not None
                last = present[stop - 1]
                start = int(index.offsets[present[first]])
                ranges.append((start, int(index.offsets[last]) + int(index.lengths[last]) - start))
                places.append(len(pieces))
                pieces.append(None)
        if ranges and index is not None:
            old = self.store.get_ranges(key, ranges, stamp=index.stamp)
            if old is None:
                raise ConflictError("the shard went away while it was rewritten", key=key)
            for place, part in zip(places, old, strict=True):
                pieces[place] = part
        return pieces

    def cell_order(self, order: Order) -> npt.NDArray[np.int64]:
        """The cells of a shard along one of the orders."""
        return _cell_order(self.levels[0], order)

    @cached_property
    def _write_order(self) -> npt.NDArray[np.int64]:
        """The cells of a shard in the order in which their chunks are written."""
        return _cell_order(self.levels[0], self.order_in_shard)

    @cached_property
    def _place_in_shard(self) -> npt.NDArray[np.int64]:
        """The place of each cell in that order."""
        places = np.empty(len(self._write_order), np.int64)
        places[self._write_order] = np.arange(len(places))
        return places

    def _rebuilt(
        self,
        depth: int,
        old: memoryview | None,
        positions: Positions,
        chunks: list[memoryview | None],
        key: str,
        keep: bool = False,
    ) -> bytes | None:
        """The bytes of a shard of the given level with these chunks in it; None if nothing is left, unless `keep`."""
        level = self.levels[depth]
        form = level.sharding.index
        parts: list[Any] = [None] * form.count
        if old is not None:
            raw = self._undo(level, old, key)
            at = slice(0, form.size) if form.location == "start" else slice(max(0, len(raw) - form.size), None)
            offsets, lengths = form.parse(raw[at], len(raw), key)
            for slot in np.flatnonzero(lengths != _NONE).tolist():
                parts[slot] = raw[int(offsets[slot]) : int(offsets[slot]) + int(lengths[slot])]
        slots = level.slots(positions)
        if depth + 1 == len(self.levels):
            for slot, chunk in zip(slots.tolist(), chunks, strict=True):
                parts[slot] = chunk
        else:
            for slot in np.unique(slots).tolist():
                rows = np.flatnonzero(slots == slot)
                parts[slot] = self._rebuilt(depth + 1, parts[slot], positions[rows], [chunks[i] for i in rows], key)
        present = [slot for slot in _cell_order(level, self.order_in_shard).tolist() if parts[slot] is not None]
        if not present and not keep:
            return None
        sizes = np.array([ABSENT if part is None else len(part) for part in parts], np.uint64)
        offsets = np.full(form.count, _NONE)
        rows = np.array(present, np.intp)
        offsets[rows] = np.cumsum(sizes[rows]) - sizes[rows] + np.uint64(form.size if form.location == "start" else 0)
        footer = form.build(offsets, sizes)
        pieces = [parts[slot] for slot in present]
        data = b"".join([footer, *pieces] if form.location == "start" else [*pieces, footer])
        for codec in level.codecs.chain.codecs:
            data = codec.encode(data)
        return data

    def compact(self, key: str) -> int:
        """Write a shard anew without the bytes that nobody reads; how many bytes it became smaller."""
        before = self.store.size(key) or 0
        nothing = np.zeros((0, len(self.shape)), np.int64)
        mode, self.write_mode = self.write_mode, "rewrite"
        try:
            self.update(key, nothing, Buffers(0))
        finally:
            self.write_mode = mode
        return before - (self.store.size(key) or 0)

    def _changed_in_place(self, key: str, index: Index, slots: Positions, chunks: Buffers, sizes: Uints) -> bool:
        """Change the object itself, at a cost that depends on the changed chunks only. False if that cannot be done."""
        form = self.levels[0].sharding.index
        if not self.store.supports_patch:
            raise UnsupportedError(
                f"write_mode {self.write_mode!r}: objects of this store cannot be changed in place", key=key
            )
        lengths = index.lengths.copy()
        offsets = index.offsets.copy()
        lengths[slots] = sizes
        if (lengths == _NONE).all():
            return False
        absent = sizes == _NONE
        if self.write_mode == "inplace":
            fits = absent | ((index.lengths[slots] != _NONE) & (sizes <= index.lengths[slots]))
            if not fits.all():
                return False
            offsets[slots[absent]] = _NONE
            for row in np.flatnonzero(~absent).tolist():
                if (chunk := chunks[row]) is not None:
                    self.store.patch(key, int(index.offsets[slots[row]]), chunk)
            if (lengths != index.lengths).any():
                at = 0 if form.location == "start" else index.size - form.size
                # Half an index would be the end of all chunks.
                self.store.patch(key, at, form.build(offsets, lengths), surely=True)
            return True
        if form.location != "end":
            raise UnsupportedError("write_mode 'append' needs the index at the end of the shard", key=key)
        rows = np.flatnonzero(~absent)
        size = index.size + int(sizes[rows].sum()) + form.size
        # The other way to say that most of the object would be bytes that nobody reads.
        if int(lengths[lengths != _NONE].sum()) + form.size < (1 - self.dead_bytes_threshold) * size:
            return False
        before = np.concatenate([[0], np.cumsum(sizes[rows])[:-1]]) if len(rows) else np.zeros(0)
        offsets[slots] = _NONE
        offsets[slots[rows]] = np.uint64(index.size) + before.astype(np.uint64)
        stored = [chunk for row in rows.tolist() if (chunk := chunks[row]) is not None]
        self.store.append(key, [*stored, form.build(offsets, lengths)], at=index.size)
        return True


def _cell_order(level: Level, order: Order) -> npt.NDArray[np.int64]:
    count = level.sharding.index.count
    if order == "C" or count == 1:
        return np.arange(count)
    if order == "F":
        return np.arange(count).reshape([level.cells[axis] for axis in level.order]).ravel(order="F")
    return _morton(tuple(level.cells[axis] for axis in level.order))


def _morton(cells: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Cells (numbered in C order) along a Morton curve with the first axis as the least significant bit, as zarr-python
    lays them out."""
    grid = np.indices(cells).reshape(len(cells), -1).astype(np.uint64)
    bits = max(int(n - 1).bit_length() for n in cells) if cells else 0
    code = np.zeros(grid.shape[1], np.uint64)
    place = 0
    for bit in range(bits):
        for axis, extent in enumerate(cells):
            if bit < int(extent - 1).bit_length():
                code |= ((grid[axis] >> np.uint64(bit)) & np.uint64(1)) << np.uint64(place)
                place += 1
    return np.argsort(code, kind="stable")
