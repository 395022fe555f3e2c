"""Whether the indexes of annotations agree: what one of them lists must be what the index by id has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.precomputed.annotation_places import Places
from zvcore.precomputed.annotation_records import RecordForm, Records
from zvcore.precomputed.annotation_values import IndexValues, readable
from zvcore.precomputed.part import Part
from zvcore.precomputed.ragged import Ragged
from zvcore.precomputed.set_files import put_objects
from zvcore.precomputed.shard_check import MOST_TOLD
from zvcore.precomputed.sharded_store import ShardedStore
from zvcore.report import What

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.care.rewriting import Patient
    from zvcore.precomputed.annotation_info import AnnotationInfo, Index
    from zvcore.precomputed.annotation_records import Single
    from zvcore.precomputed.annotation_values import Read
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["AnnotationAgreement", "Findings", "LostAnnotations", "compared"]

U64 = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

# Annotations that are compared at once.
_COMPARED = 1 << 16
# How many annotations are put back by one repair: they are gathered in memory.
_MOST_RESTORED = 1 << 20
_MOST_DISPUTED = 1 << 20


class AnnotationAgreement(Part):
    """Every annotation that a relationship or a level lists is in the index by id, with the same record, and, where a
    relationship lists it, related to that segment; what a cell lists lies in it.

    Values that cannot be read are passed over: the check of their own index reports them.
    """

    def __init__(
        self, store: Store, info: AnnotationInfo, index: Index, findings: Findings, threads: int | None = None
    ) -> None:
        super().__init__(store, index.folder, threads)
        self.info = info
        self.index = index
        self.findings = findings

    def verify(self, report: Report, only: Sequence[str] | None, fast: bool) -> None:
        """Compare all of it. With `only` nothing: then files are looked at, and not what they say together."""
        if fast or only is not None:
            return
        lists = IndexValues(self.store, self.index, self.threads)
        telling = _Telling(report, lists)
        for one in compared(self.store, self.info, self.index, self.threads):
            telling.tell(one, one.missing, "is not in the index by id")
            telling.tell(one, one.different, "has another record in the index by id")
            telling.tell(one, one.unrelated, "is not related to the segment by the index by id")
            telling.tell(one, one.misplaced, "lies outside of the cell")
            self.findings.dispute(one.ids[one.different | one.unrelated])
            if one.misplaced.any():
                self.findings.misplaced.add(self.index.folder)
        telling.finish()

    def repair(self, patient: Patient, original: Store, report: Report, only: Sequence[str] | None) -> None:
        """Tell of it: which of two records is right cannot be seen from them. The rest is put in order later."""
        self.verify(report, only, fast=False)


class Findings:
    """What the parts of a set say to each other.

    misplaced  the folders of levels with annotations that lie outside of their cells
    """

    def __init__(self) -> None:
        self.misplaced: set[str] = set()
        self._disputed = np.empty(0, np.uint64)
        self._all = False

    def dispute(self, ids: U64) -> None:
        """Note annotations of which lists and the index by id say something else: nobody can see which is right."""
        if len(ids) and not self._all:
            self._disputed = np.union1d(self._disputed, ids)
            if len(self._disputed) > _MOST_DISPUTED:
                self._disputed, self._all = self._disputed[:0], True

    def disputed(self, ids: U64) -> Flags:
        """Which of the ids are in dispute; with too many to be remembered, all."""
        return np.ones(len(ids), np.bool_) if self._all else _among(ids, self._disputed)


class LostAnnotations(Part):
    """The annotations that the index by id has lost and others list: a repair puts them back when all has been read."""

    def __init__(self, store: Store, info: AnnotationInfo, threads: int | None = None) -> None:
        super().__init__(store, info.by_id.folder, threads)
        self.info = info
        self.form = RecordForm.of(info)

    def verify(self, report: Report, only: Sequence[str] | None, fast: bool) -> None:
        """Nothing: `AnnotationAgreement` tells of them."""

    def repair(self, patient: Patient, original: Store, report: Report, only: Sequence[str] | None) -> None:
        if only is not None:
            return
        lost: dict[int, _Lost] = {}
        for index in self.info.indexes[1:]:
            self._gather(index, lost)
        if not lost:
            return
        ids = np.array(sorted(lost), np.uint64)
        found = [lost[id] for id in ids.tolist()]
        ends = np.cumsum([0, *(len(one.record) for one in found)])
        records = Records(np.frombuffer(b"".join(one.record for one in found), np.uint8), ends.astype(np.int64))
        related = [
            Ragged.of([sorted(one.segments.get(number, ())) for one in found], np.uint64)
            for number in range(len(self.info.relationships))
        ]
        values = self.form.encode_annotations(records, related)
        bounds = values.starts.tolist()
        pairs = [
            (id, values.data[bounds[row] : bounds[row + 1]].tobytes()) for row, id in enumerate(ids.tolist())
        ]  # fmt: skip
        folder, sharding = self.store.child(self.folder), self.info.by_id.sharding
        if sharding is not None:
            ShardedStore(folder, sharding, "r+", threads=self.threads).update(pairs)
        else:
            put_objects(folder, (((str(id), data),) for id, data in pairs))
        report.count("annotations put back", len(pairs))

    def _gather(self, index: Index, lost: dict[int, _Lost]) -> None:
        """Add what an index has of annotations that are not in the index by id."""
        for one in compared(self.store, self.info, index, self.threads):
            for row in np.flatnonzero(one.missing).tolist():
                id = int(one.ids[row])
                if id not in lost and len(lost) == _MOST_RESTORED:
                    continue
                start, end = one.records.starts[row : row + 2].tolist()
                here = lost.setdefault(id, _Lost(one.records.data[start:end].tobytes()))
                if index in self.info.relationships:
                    number = self.info.relationships.index(index)
                    here.segments.setdefault(number, set()).add(int(one.owners[row]))


@dataclass
class _Lost:
    """An annotation as lists have it; `segments`: by the number of a relationship, those whose lists name it."""

    record: bytes
    segments: dict[int, set[int]] = field(default_factory=dict)


@dataclass
class _Compared:
    """Some annotations of lists: their ids, records, and the keys of the lists that they stand in.

    missing    which of them are not in the index by id
    different  which have another record there
    unrelated  which are not related to their segment there
    misplaced  which lie outside of the cell that lists them
    """

    ids: U64
    records: Records
    owners: npt.NDArray[Any]
    missing: Flags
    different: Flags
    unrelated: Flags
    misplaced: Flags


def compared(store: Store, info: AnnotationInfo, index: Index, threads: int | None) -> Iterator[_Compared]:
    """The annotations of all lists of an index that can be read, some at a time."""
    form = RecordForm.of(info)
    lists, by_id = IndexValues(store, index, threads), IndexValues(store, info.by_id, threads)
    relationship = info.relationships.index(index) if index in info.relationships else None
    places = None if index.grid is None else Places(info, index, form)
    for found in lists.all_of_them(form.listed):
        ids, records, counts = found.values
        owners = np.repeat(found.keys[found.rows], counts, axis=0)
        for start in range(0, len(ids), _COMPARED):
            rows = np.arange(start, min(len(ids), start + _COMPARED))
            one = _unlike_nothing(ids[rows], records.take(rows), owners[rows])
            for known in readable(by_id, np.unique(one.ids), form.singles):
                _compare(one, known, relationship)
            if places is not None:
                one.misplaced = places.misplaced(one.records, one.owners)
            yield one


def _unlike_nothing(ids: U64, records: Records, owners: npt.NDArray[Any]) -> _Compared:
    return _Compared(ids, records, owners, *(np.zeros(len(ids), np.bool_) for _ in range(4)))


def _compare(one: _Compared, known: Read[Single], relationship: int | None) -> None:
    """Compare those annotations whose ids were asked for."""
    one.missing |= _among(one.ids, np.delete(known.keys, known.rows))
    there = known.keys[known.rows]
    meant = np.flatnonzero(_among(one.ids, there))
    records, related = known.values
    places = np.searchsorted(there, one.ids[meant])
    one.different[meant] = one.records.take(meant).differ(records.take(places))
    if relationship is not None:
        segments = related[relationship].take(places)
        alike = segments.values == np.repeat(one.owners[meant], segments.lengths)
        rows = np.repeat(np.arange(len(meant)), segments.lengths)
        one.unrelated[meant] = np.bincount(rows[alike], minlength=len(meant)) == 0


def _among(ids: U64, some: U64) -> Flags:
    """Which of the ids are among some others, which are sorted."""
    if not len(some):
        return np.zeros(len(ids), np.bool_)
    places = np.minimum(np.searchsorted(some, ids), len(some) - 1)
    found: Flags = some[places] == ids
    return found


class _Telling:
    """Reports annotations, up to a number of them, each with the list that it stands in."""

    def __init__(self, report: Report, lists: IndexValues) -> None:
        self.report = report
        self.lists = lists
        self.told = 0
        self.more = 0

    def tell(self, one: _Compared, wrong: Flags, what: str) -> None:
        rows = np.flatnonzero(wrong)
        room = MOST_TOLD - self.told
        self.more += max(0, len(rows) - room)
        place: dict[str, Any] = {}
        before = None
        for row in rows[:room].tolist():
            key = one.owners[row]
            if before is None or (key != before).any():
                place, before = self.lists.place(key), key
            where = {name: value for name, value in place.items() if name != "key"}
            self.report.add(place["key"], f"annotation {one.ids[row]} {what}", kind=What.DISAGREEMENT, **where)
        self.told += len(rows[:room])

    def finish(self) -> None:
        if self.more:
            what = f"{self.more} more annotations are not as the index by id has them"
            self.report.add(self.lists.index.folder, what, kind=What.DISAGREEMENT)
