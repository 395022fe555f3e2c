"""Putting back into lists what the index by id has and they have lost: of relationships, and of cells.

Nothing is taken out but what stands in a cell in which it does not lie; it goes to the cells of that level in which it
does. What no cell has goes to the coarsest level whose cell has room for it. Annotations of which the lists and the
index by id say something else stay as they are, and those that stand in a list more often than they should.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.precomputed.annotation_agreement import compared
from zvcore.precomputed.annotation_levels import ranks
from zvcore.precomputed.annotation_list_edits import ListEdits
from zvcore.precomputed.annotation_lists import whole_lists
from zvcore.precomputed.annotation_places import Places
from zvcore.precomputed.annotation_records import Records
from zvcore.precomputed.annotation_values import IndexValues, readable
from zvcore.precomputed.entries import Entries, nothing_before
from zvcore.precomputed.external_sort import ExternalSort
from zvcore.precomputed.shard_reader import group_starts
from zvcore.precomputed.sharding_spec import grid_bits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zvcore.precomputed.annotation_agreement import Findings
    from zvcore.precomputed.annotation_info import AnnotationInfo, Index
    from zvcore.precomputed.annotation_records import RecordForm
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["ListRebuilding"]

U64 = npt.NDArray[np.uint64]

# How many annotations are looked up at once, how many lists are counted at once, and how much is sorted in memory.
_ROWS = 1 << 14
_LISTS = 256
_MEMORY = 32 << 20
# More than any cell has; documents may name numbers of any length.
_NO_LIMIT = 1 << 62


class ListRebuilding:
    """The lists of a set of annotations, to be completed from its index by id."""

    def __init__(
        self, store: Store, info: AnnotationInfo, form: RecordForm, findings: Findings, report: Report,
        threads: int | None,
    ) -> None:  # fmt: skip
        self.store = store
        self.info = info
        self.form = form
        self.findings = findings
        self.report = report
        self.threads = threads
        self.by_id = IndexValues(store, info.by_id, threads)

    def relationship(self, index: Index, lost: Iterator[tuple[U64, U64]]) -> None:
        """`lost`: (segments, ids of annotations that their lists have not)."""
        with self._edits(index) as edits:
            for segments, ids in lost:
                for rows, records in self._records(ids):
                    edits.add(segments[rows], ids[rows], records)
            self._apply(edits)

    def spatial(self, torn: Callable[[IndexValues], Iterator[U64]], lost: Iterator[U64]) -> None:
        """`torn`: the ids of annotations that not all cells of a level have in which they lie; `lost`: those that no
        cell has.
        """
        levels = [_Level(self, index) for index in self.info.levels]
        if not all(level.addressable and level.places.known for level in levels):
            return
        for level in levels:
            with self._edits(level.index) as edits:
                self._move(level, edits)
                for ids in torn(level.values):
                    for rows, records in self._records(ids):
                        _add(level, edits, ids[rows], records)
                self._apply(edits)
        with ExitStack() as stack:
            waiting = stack.enter_context(ExternalSort(_MEMORY))
            for ids in lost:
                for rows, records in self._records(ids):
                    few = np.flatnonzero(levels[0].places.few(records))
                    levels[0].queue(waiting, ids[rows[few]], records.take(few))
            for number, level in enumerate(levels):
                finer = levels[number + 1] if number + 1 < len(levels) else None
                rest = stack.enter_context(ExternalSort(_MEMORY))
                with self._edits(level.index) as edits:
                    self._settle(waiting, level, finer, edits, rest)
                    self._apply(edits)
                waiting = rest

    def _edits(self, index: Index) -> ListEdits:
        return ListEdits(self.store, IndexValues(self.store, index, self.threads), self.form)

    def _apply(self, edits: ListEdits) -> None:
        edits.apply()
        if edits.lists:
            self.report.count("lists rebuilt", edits.lists)

    def _records(self, ids: U64) -> Iterator[tuple[npt.NDArray[np.intp], Records]]:
        """(rows of `ids`, their records) of those that can be read and are not in dispute."""
        for first in range(0, len(ids), _ROWS):
            some = ids[first : first + _ROWS]
            wanted = np.unique(some)
            for known in readable(self.by_id, wanted[~self.findings.disputed(wanted)], self.form.singles):
                there = known.keys[known.rows]
                if len(there):
                    places = np.minimum(np.searchsorted(there, some), len(there) - 1)
                    rows = np.flatnonzero(there[places] == some)
                    yield first + rows, known.values.records.take(places[rows])

    def _move(self, level: _Level, edits: ListEdits) -> None:
        """Take annotations out of the cells in which they do not lie, and put points into those in which they do."""
        for one in compared(self.store, self.info, level.index, self.threads):
            rows = np.flatnonzero(one.misplaced & ~one.missing & ~self.findings.disputed(one.ids))
            records = one.records.take(rows)
            few = level.places.few(records)
            rows, records = rows[few], records.take(np.flatnonzero(few))
            edits.remove(one.owners[rows], one.ids[rows])
            _add(level, edits, one.ids[rows], records)

    def _settle(
        self, waiting: ExternalSort, level: _Level, finer: _Level | None, edits: ListEdits, rest: ExternalSort
    ) -> None:
        """Put what waits into the cells of a level; what has to go to the next waits in `rest`."""
        for entries in whole_lists(waiting.merged()):
            firsts = group_starts(entries.ids)
            for first in range(0, len(firsts), _LISTS):
                last = int(firsts[first + _LISTS]) if first + _LISTS < len(firsts) else len(entries)
                ids, records, cells = _taken(entries.slice(int(firsts[first]), last))
                stays = np.ones(len(ids), np.bool_)
                if finer is not None:
                    stays = level.has_room(cells, ids, records) | ~finer.places.few(records)
                    go = np.flatnonzero(~stays)
                    finer.queue(rest, ids[go], records.take(go))
                stay = np.flatnonzero(stays)
                _add(level, edits, ids[stay], records.take(stay))


class _Level:
    """A level of the spatial index, with what has to be known to put annotations into it."""

    def __init__(self, rebuilding: ListRebuilding, index: Index) -> None:
        assert index.grid is not None
        self.index = index
        self.form = rebuilding.form
        self.values = IndexValues(rebuilding.store, index, rebuilding.threads)
        self.places = Places(rebuilding.info, index, rebuilding.form)
        # Otherwise cells have no numbers of 64 bits, by which lists could be sorted.
        self.addressable = sum(grid_bits(index.grid)) <= 64

    def queue(self, waiting: ExternalSort, ids: U64, records: Records) -> None:
        """Have annotations wait in the order of the first cells that they meet."""
        if len(ids):
            numbers = self.values.numbers(self.places.first_cell(records))
            whole = records.followed_by(ids)
            sizes = whole.sizes.astype(np.uint64)
            waiting.add(Entries(np.zeros_like(numbers), numbers, nothing_before(len(ids)), sizes, whole.data))

    def has_room(self, numbers: U64, ids: U64, records: Records) -> npt.NDArray[np.bool_]:
        """For which annotations, the first by their hashes, the first cells that they meet have room.

        What meets several cells takes as much room there: elsewhere others do that lie between the same cells.
        """
        cells = np.unique(numbers)
        data, starts, rows = self.values.fetch(self.values.keys_of(cells))
        room = np.full(len(cells), min(self.index.limit, _NO_LIMIT), np.int64)
        room[rows] -= self.form.listed(data, starts).counts
        order = np.lexsort((ranks(ids), numbers))
        needed = self.places.count(records)[order]
        begins = group_starts(numbers[order])
        used = np.cumsum(needed)
        used -= np.repeat(used[begins] - needed[begins], np.diff(np.append(begins, len(order))))
        found = np.empty(len(order), np.bool_)
        found[order] = used <= room[np.searchsorted(cells, numbers[order])]
        return found


def _add(level: _Level, edits: ListEdits, ids: U64, records: Records) -> None:
    """Put annotations into every cell of a level in which they lie."""
    for first in range(0, len(ids), _ROWS):
        some = np.arange(first, min(len(ids), first + _ROWS))
        rows, cells = level.places.met(records.take(some))
        edits.add(cells, ids[some[rows]], records.take(some[rows]))


def _taken(entries: Entries) -> tuple[U64, Records, Any]:
    """(ids, records, numbers of cells) of annotations that waited."""
    starts = np.zeros(len(entries) + 1, np.int64)
    np.cumsum(entries.sizes.astype(np.int64), out=starts[1:])
    records, ids = Records(entries.data, starts).without_ids()
    return ids, records, entries.ids
