"""Writing the values of one index in order of their keys: single annotations, or lists of them, in shards or files."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.codecs import CodecChain
from zvcore.engine import encode_many
from zvcore.precomputed.annotation_records import Records, encode_lists
from zvcore.precomputed.entries import Entries, join, nothing_before
from zvcore.precomputed.external_sort import ExternalSort
from zvcore.precomputed.set_files import put_objects
from zvcore.precomputed.shard_reader import ShardReader, group_starts
from zvcore.precomputed.shard_writer import at_level, write_shards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from zvcore.precomputed.annotation_info import Index
    from zvcore.precomputed.set_files import Files
    from zvcore.stores import Store

__all__ = ["IndexWriter", "whole_lists"]

U64 = npt.NDArray[np.uint64]


# Coordinates hardly shrink: the usual level takes three times as long for two bytes in a hundred.
_LEVEL = 1


class IndexWriter:
    """Takes values, or members of lists, in any order.

    name     the name of a value's file by its key, where there are files
    memory   how much is sorted in memory; the rest goes through a temporary file in
    scratch  this folder
    """

    def __init__(
        self, store: Store, index: Index, *, name: Callable[[int], str] = str, memory: int, scratch: str | None,
        threads: int | None,
    ) -> None:  # fmt: skip
        self.store = store.child(index.folder)
        self.spec = index.sharding
        chain = CodecChain(()) if self.spec is None else ShardReader(self.store, self.spec).data_chain
        self.chain = at_level(chain, _LEVEL) if any(codec.name == "gzip" for codec in chain.codecs) else chain
        self.name = name
        self.threads = threads
        self.memory = memory
        self.scratch = scratch

    def write_values(self, values: Iterable[tuple[U64, Records]]) -> None:
        """Write values by their keys; ValueError for a key that comes twice."""
        with ExternalSort(self.memory, self.scratch) as sort:
            for keys, records in values:
                sort.add(self._entries(keys, records))
            self._write(sort.merged())

    def write_lists(
        self, members: Iterable[tuple[U64, U64, Records]], rank: Callable[[U64], U64] | None = None
    ) -> None:
        """Write lists of annotations from (keys of lists, ids, records); within a list they are ordered by their ids,
        or by `rank` of these, and each stands there once.
        """
        with ExternalSort(self.memory, self.scratch) as sort:
            for keys, ids, records in members:
                sort.add(self._members(keys, ids, records))
            self._write(self._entries(*one) for one in grouped(sort.merged(), rank))

    def _hashes(self, keys: U64) -> U64:
        return np.zeros(len(keys), np.uint64) if self.spec is None else self.spec.hashes(keys)

    def _members(self, keys: U64, ids: U64, records: Records) -> Entries:
        """Each record with its id behind it."""
        whole = records.followed_by(ids)
        return Entries(self._hashes(keys), keys, nothing_before(len(keys)), whole.sizes.astype(np.uint64), whole.data)

    def _entries(self, keys: U64, records: Records) -> Entries:
        """Values as they are stored."""
        chain = self.chain
        data, starts = records.data, records.starts
        if len(chain):
            bounds = starts.tolist()
            whole = memoryview(data)
            items = [whole[a:b] for a, b in itertools.pairwise(bounds)]
            data, starts = encode_many(items, chain, threads=self.threads).joined()
        sizes = np.diff(starts).astype(np.uint64)
        return Entries(self._hashes(keys), keys, nothing_before(len(keys)), sizes, data)

    def _write(self, pieces: Iterator[Entries]) -> None:
        if self.spec is not None:
            write_shards(self.store, ShardReader(self.store, self.spec), pieces, self.threads)
            return
        put_objects(self.store, self._files(pieces))

    def _files(self, pieces: Iterable[Entries]) -> Iterator[Files]:
        last = None
        for entries in pieces:
            data = memoryview(entries.data)
            at = 0
            for key, size in zip(entries.ids.tolist(), entries.sizes.tolist(), strict=True):
                if key == last:
                    raise ValueError(f"id {key} is given more than once")
                last = key
                yield ((self.name(key), data[at : at + size]),)
                at += size


def grouped(pieces: Iterable[Entries], rank: Callable[[U64], U64] | None) -> Iterator[tuple[U64, Records]]:
    """(keys, lists) of members that come in order of their keys."""
    for entries in whole_lists(pieces):
        yield _lists(entries, rank)


def whole_lists(pieces: Iterable[Entries]) -> Iterator[Entries]:
    """Entries that come in order of their ids, cut so that those of one id come together: they are held until then."""
    waiting: list[Entries] = []
    for entries in pieces:
        if not len(entries):
            continue
        starts = group_starts(entries.ids)
        if waiting and waiting[-1].ids[-1] != entries.ids[0]:
            yield join(waiting)
            waiting = []
        if len(starts) == 1:
            waiting.append(entries)
            continue
        last = int(starts[-1])
        yield join([*waiting, entries.slice(0, last)])
        waiting = [entries.slice(last, len(entries))]
    if waiting:
        yield join(waiting)


def _lists(entries: Entries, rank: Callable[[U64], U64] | None) -> tuple[U64, Records]:
    starts = np.zeros(len(entries) + 1, np.int64)
    np.cumsum(entries.sizes.astype(np.int64), out=starts[1:])
    records, ids = Records(entries.data, starts).without_ids()
    firsts = group_starts(entries.ids)
    groups = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(entries))))
    order: npt.NDArray[Any] = np.lexsort((ids, groups) if rank is None else (ids, rank(ids), groups))
    ids, groups = ids[order], groups[order]
    again = np.zeros(len(ids), np.bool_)
    again[1:] = (ids[1:] == ids[:-1]) & (groups[1:] == groups[:-1])
    if again.any():
        order, ids, groups = order[~again], ids[~again], groups[~again]
    counts = np.bincount(groups, minlength=len(firsts)).astype(np.int64)
    return entries.ids[firsts], encode_lists(records.take(order), ids, counts)
