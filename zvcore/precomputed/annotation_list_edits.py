"""Changing lists of annotations that are stored: gathered in any order, applied list by list, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.precomputed.annotation_levels import ranks
from zvcore.precomputed.annotation_lists import whole_lists
from zvcore.precomputed.annotation_records import Listed, Records, encode_lists
from zvcore.precomputed.entries import Entries, nothing_before
from zvcore.precomputed.external_sort import ExternalSort
from zvcore.precomputed.set_files import put_objects
from zvcore.precomputed.shard_reader import group_starts
from zvcore.precomputed.sharded_store import ShardedStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from zvcore.precomputed.annotation_records import RecordForm
    from zvcore.precomputed.annotation_values import IndexValues
    from zvcore.stores import Store

__all__ = ["ListEdits"]

U64 = npt.NDArray[np.uint64]

_MEMORY = 32 << 20
# How many lists are changed at once, and after how many bytes of them they are written.
_LISTS = 256
_WRITTEN = 32 << 20
_REMOVE, _ADD = 0, 1
# Behind whatever is in a list already.
_AFTER = np.uint64(1 << 63)


class ListEdits:
    """What lists of one index are to gain and to lose. A list that is changed has each annotation once.

    New members of a relationship's list are put where their ids belong, those of a cell where the hashes of their ids
    belong (with which this package thins out), unless the list is in another order: then they come last.
    """

    def __init__(self, store: Store, values: IndexValues, form: RecordForm) -> None:
        self.store = store.child(values.index.folder)
        self.values = values
        self.form = form
        self.lists = 0
        self._sort = ExternalSort(_MEMORY)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sort.__exit__(kind, error, trace)

    def add(self, keys: npt.NDArray[Any], ids: U64, records: Records) -> None:
        """Have these annotations in these lists, a row for each; those that are there already stay as they are."""
        self._take(keys, ids, records, _ADD)

    def remove(self, keys: npt.NDArray[Any], ids: U64) -> None:
        nothing = Records(np.empty(0, np.uint8), np.zeros(len(ids) + 1, np.int64))
        self._take(keys, ids, nothing, _REMOVE)

    def _take(self, keys: npt.NDArray[Any], ids: U64, records: Records, what: int) -> None:
        numbers, spec = self.values.numbers(keys), self.values.index.sharding
        hashes = np.zeros(len(ids), np.uint64) if spec is None else spec.hashes(numbers)
        whole = records.followed_by(ids).followed_by(np.full(len(ids), what, np.uint64))
        sizes = whole.sizes.astype(np.uint64)
        self._sort.add(Entries(hashes, np.ascontiguousarray(numbers), nothing_before(len(ids)), sizes, whole.data))

    def apply(self) -> None:
        """Rewrite the lists."""
        waiting: list[tuple[int, bytes]] = []
        nbytes = 0
        for numbers, lists in self._rewritten():
            bounds = lists.starts.tolist()
            data = lists.data
            waiting += [
                (number, data[bounds[row] : bounds[row + 1]].tobytes()) for row, number in enumerate(numbers.tolist())
            ]
            nbytes += len(data)
            if nbytes > _WRITTEN:
                self._write(waiting)
                waiting, nbytes = [], 0
        self._write(waiting)

    def _write(self, lists: list[tuple[int, bytes]]) -> None:
        if not lists:
            return
        self.lists += len(lists)
        spec = self.values.index.sharding
        if spec is not None:
            ShardedStore(self.store, spec, "r+", threads=self.values.threads).update(lists)
            return
        keys = self.values.keys_of(np.array([number for number, _ in lists], np.uint64))
        names = map(self.values.name, keys)
        put_objects(self.store, (((name, data),) for name, (_, data) in zip(names, lists, strict=True)))

    def _rewritten(self) -> Iterator[tuple[U64, Records]]:
        """(numbers, lists) of all lists that are to be changed."""
        for entries in whole_lists(self._sort.merged()):
            firsts = group_starts(entries.ids)
            for first in range(0, len(firsts), _LISTS):
                a = int(firsts[first])
                b = int(firsts[first + _LISTS]) if first + _LISTS < len(firsts) else len(entries)
                some = entries.slice(a, b)
                yield some.ids[group_starts(some.ids)], self._changed(some)

    def _changed(self, edits: Entries) -> Records:
        """The lists that edits speak of, as they are afterwards."""
        firsts = group_starts(edits.ids)
        starts = np.zeros(len(edits) + 1, np.int64)
        np.cumsum(edits.sizes.astype(np.int64), out=starts[1:])
        without, what = Records(edits.data, starts).without_ids()
        records, ids = without.without_ids()
        groups = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(edits))))
        old, old_groups = self._stored(edits.ids[firsts])
        both = _Members(
            np.concatenate([old_groups, groups]),
            np.concatenate([old.ids, ids]),
            np.concatenate([np.full(len(old.ids), -1), what.astype(np.int64)]),
        )
        kept = both.kept()
        order = kept[both.order(kept, len(old.ids), len(firsts), self._rank)]
        joined = Records(
            np.concatenate([old.records.data, records.data]),
            np.concatenate([old.records.starts, old.records.starts[-1] + records.starts[1:]]),
        )
        counts = np.bincount(both.groups[order], minlength=len(firsts)).astype(np.int64)
        return encode_lists(joined.take(order), both.ids[order], counts)

    def _stored(self, numbers: U64) -> tuple[Listed, npt.NDArray[np.intp]]:
        """The annotations of lists as they are, and the row of the list that each stands in."""
        data, starts, rows = self.values.fetch(self.values.keys_of(numbers))
        found = self.form.listed(data, starts)
        return found, np.repeat(rows, found.counts)

    def _rank(self, ids: U64) -> U64:
        return ids if self.values.index.grid is None else ranks(ids)


class _Members:
    """Members of lists: those that are there, a row for each, then those that edits speak of."""

    def __init__(self, groups: npt.NDArray[np.intp], ids: U64, what: npt.NDArray[np.int64]) -> None:
        self.groups = groups
        self.ids = ids
        self.what = what

    def kept(self) -> npt.NDArray[np.intp]:
        """Each member of each list once, without those that are to go."""
        # Removals come first, then what was there, then what is added.
        weight = np.where(self.what == _REMOVE, -2, self.what)
        order = np.lexsort((weight, self.ids, self.groups))
        first = np.ones(len(order), np.bool_)
        groups, ids = self.groups[order], self.ids[order]
        first[1:] = (groups[1:] != groups[:-1]) | (ids[1:] != ids[:-1])
        # What is in several lists may go from one and come to another: lists are apart from each other here.
        return np.sort(order[first & (self.what[order] != _REMOVE)])

    def order(self, kept: npt.NDArray[np.intp], old: int, lists: int, rank: Any) -> npt.NDArray[np.intp]:
        """How the members that are kept are ordered: as their list was, where the new ones have a place in that."""
        groups, ranked = self.groups[kept], rank(self.ids[kept])
        before = np.flatnonzero(kept < old)
        descends = (groups[before][1:] == groups[before][:-1]) & (ranked[before][1:] < ranked[before][:-1])
        other = np.zeros(lists, np.bool_)
        other[groups[before][1:][descends]] = True
        place = np.where(kept < old, np.arange(len(kept), dtype=np.uint64), _AFTER | (ranked >> np.uint64(1)))
        chosen = np.where(other[groups], place, ranked)
        found: npt.NDArray[np.intp] = np.lexsort((self.ids[kept], chosen, groups))
        return found
