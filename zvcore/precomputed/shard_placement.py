"""Putting the chunks of a scale into its shards."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zvcore.engine.packer import Ends
from zvcore.engine.sources import ABSENT
from zvcore.errors import ConflictError, ZvcoreError
from zvcore.placement import Group, Packed, Streamed
from zvcore.precomputed.entries import Entries
from zvcore.precomputed.shard_builder import ShardBuilder, ends_of
from zvcore.precomputed.shard_reader import ShardFile, group_starts
from zvcore.precomputed.shard_update import contents_of, kept_of, rewrite
from zvcore.stores.indexes import index_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zvcore.boxes import Box
    from zvcore.engine.buffers import Buffers
    from zvcore.precomputed.layout import ShardedLayout
    from zvcore.stores import Stamp
    from zvcore.stores.editing import Edit
    from zvcore.stores.puts_together import KeptOf

__all__ = ["VolumeShards"]

Positions = npt.NDArray[np.int64]

# A larger shard index is not put together in memory.
_LARGEST_HEAD = 16 << 20
_NO_DATA = np.empty(0, np.uint8)


class VolumeShards(Packed, Streamed):
    """The chunks of one scale in the shards that its specification says."""

    def __init__(self, layout: ShardedLayout) -> None:
        self.layout = layout
        self.pack_head = self.end_bytes = layout.spec.index_size
        self.store = layout.store
        self.spec = layout.spec
        self.reader = layout.reader
        self.most_objects = 1 << layout.spec.shard_bits
        # The stamps of shards that are about to be replaced as a whole.
        self._replaced: dict[str, Stamp | None] = {}

    def groups(self, positions: Positions) -> list[Group]:
        """The rows of a shard are in the order in which it stores the chunks."""
        ids = self.layout.ids(positions)
        hashes = self.spec.hashes(ids)
        order = np.lexsort((ids, hashes))
        shards, _ = self.spec.split(hashes[order])
        starts = group_starts(shards)
        keys = [self.reader.key(int(shards[first])) for first in starts]
        return [Group(key, rows) for key, rows in zip(keys, np.split(order, starts[1:]), strict=True)]

    def replace(self, edit: Edit, group: Group, positions: Positions, chunks: Buffers) -> None:
        entries = self._entries(positions, chunks)
        gone = self.layout.ids(positions)[chunks.sizes == ABSENT]
        told = np.zeros(len(entries), np.bool_)
        rewrite(self.reader, edit, self._number(group.key), entries, told, gone, file=group.found)

    def kept(self, group: Group, positions: Positions) -> KeptOf | None:
        file = group.found
        if not isinstance(file, ShardFile) or file.key != group.key:
            return None
        ids = self.layout.ids(positions)
        return kept_of(self.reader, file, self._number(group.key), self.spec.hashes(ids), ids)

    def pack_orders(self, groups: Sequence[Group], positions: Positions) -> list[npt.NDArray[np.intp] | None]:
        return [group.rows if self._can_pack(group, positions[group.rows]) else None for group in groups]

    def _can_pack(self, group: Group, positions: Positions) -> bool:
        if self.pack_head > _LARGEST_HEAD or not self._is_whole(positions):
            return False
        file = group.found = self.reader.file(self._number(group.key))
        # What else lies in it, values outside of the grid and bytes that belong to none, stays.
        if file is not None and not self._holds_nothing_else(file, group.key, positions):
            return False
        self._replaced[group.key] = None if file is None else file.stamp
        return True

    def _holds_nothing_else(self, file: ShardFile, key: str, positions: Positions) -> bool:
        """Whether nothing but these chunks lies in a shard, whose new contents then depend on nothing in it."""
        if file.key != key:
            return False
        try:
            old = contents_of(self.reader, file, self._number(key))
        except ZvcoreError:
            return False  # `replace` tells of it
        return not old.loose and not old.before.any() and not len(np.setdiff1d(old.ids, self.layout.ids(positions)))

    def _is_whole(self, positions: Positions) -> bool:
        """Whether these chunks of one shard are all that it can have."""
        layout = self.layout
        if layout.shard_shape is None:
            return False
        per_shard = np.array(layout.shard_shape, np.int64) // np.array(layout.form.shape, np.int64)
        first = positions[0] // per_shard * per_shard
        bounds = -(-np.array(layout.shape, np.int64) // np.array(layout.form.shape, np.int64))
        return len(positions) == int(np.prod(np.minimum(per_shard, bounds - first)))

    def ends(
        self, keys: Sequence[str], positions: Positions, sizes: npt.NDArray[np.uint64], bounds: npt.NDArray[np.int64]
    ) -> list[Ends | None]:
        spans = itertools.starmap(slice, itertools.pairwise(bounds.tolist()))
        return [self._ends(key, positions[span], sizes[span]) for key, span in zip(keys, spans, strict=True)]

    def _ends(self, key: str, positions: Positions, sizes: npt.NDArray[np.uint64]) -> Ends | None:
        stored = sizes != ABSENT
        if not stored.any():
            if self.store.stamp(key) != self._replaced[key]:
                raise ConflictError("somebody else has changed the shard", key=key)
            self.store.delete(key)
            return None
        ids = self.layout.ids(positions)[stored]
        entries = Entries(self.spec.hashes(ids), ids, np.zeros(len(ids), np.uint64), sizes[stored], _NO_DATA)
        # A program that knows nothing of locks may have put something else into it.
        return Ends(*ends_of(self.spec, self.reader.index_chain, entries), replaces=self._replaced[key])

    def remove(self, key: str) -> None:
        with self.store.edit(key) as edit:
            edit.delete()
            self._forget(key)

    def _forget(self, key: str) -> None:
        """A file pair of the obsolete form would be read instead of a shard that is gone."""
        for name in self.names_of(key):
            self.store.delete(name)
            index_cache().invalidate(self.store, name)

    def names_of(self, key: str) -> tuple[str, ...]:
        return (key, *(key.removesuffix("shard") + suffix for suffix in ("index", "data")))

    def _number(self, key: str) -> int:
        shard = self.spec.shard_number(key.removeprefix(self.reader.prefix))
        assert shard is not None
        return shard

    def _entries(self, positions: Positions, chunks: Buffers) -> Entries:
        """Encoded chunks, without those that are absent, in the order in which they are stored."""
        sizes = chunks.sizes
        ids = self.layout.ids(positions)
        hashes = self.spec.hashes(ids)
        order = np.lexsort((ids, hashes))
        order = order[sizes[order] != ABSENT]
        data, _ = chunks.select(order).joined()
        return Entries(hashes[order], ids[order], np.zeros(len(order), np.uint64), sizes[order], data)

    # --- part by part

    def stream_boxes(self, key: str, limit: int) -> Iterator[Box] | None:
        layout = self.layout
        if layout.shard_shape is None:
            return None
        steps = (*layout.scale.chunk, 1)
        runs = self.spec.runs(layout.grid, self._number(key), limit // max(1, layout.chunk_nbytes))
        return (
            tuple(
                (first * step, min(stop * step, bound))
                for (first, stop), step, bound in zip((*run, (0, layout.shape[3])), steps, layout.shape, strict=True)
            )
            for run in runs
        )

    @contextmanager
    def stream(self, key: str) -> Iterator[Callable[[Positions, Buffers], None]]:
        reader = self.reader
        last: tuple[int, int] | None = None
        with self.store.writer(key) as writer:
            with ShardBuilder(writer, self.spec, reader.index_chain) as builder:

                def add(positions: Positions, chunks: Buffers) -> None:
                    nonlocal last
                    entries = self._entries(positions, chunks)
                    if not len(entries):
                        return
                    first = int(entries.hashes[0]), int(entries.ids[0])
                    if last is not None and first <= last:
                        raise ValueError(f"chunk {first[1]} comes before chunk {last[1]} in a shard")
                    last = int(entries.hashes[-1]), int(entries.ids[-1])
                    builder.add(entries)

                yield add
                if builder.count:
                    builder.finish()
                else:
                    writer.discard()
        index_cache().invalidate(self.store, key)
        if last is None:
            self._forget(key)
