"""Writing one shard: rewritten as a whole or part by part, appended to, or changed in place."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.engine import ABSENT
from zvcore.engine.packer import Ends
from zvcore.errors import UnsupportedError
from zvcore.placement import UNKNOWN, Group, Packed, Streamed
from zvcore.stores.indexes import index_cache
from zvcore.stores.puts_together import Kept, KeptOf
from zvcore.zarr3.shard_format import ShardAssembler, indexes_of
from zvcore.zarr3.shard_index import Index
from zvcore.zarr3.whole_shards import rebuilt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from zvcore.engine import Buffers
    from zvcore.stores.base import Stamp
    from zvcore.stores.editing import Edit
    from zvcore.zarr3.sharding import ShardLayout, WriteMode

__all__ = ["ShardWriter", "ZarrShards"]

Positions = npt.NDArray[np.int64]
Uints = npt.NDArray[np.uint64]

# From how many bytes on shards that are rewritten are worth a thread each, and how many bytes of them are in memory.
_LARGE_SHARD = 256 << 10
_REWRITTEN_AT_ONCE = 256 << 20
_NONE = np.uint64(ABSENT)
# How many chunks, of several shards, are planned at once.
_TOGETHER = 1 << 14
# Chunks of at least this are not copied together before they are written.
_JOIN_BYTES = 16 << 10


class ZarrShards(Packed, Streamed):
    """The chunks of a layout in the shards that its metadata describe."""

    def __init__(self, layout: ShardLayout) -> None:
        self.layout = layout
        self.store = layout.store
        self.pack_head = layout.levels[0].form.head
        self.end_bytes = layout.levels[0].form.size
        self.can_stream = layout.simple

    def groups(self, positions: Positions) -> list[Group]:
        keys, which = self.layout.group(positions)
        if len(keys) == 1:
            return [Group(keys[0], np.arange(len(positions)))]
        order = np.argsort(which, kind="stable")
        bounds = np.flatnonzero(np.diff(which[order])) + 1
        return [Group(key, rows) for key, rows in zip(keys, np.split(order, bounds), strict=True)]

    def replace(self, edit: Edit, group: Group, positions: Positions, chunks: Buffers) -> None:
        ShardWriter(self.layout, group.key).update(edit, positions, chunks, group.found)

    def kept(self, group: Group, positions: Positions) -> KeptOf | None:
        layout, index = self.layout, group.found
        if not isinstance(index, Index) or not layout.simple or layout.write_mode != "rewrite":
            return None
        level = layout.levels[0]
        slots = level.slots(positions)
        # However long the new chunks are, the old ones stay where they are.
        runs, _ = ShardAssembler(level.form, index).rewrite(layout.write_order, slots, np.ones(len(slots), np.uint64))
        return KeptOf(group.key, index.stamp, [Kept(offset, size) for first, offset, size in runs if first < 0])

    def replaced_at_once(self, groups: Sequence[Group], chunks: Sequence[Buffers]) -> int:
        # Others are changed where they lie, which only the thread that has their locks may do.
        if self.store.local_root is None or self.layout.write_mode != "rewrite":
            return 1
        sizes = [getattr(group.found, "size", 0) + new.nbytes for group, new in zip(groups, chunks, strict=True)]
        largest = max(sizes, default=0)
        return _REWRITTEN_AT_ONCE // largest if largest >= _LARGE_SHARD else 1

    def pack_orders(self, groups: Sequence[Group], positions: Positions) -> list[npt.NDArray[np.intp] | None]:
        layout = self.layout
        if not layout.simple:
            return [None] * len(groups)
        counts = [len(group.rows) for group in groups]
        orders: list[npt.NDArray[np.intp] | None] = []
        for some in _together(counts):
            orders += self._orders(groups[some], positions)
        return orders

    def _orders(self, groups: Sequence[Group], positions: Positions) -> Iterator[npt.NDArray[np.intp] | None]:
        layout = self.layout
        shards = positions[[group.rows[0] for group in groups]] // layout.per_shard
        bounds = np.cumsum([0, *(len(group.rows) for group in groups)])
        whole = np.diff(bounds) == layout.chunks_of(shards)
        rows = groups[0].rows if len(groups) == 1 else np.concatenate([group.rows for group in groups])
        places = layout.place_in_shard[layout.levels[0].slots(positions[rows])]
        keys = (places,) if len(groups) == 1 else (places, np.repeat(np.arange(len(groups)), np.diff(bounds)))
        rows = rows[np.lexsort(keys)]
        for number, group in enumerate(groups):
            fits = bool(whole[number])
            if fits and layout.write_mode != "rewrite":
                group.found = layout.index(group.key)
                fits = group.found is None
            yield rows[bounds[number] : bounds[number + 1]] if fits else None

    def ends(
        self, keys: Sequence[str], positions: Positions, sizes: Uints, bounds: npt.NDArray[np.int64]
    ) -> list[Ends | None]:
        level = self.layout.levels[0]
        found: list[Ends | None] = []
        for some in _together(np.diff(bounds).tolist()):
            own = bounds[some.start : some.stop + 1]
            chunks = slice(int(own[0]), int(own[-1]))
            indexes = indexes_of(level.form, level.slots(positions[chunks]), sizes[chunks], own - own[0])
            for index in indexes:
                if index is None:
                    found.append(None)
                else:
                    found.append(Ends(index, b"") if self.pack_head else Ends(b"", index))
        self.store.delete_all(key for key, ends in zip(keys, found, strict=True) if ends is None)
        return found

    def stream(self, key: str) -> AbstractContextManager[Callable[[Positions, Buffers], None]]:
        return ShardWriter(self.layout, key).stream()


def _together(counts: Sequence[int]) -> Iterator[slice]:
    """Shards with so many chunks each, as many at a time as are worth it: for larger ones all that takes memory."""
    first = held = 0
    for number, count in enumerate(counts):
        if held and held + count > _TOGETHER:
            yield slice(first, number)
            first, held = number, 0
        held += count
    if held:
        yield slice(first, len(counts))


class ShardWriter:
    """Writes the shard at one key of a layout, whose `write_mode` it follows unless it is given another."""

    def __init__(self, layout: ShardLayout, key: str, mode: WriteMode | None = None) -> None:
        self.layout = layout
        self.store = layout.store
        self.key = key
        self.mode: WriteMode = mode or layout.write_mode
        self.level = layout.levels[0]
        self.form = self.level.form

    # --- part by part

    @contextmanager
    def stream(self) -> Iterator[Callable[[Positions, Buffers], None]]:
        assembler = ShardAssembler(self.form)
        with self.store.writer(self.key) as writer:

            def add(positions: Positions, chunks: Buffers) -> None:
                at = assembler.add(self.level.slots(positions), chunks.sizes)
                data, _ = chunks.joined()
                if len(data):
                    writer.write_at(at, data.data)

            yield add
            if assembler.empty:
                writer.discard()
            else:
                assembler.finish_in(writer)
        if assembler.empty:
            self.store.delete(self.key)
        index_cache().invalidate(self.store, self.key)

    # --- rewriting some chunks

    def update(self, edit: Edit, positions: Positions, chunks: Buffers, found: Any = UNKNOWN) -> None:
        """Put these chunks into the shard. `found` is what `locate` has found there: its index, or all of it."""
        if self.layout.simple:
            self._update(edit, positions, chunks, found)
        else:
            self._rebuild(edit, positions, chunks, found)

    def _rebuild(self, edit: Edit, positions: Positions, chunks: Buffers, found: Any) -> None:
        """Shards within shards, and shards behind codecs, are rewritten completely."""
        if found is UNKNOWN:
            old = edit.get()
        else:
            old = None if found is None else found.data
            edit.made_from(None if found is None else found.stamp)
        raw = None if old is None else memoryview(old)
        # What cannot be removed under a condition becomes a shard without chunks, which says the same.
        new = rebuilt(self.layout, raw, positions, list(chunks), self.key, keep=not edit.can_delete)
        if new is not None:
            edit.put_data(new)
        else:
            edit.delete()

    def _is_whole(self, positions: Positions) -> bool:
        """Whether these chunks of one shard are all that it has."""
        return len(positions) == self.layout.chunks_of_one(positions[0])

    def _update(self, edit: Edit, positions: Positions, chunks: Buffers, found: Any) -> None:
        slots = self.level.slots(positions)
        # A shard that is replaced as a whole is not looked at.
        if self.mode == "rewrite" and len(positions) > 0 and self._is_whole(positions):
            index = None
        else:
            # That the index is the one of the shard as it is, the condition says under which the new one is put.
            index = self.layout.index(self.key, fresh=False) if found is UNKNOWN else found
            edit.made_from(None if index is None else index.stamp)
        if index is not None and self.mode != "rewrite" and self._changed_in_place(index, slots, chunks):
            return
        assembler = ShardAssembler(self.form, index)
        runs, rows = assembler.rewrite(self.layout.write_order, slots, chunks.sizes)
        if not runs and edit.can_delete:
            edit.delete()
        else:
            parts = assembler.finish(self._pieces(runs, rows, chunks))
            edit.put_parts(parts, None if index is None else index.stamp)
            edit.then = partial(self._note, assembler)

    def _note(self, assembler: ShardAssembler, stamp: Stamp) -> None:
        """The shard is this now: whoever reads or changes it next need not ask for its index."""
        size = assembler.end + (0 if self.form.head else self.form.size)
        self.layout.note_index(self.key, Index(assembler.offsets, assembler.lengths, stamp, size))

    def _pieces(self, runs: list[tuple[int, int, int]], rows: list[int], chunks: Buffers) -> list[Any]:
        """What `ShardAssembler.rewrite` has planned, one after the other, in as few pieces as can be."""
        pieces: list[Any] = []
        for first, stop, size in runs:
            if first < 0:
                pieces.append(Kept(stop, size))
            elif stop == first + 1:
                pieces.append(chunks[rows[first]])
            else:
                chosen = chunks.select(rows[first:stop])
                # Large chunks are written from where they are, small ones are cheaper to join first.
                if chosen.nbytes >= _JOIN_BYTES * (stop - first):
                    pieces.extend(list(chosen))
                else:
                    pieces.append(chosen.joined()[0])
        return pieces

    # --- at a cost that depends on the changed chunks only

    def _changed_in_place(self, index: Index, slots: Positions, chunks: Buffers) -> bool:
        """Change the object itself. False if that cannot be done."""
        if not self.store.supports_patch:
            text = f"write_mode {self.mode!r}: objects of this store cannot be changed in place"
            raise UnsupportedError(text, key=self.key)
        return (self._overwritten if self.mode == "inplace" else self._appended)(index, slots, chunks)

    def _overwritten(self, index: Index, slots: Positions, chunks: Buffers) -> bool:
        """Chunks where the old ones are, which must be at least as long."""
        sizes = chunks.sizes
        absent = sizes == _NONE
        if not (absent | ((index.lengths[slots] != _NONE) & (sizes <= index.lengths[slots]))).all():
            return False
        assembler = ShardAssembler(self.form, index)
        assembler.lengths[slots] = sizes
        assembler.remove(slots[absent])
        if assembler.empty:
            return False
        for row in np.flatnonzero(~absent).tolist():
            if (chunk := chunks[row]) is not None:
                self.store.patch(self.key, int(index.offsets[slots[row]]), chunk)
        if (assembler.lengths != index.lengths).any():
            # Half an index would be the end of all chunks.
            self.store.patch(self.key, self.form.begins(index.size), assembler.index(), crash_safe=True)
        return True

    def _appended(self, index: Index, slots: Positions, chunks: Buffers) -> bool:
        """Chunks behind the old index, and behind them a new one."""
        assembler = ShardAssembler(self.form, index)
        assembler.add(slots, chunks.sizes)
        if assembler.empty:
            return False
        if self.form.head:
            raise UnsupportedError("write_mode 'append' needs the index at the end of the shard", key=self.key)
        size = assembler.end + self.form.size
        # The other way to say that most of the object would be dead bytes.
        if assembler.live + self.form.size < (1 - self.layout.dead_bytes_threshold) * size:
            return False
        stored = [chunk for chunk in chunks if chunk is not None]
        self.store.append(self.key, assembler.finish(stored), at=index.size, ending=True)
        return True
