"""Whether the lists of annotations have all that the index by id has, and each once: the other half of their agreement.

What is listed is in the index by id, with the same record: `annotation_agreement` checks that. If it is so, and if both
sides have equally many pairs of a segment and an annotation, with the same sum of hashes, they have the same ones. Only
where they differ, or where an annotation may be in several cells, are the pairs sorted, in bounded memory.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.errors import ZvcoreError
from zvcore.precomputed.annotation_places import Places
from zvcore.precomputed.annotation_rebuilding import ListRebuilding
from zvcore.precomputed.annotation_records import RecordForm
from zvcore.precomputed.annotation_standing import Standing, standing, standings
from zvcore.precomputed.annotation_values import IndexValues
from zvcore.precomputed.entries import Entries, nothing_before
from zvcore.precomputed.external_sort import ExternalSort
from zvcore.precomputed.mixing import SECRET, mixed
from zvcore.precomputed.part import Part
from zvcore.precomputed.shard_check import MOST_TOLD
from zvcore.report import What

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.care.rewriting import Patient
    from zvcore.precomputed.annotation_agreement import Findings
    from zvcore.precomputed.annotation_info import AnnotationInfo, Index
    from zvcore.precomputed.annotation_records import Listed
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["AnnotationCompleteness"]

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
# Segments, and annotations that are related to them; of the spatial index, the segment is 0.
Pairs = tuple[U64, U64]

# How many annotations of a level are looked at at once.
_ROWS = 1 << 17
# How much is sorted in memory; the rest goes through a temporary file.
_MEMORY = 32 << 20
_LISTED, _KNOWN = 0, 1


class AnnotationCompleteness(Part):
    """Every annotation stands in the list of each segment that it is related to, or in all the cells of one level in
    which it lies. A repair puts it there.

    indexes  one relationship, or all levels of the spatial index
    """

    def __init__(
        self,
        store: Store,
        info: AnnotationInfo,
        indexes: Sequence[Index],
        findings: Findings,
        threads: int | None = None,
    ) -> None:
        super().__init__(store, info.by_id.folder, threads)
        self.info = info
        self.indexes = indexes
        self.findings = findings
        self.form = RecordForm.of(info)
        self.by_id = IndexValues(store, info.by_id, threads)
        self.lists = [IndexValues(store, one, threads) for one in indexes]
        self.relationship = info.relationships.index(indexes[0]) if indexes[0] in info.relationships else None

    def verify(self, report: Report, only: Sequence[str] | None, fast: bool) -> None:
        """Compare all of it. With `only` nothing: then files are looked at, and not what they say together."""
        if not fast and only is None:
            with suppress(_Unreadable):
                self._verify(report)

    def _verify(self, report: Report) -> bool:
        """Whether all is as it must be."""
        telling = _Telling(report, self)
        if self._may_repeat:
            for level, values in enumerate(self.lists):
                for one in self._standing(values):
                    telling.torn(level, one.ids[one.torn])
                    telling.repeated_in_a_cell(level, one.ids[one.repeated])
        if self._may_repeat or _tally(self._known()) != _tally(self._listed()):
            for segments, ids, listed, known in self._compared():
                for row in np.flatnonzero((known > 0) & (listed == 0)).tolist():
                    telling.missing(int(segments[row]), ids[row])
                for row in np.flatnonzero(listed > np.maximum(known, 1)).tolist():
                    telling.repeated(int(segments[row]), ids[row], int(listed[row]))
        telling.finish()
        return not telling.told

    def repair(self, patient: Patient, original: Store, report: Report, only: Sequence[str] | None) -> None:
        """Put into lists what the index by id has, and tell of what was missing."""
        if only is None:
            with suppress(_Unreadable):
                self._repair(report)

    def _repair(self, report: Report) -> None:
        misplaced = any(one.folder in self.findings.misplaced for one in self.indexes)
        if self._verify(report) and not misplaced:
            return
        rebuilding = ListRebuilding(self.store, self.info, self.form, self.findings, report, self.threads)
        if self.relationship is not None:
            rebuilding.relationship(self.indexes[0], self._lost())
        else:
            rebuilding.spatial(self._torn, (ids for _, ids in self._lost()))

    def _lost(self) -> Iterator[Pairs]:
        """What the index by id has, and lists have not."""
        for segments, ids, listed, known in self._compared():
            rows = np.flatnonzero((known > 0) & (listed == 0))
            yield segments[rows], ids[rows]

    def _torn(self, values: IndexValues) -> Iterator[U64]:
        """The annotations of a level that stand in some of the cells that they meet."""
        for one in self._standing(values) if self._may_repeat else ():
            yield one.ids[one.torn]

    @property
    def _may_repeat(self) -> bool:
        """Whether an annotation may be in several cells of its level."""
        return self.relationship is None and self.form.type != "point"

    # --- pairs

    def _known(self) -> Iterator[Pairs]:
        """What the index by id has, as far as it can be read."""
        for one in self.by_id.all_of_them(self.form.singles):
            ids = one.keys[one.rows]
            if self.relationship is None:
                yield np.zeros(len(ids), np.uint64), ids
            else:
                related = one.values.related[self.relationship]
                yield related.values, np.repeat(ids, related.lengths)

    def _listed(self) -> Iterator[Pairs]:
        """What the lists have; of a level, each annotation that may be in several cells once."""
        for values in self.lists:
            if self._may_repeat:
                for one in self._standing(values):
                    yield np.zeros(len(one.ids), np.uint64), one.ids
            else:
                for owners, listed in self._read(values):
                    yield np.zeros(len(owners), np.uint64) if owners.ndim > 1 else owners, listed.ids

    def _read(self, values: IndexValues) -> Iterator[tuple[npt.NDArray[Any], Listed]]:
        """(key of the list of each annotation, annotations) of all lists of an index."""
        try:
            for one in values.all_of_them(self.form.listed, damaged=False):
                yield np.repeat(one.keys[one.rows], one.values.counts, axis=0), one.values
        except ZvcoreError as error:
            raise _Unreadable from error

    def _standing(self, values: IndexValues) -> Iterator[Standing]:
        """The annotations of a level, each once, with whether they stand where they must."""
        places = Places(self.info, values.index, self.form)
        with ExternalSort(_MEMORY) as sort:
            for owners, one in self._read(values):
                for first in range(0, len(one.ids), _ROWS):
                    rows = np.arange(first, min(len(one.ids), first + _ROWS))
                    for entries in standings(places, owners[rows], one.ids[rows], one.records.take(rows)):
                        sort.add(entries)
            yield from standing(sort)

    def _compared(self) -> Iterator[tuple[U64, U64, I64, I64]]:
        """(segments, ids, how often they are listed, how often known), each pair once."""
        with ExternalSort(_MEMORY) as sort:
            for side, all_pairs in ((_LISTED, self._listed()), (_KNOWN, self._known())):
                for pairs in all_pairs:
                    sort.add(_entries(pairs, side))
            yield from _counted(sort)


class _Unreadable(Exception):
    """A list cannot be read, of which its own check tells: what it lists is not known."""


def _entries(pairs: Pairs, side: int) -> Entries:
    segments, ids = pairs
    count = len(ids)
    return Entries(
        np.ascontiguousarray(segments), ids, nothing_before(count), np.ones(count, np.uint64),
        np.full(count, side, np.uint8),
    )  # fmt: skip


def _counted(sort: ExternalSort) -> Iterator[tuple[U64, U64, I64, I64]]:
    """Each pair once, in order, with how often each side has it."""
    held: list[Any] = []
    for piece in sort.merged():
        if not len(piece):
            continue
        changes = (piece.hashes[1:] != piece.hashes[:-1]) | (piece.ids[1:] != piece.ids[:-1])
        firsts = np.concatenate([[0], np.flatnonzero(changes) + 1])
        known = np.add.reduceat((piece.data == _KNOWN).astype(np.int64), firsts)
        listed = np.diff(np.append(firsts, len(piece))) - known
        now = [piece.hashes[firsts], piece.ids[firsts], listed, known]
        if held and (held[0][-1], held[1][-1]) == (now[0][0], now[1][0]):
            # The last pair of the piece before goes on in this one.
            now[2][0] += held[2][-1]
            now[3][0] += held[3][-1]
            held = [column[:-1] for column in held]
        if held:
            yield held[0], held[1], held[2], held[3]
        held = now
    if held:
        yield held[0], held[1], held[2], held[3]


def _tally(all_pairs: Iterator[Pairs]) -> tuple[int, int, int]:
    """How many pairs there are, and two sums of hashes that nobody can foresee."""
    count = first = second = 0
    for segments, ids in all_pairs:
        first_hash = mixed(ids ^ mixed(segments, SECRET), SECRET)
        count += len(ids)
        first += int(first_hash.sum(dtype=np.uint64))
        second += int(mixed(first_hash, SECRET + 1).sum(dtype=np.uint64))
    return count, first % 2**64, second % 2**64


class _Telling:
    """Reports annotations, up to a number of them, each with the place of its record."""

    def __init__(self, report: Report, part: AnnotationCompleteness) -> None:
        self.report = report
        self.part = part
        self.told = 0
        self.more = 0

    def missing(self, segment: int, id: np.uint64) -> None:
        if self.part.relationship is None:
            self._tell(id, "is in no cell of the spatial index")
        else:
            self._tell(id, f"is not in the list of {self._segment(segment)}, to which it is related")

    def torn(self, level: int, ids: U64) -> None:
        for id in ids:
            self._tell(id, f"is not in all cells of {self.part.indexes[level].folder} in which it lies")

    def repeated_in_a_cell(self, level: int, ids: U64) -> None:
        for id in ids:
            self._tell(id, f"stands more than once in a cell of {self.part.indexes[level].folder}")

    def repeated(self, segment: int, id: np.uint64, count: int) -> None:
        where = "the spatial index" if self.part.relationship is None else f"the list of {self._segment(segment)}"
        self._tell(id, f"stands {count} times in {where}")

    def _segment(self, segment: int) -> str:
        return f"segment {segment} in {self.part.indexes[0].folder}"

    def _tell(self, id: np.uint64, what: str) -> None:
        if self.told == MOST_TOLD:
            self.more += 1
            return
        self.told += 1
        place = self.part.by_id.place(id)
        where = {name: value for name, value in place.items() if name != "key"}
        self.report.add(place["key"], f"annotation {id} {what}", kind=What.DISAGREEMENT, **where)

    def finish(self) -> None:
        if self.more:
            what = f"{self.more} more annotations are not listed as they must be"
            self.report.add(self.part.indexes[0].folder, what, kind=What.DISAGREEMENT)
