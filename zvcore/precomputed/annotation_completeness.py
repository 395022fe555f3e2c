"""Whether the lists of annotations have all that the index by id has, and each once: the other half of their agreement.

What is listed is in the index by id, with the same record: `annotation_agreement` checks that. If it is so, and if both
sides have equally many pairs of a segment and an annotation, with the same sum of hashes, they have the same ones. Only
where they differ, or where an annotation may be in several cells, are the pairs sorted, in bounded memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.errors import ZvcoreError
from zvcore.precomputed.annotation_records import RecordForm
from zvcore.precomputed.annotation_values import IndexValues
from zvcore.precomputed.entries import Entries, nothing_before
from zvcore.precomputed.external_sort import ExternalSort
from zvcore.precomputed.part import Part
from zvcore.precomputed.shard_check import MOST_TOLD
from zvcore.report import What

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.care.rewriting import Patient
    from zvcore.precomputed.annotation_info import AnnotationInfo, Index
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["AnnotationCompleteness"]

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
# Segments, and annotations that are related to them; of the spatial index, the segment is 0.
Pairs = tuple[U64, U64]

# How much is sorted in memory; the rest goes through a temporary file.
_MEMORY = 32 << 20
_LISTED, _KNOWN = 0, 1


class AnnotationCompleteness(Part):
    """Every annotation stands in the list of each segment that it is related to, or in the cells of one level.

    indexes  one relationship, or all levels of the spatial index
    """

    def __init__(
        self, store: Store, info: AnnotationInfo, indexes: Sequence[Index], threads: int | None = None
    ) -> None:
        super().__init__(store, info.by_id.folder, threads)
        self.indexes = indexes
        self.form = RecordForm.of(info)
        self.by_id = IndexValues(store, info.by_id, threads)
        self.lists = [IndexValues(store, one, threads) for one in indexes]
        self.relationship = info.relationships.index(indexes[0]) if indexes[0] in info.relationships else None

    def verify(self, report: Report, only: Sequence[str] | None, fast: bool) -> None:
        """Compare all of it. With `only` nothing: then files are looked at, and not what they say together."""
        if fast or only is not None:
            return
        telling = _Telling(report, self)
        try:
            if self._may_repeat or _tally(self._known()) != _tally(self._listed()):
                for segments, ids, listed, known in self._compared():
                    for row in np.flatnonzero((known > 0) & (listed == 0)).tolist():
                        telling.missing(int(segments[row]), ids[row])
                    for row in np.flatnonzero(listed > np.maximum(known, 1)).tolist():
                        telling.repeated(int(segments[row]), ids[row], int(listed[row]))
        except _Unreadable:
            return
        telling.finish()

    def repair(self, patient: Patient, original: Store, report: Report, only: Sequence[str] | None) -> None:
        """Tell of it: which level an annotation belongs to, only those who write all of them can say."""
        self.verify(report, only, fast=False)

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
                with ExternalSort(_MEMORY) as sort:
                    for pairs in self._listed_by(values):
                        sort.add(_entries(pairs, _LISTED))
                    for segments, ids, _, _ in _counted(sort):
                        yield segments, ids
            else:
                yield from self._listed_by(values)

    def _listed_by(self, values: IndexValues) -> Iterator[Pairs]:
        try:
            for one in values.all_of_them(self.form.listed, damaged=False):
                ids, _, counts = one.values
                owners = one.keys[one.rows]
                segments = np.zeros(len(owners), np.uint64) if owners.ndim > 1 else owners
                yield np.repeat(segments, counts), ids
        except ZvcoreError as error:
            raise _Unreadable from error

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


_SEED = int.from_bytes(os.urandom(8), "little")


def _tally(all_pairs: Iterator[Pairs]) -> tuple[int, int, int]:
    """How many pairs there are, and two sums of hashes that nobody can foresee."""
    count = first = second = 0
    for segments, ids in all_pairs:
        mixed = _mixed(ids ^ _mixed(segments, _SEED), _SEED)
        count += len(ids)
        first += int(mixed.sum(dtype=np.uint64))
        second += int(_mixed(mixed, _SEED + 1).sum(dtype=np.uint64))
    return count, first % 2**64, second % 2**64


def _mixed(values: U64, seed: int) -> U64:
    with np.errstate(over="ignore"):
        mixed = values + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % 2**64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))


class _Telling:
    """Reports annotations, up to a number of them, each with the place of its record."""

    def __init__(self, report: Report, part: AnnotationCompleteness) -> None:
        self.report = report
        self.part = part
        self.told = 0
        self.more = 0
        self.more_is_fatal = False

    def missing(self, segment: int, id: np.uint64) -> None:
        if self.part.relationship is None:
            self._tell(id, "is in no cell of the spatial index", fatal=False)
        else:
            self._tell(id, f"is not in the list of {self._segment(segment)}, to which it is related", fatal=False)

    def repeated(self, segment: int, id: np.uint64, count: int) -> None:
        where = "the spatial index" if self.part.relationship is None else f"the list of {self._segment(segment)}"
        self._tell(id, f"stands {count} times in {where}", fatal=True)

    def _segment(self, segment: int) -> str:
        return f"segment {segment} in {self.part.indexes[0].folder}"

    def _tell(self, id: np.uint64, what: str, fatal: bool) -> None:
        # What is only not listed is there, and found by its id; so it is where repair has left out a broken list.
        if self.told == MOST_TOLD:
            self.more += 1
            self.more_is_fatal = self.more_is_fatal or fatal
            return
        self.told += 1
        place = self.part.by_id.place(id)
        where = {name: value for name, value in place.items() if name != "key"}
        self.report.add(place["key"], f"annotation {id} {what}", fatal=fatal, kind=What.DISAGREEMENT, **where)

    def finish(self) -> None:
        if self.more:
            what = f"{self.more} more annotations are not listed as they must be"
            self.report.add(self.part.indexes[0].folder, what, fatal=self.more_is_fatal, kind=What.DISAGREEMENT)
