"""Checking one shard file entry by entry: what is wrong with it, and which of its values are sound."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from zvcore.care.checking import first_bad
from zvcore.care.intervals import byte_map, overlaps
from zvcore.care.refusals import refusal
from zvcore.engine import Keys, fetch_sound
from zvcore.engine.steady import steadily
from zvcore.errors import ConflictError, OutOfMemoryError, ZvcoreError
from zvcore.layout import Sources
from zvcore.precomputed.external_sort import pieces_of
from zvcore.precomputed.minishards import each_table, stored_minishards
from zvcore.report import Problem, Report, What

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    import numpy.typing as npt

    from zvcore.care.intervals import Span
    from zvcore.codecs import CodecChain
    from zvcore.engine import Buffers
    from zvcore.precomputed._minishard import Minishard
    from zvcore.precomputed.entries import U64
    from zvcore.precomputed.shard_reader import ShardFile, ShardReader

__all__ = ["BATCH_BYTES", "MOST_TOLD", "Examination", "Judge", "dead_bytes", "examine", "shard_map"]

# What values that are decoded together may take.
BATCH_BYTES = 32 << 20
_USUAL_RATIO = 4
# How many values of one file are named with the same fault.
MOST_TOLD = 1 << 14


class Judge:
    """Says which values are what they should be. This one asks only that they can be decoded."""

    def __init__(self, reader: ShardReader, threads: int | None = None) -> None:
        self.reader = reader
        self.threads = threads
        # What `look` found odd, until it is reported.
        self.odd: list[Problem] = []

    def alone(self) -> Self:
        """One like this, for a single look at a shard: what others find odd meanwhile is none of its business."""
        one = copy(self)
        one.odd = []
        return one

    def chains(self) -> tuple[CodecChain, ...]:
        return (self.reader.data_chain,)

    def unwanted(self, ids: U64) -> npt.NDArray[np.bool_] | None:
        """Which ids cannot be, whatever their value; None: any can."""
        return None

    def columns(self, ids: U64) -> tuple[npt.NDArray[np.uint8] | None, U64 | None]:
        """Which chain decodes each value, and to how many bytes."""
        return None, None

    def look(self, id: int, value: memoryview, file: ShardFile, start: int) -> None:
        """Raise an error if this decoded value is wrong, or note in `odd` what is strange; for subclasses.

        `start` is where the stored value lies.
        """

    # Whether `look` does anything.
    looks = False

    def faults(self, ids: U64, starts: U64, sizes: U64, file: ShardFile) -> Iterator[tuple[int, ZvcoreError]]:
        """(row, error) for each value that is wrong."""
        _, expected = self.columns(ids)

        def decode(first: int, last: int) -> list[tuple[int, ZvcoreError]]:
            values, bad = self._fetch(ids[first:last], starts[first:last], sizes[first:last], file)
            wrong = {row for row, _ in bad}
            if self.looks:
                for row, value in enumerate(iter(values)):
                    if row in wrong:
                        continue
                    assert value is not None
                    self.look(int(ids[first + row]), value, file, int(starts[first + row]))
            return [(first + row, error) for row, error in bad]

        # What a batch takes once it is decoded, as far as that is known.
        weights = np.maximum(sizes, expected) if expected is not None else sizes * np.uint64(_USUAL_RATIO)
        for first, last in pieces_of(weights, BATCH_BYTES):
            yield from first_bad(decode, first, last)

    def _fetch(
        self, ids: U64, starts: U64, sizes: U64, file: ShardFile
    ) -> tuple[Buffers, list[tuple[int, ZvcoreError]]]:
        chain, expected = self.columns(ids)
        sources = Sources(
            Keys.of([file.data_key]), np.zeros(len(ids), np.int32), starts, sizes, chain=chain, stamps=[file.stamp]
        )
        return fetch_sound(
            self.reader.store, sources, self.chains(), count=len(ids), expected=expected, threads=self.threads
        )


@dataclass
class Examination:
    """What was found in one shard file.

    file      None when not even the shard index can be read
    starts    where values lie in the data object
    sound     which of the values can be kept
    astray    which of them no reader finds, because they belong to another minishard or shard
    inside    which of them lie within the file, sound or not
    """

    shard: int
    file: ShardFile | None
    report: Report
    ids: U64 = field(default_factory=lambda: np.empty(0, np.uint64))
    starts: U64 = field(default_factory=lambda: np.empty(0, np.uint64))
    sizes: U64 = field(default_factory=lambda: np.empty(0, np.uint64))
    sound: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    astray: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    inside: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    # (start, end) of the minishard indices that lie within the file.
    indices: list[tuple[int, int]] = field(default_factory=list)
    # The minishards whose index cannot be read.
    unread: list[int] = field(default_factory=list)

    def tell(
        self, rows: npt.NDArray[np.bool_], what: str | Callable[[int], str], kind: What, *, placed: bool = True
    ) -> None:
        """Report a fault of some of the values; with their byte ranges, if it is about these (`placed`)."""
        assert self.file is not None
        meant = np.flatnonzero(rows)
        for row in meant[:MOST_TOLD].tolist():
            place = {"offset": int(self.starts[row]), "length": int(self.sizes[row])} if placed else {}
            text = what if isinstance(what, str) else what(row)
            self.report.add(self.file.data_key, text, chunk=int(self.ids[row]), kind=kind, **place)
        if len(meant) > MOST_TOLD:
            self.report.add(
                self.file.data_key, f"{len(meant) - MOST_TOLD} more values have such a fault, which are not named",
                kind=kind,
            )  # fmt: skip


def examine(reader: ShardReader, shard: int, judge: Judge, *, fast: bool = False) -> Examination:
    """Check everything in a shard file, or with `fast` everything except the values."""
    return steadily(lambda: _examined(reader, shard, judge.alone(), fast), reader.key(shard))


def _examined(reader: ShardReader, shard: int, judge: Judge, fast: bool) -> Examination:
    key = reader.key(shard)
    report = Report()
    report.count("files")
    found = Examination(shard, None, report)
    try:
        file = reader.file(shard)
        if file is None:
            return found
        numbers, entries = stored_minishards(reader, file)
    except ConflictError:
        raise
    except (ZvcoreError, OSError) as error:
        report.tell(Problem.of(refusal(error, reader.store.root), key, kind=What.INDEX))
        return found
    found.file = file
    tables = _tables(reader, file, numbers, entries, found)
    report.count("minishards", len(tables))
    if not tables:
        return found
    owners = np.repeat([number for number, _ in tables], [len(table) for _, table in tables]).astype(np.uint64)
    found.ids = np.concatenate([table.ids for _, table in tables])
    found.sizes = np.concatenate([table.sizes for _, table in tables])
    found.starts = np.concatenate([table.starts for _, table in tables]) + np.uint64(file.base)
    found.inside = ~np.concatenate([table.bad_entries() for _, table in tables])
    found.sound = found.inside.copy()
    report.count("values", len(found.ids))
    _check_entries(reader, found, owners, judge)
    _check_overlaps(found)
    if not fast:
        _check_values(found, judge)
    return found


def _check_values(found: Examination, judge: Judge) -> None:
    """Decode the values that seem to be sound."""
    file, report = found.file, found.report
    assert file is not None
    rows = np.flatnonzero(found.sound)
    # Empty values are all alike: checking one is enough, however many the index claims there are.
    empty = rows[found.sizes[rows] == 0]
    rows = rows[found.sizes[rows] > 0]
    for some in (rows, empty[:1]):
        for row, fault in judge.faults(found.ids[some], found.starts[some], found.sizes[some], file):
            place = int(some[row])
            fault.located(offset=int(found.starts[place]), length=int(found.sizes[place]))
            fault.chunk = int(found.ids[place])
            problem = Problem.of(fault, file.data_key)
            report.tell(problem)
            # A value that zvcore cannot read may well be sound.
            found.sound[place] = not problem.damage
    while judge.odd:
        report.tell(judge.odd.pop())
    if len(empty) > 1 and not found.sound[empty[0]]:
        found.sound[empty] = False
        alike = np.zeros(len(found.ids), np.bool_)
        alike[empty[1:]] = True
        found.tell(alike, "the value has no bytes, and cannot be decoded", What.DATA)


def _tables(
    reader: ShardReader, file: ShardFile, numbers: npt.NDArray[np.int64], entries: U64, found: Examination
) -> list[tuple[int, Minishard]]:
    """The minishards whose index can be read."""
    kept, ranges = [], []
    for number, entry in zip(numbers.tolist(), entries.tolist(), strict=True):
        try:
            ranges.append(file.check(number, *entry) or (0, 0))
            kept.append(number)
        except ZvcoreError as error:
            _tell_index(found, number, error, What.INDEX_ENTRY)
    found.indices = [(start, start + size) for start, size in ranges]
    tables = []
    for number, table in each_table(reader, file, kept, np.array(ranges, np.uint64).reshape(-1, 2)):
        if isinstance(table, OutOfMemoryError):
            raise table  # it may well be sound: a repair that went on without it would leave out its values
        if isinstance(table, ZvcoreError):
            _tell_index(found, number, table, What.INDEX)
            continue
        tables.append((number, table))
        if not table.ascending:
            found.report.add(
                file.data_key, "ids are not in order", chunk=f"minishard {number}", fatal=False, kind=What.INDEX
            )
    return tables


def _tell_index(found: Examination, number: int, error: ZvcoreError, kind: What) -> None:
    assert found.file is not None
    found.unread.append(number)
    found.report.tell(Problem.of(error, found.file.data_key, f"minishard {number}", kind))


def _check_entries(reader: ShardReader, found: Examination, owners: U64, judge: Judge) -> None:
    file = found.file
    assert file is not None
    found.tell(
        ~found.inside, f"the value lies outside the file (expected an end at or before byte {file.limit})",
        What.INDEX_ENTRY,
    )  # fmt: skip
    shards, minishards = reader.spec.locate(found.ids)
    found.astray = (shards != np.uint64(found.shard)) | (minishards != owners)
    found.tell(
        found.astray,
        lambda row: (
            f"the id stands in minishard {owners[row]} but belongs to minishard {minishards[row]} of "
            f"{reader.key(int(shards[row]))}, so no reader finds it"
        ),
        What.STRAY,
        placed=False,
    )
    values, counts = np.unique(found.ids, return_counts=True)
    twice = np.isin(found.ids, values[counts > 1])
    found.tell(twice & ~found.astray, "the id is there more than once", What.INDEX_ENTRY)
    unwanted = judge.unwanted(found.ids)
    if unwanted is not None:
        found.tell(unwanted, "the id is that of no chunk: it lies outside the grid", What.STRAY)
        found.sound &= ~unwanted
    _drop_duplicates(reader, found, np.flatnonzero(twice & found.sound))


def _drop_duplicates(reader: ShardReader, found: Examination, rows: npt.NDArray[np.int64]) -> None:
    """Of several sound entries of one id, keep one if all candidates have the same bytes, and none otherwise."""
    file = found.file
    assert file is not None
    found.sound[rows] = False
    # Entries where readers look come first; if there are any, only these are candidates.
    rows = rows[np.lexsort((rows, found.astray[rows], found.ids[rows]))]
    first = np.flatnonzero(np.concatenate([[True], found.ids[rows[1:]] != found.ids[rows[:-1]]])) if len(rows) else rows
    # Sound values do not share bytes, so no more bytes than the file has need be compared.
    room = file.limit
    for start, end in zip(first.tolist(), [*first[1:].tolist(), len(rows)], strict=False):
        group = rows[start:end]
        meant = group[found.astray[group] == found.astray[group[0]]]
        places = {(int(found.starts[row]), int(found.sizes[row])) for row in meant.tolist()}
        if len(places) > 1:
            room -= sum(size for _, size in places)
        if len(places) == 1 or (room >= 0 and _same_bytes(reader, file, sorted(places))):
            found.sound[meant[0]] = True


def _same_bytes(reader: ShardReader, file: ShardFile, places: list[tuple[int, int]]) -> bool:
    """Whether these places (offset, size) hold the same bytes. They are read one after the other."""
    if len({size for _, size in places}) > 1:
        return False
    stored = (reader.store.get_ranges(file.data_key, [place], stamp=file.stamp) for place in places)
    wanted = next(stored)
    return wanted is not None and all(other == wanted for other in stored)


def _check_overlaps(found: Examination) -> None:
    """Values with identical bytes are odd; values that share only some bytes cannot all be what was written."""
    file, report = found.file, found.report
    assert file is not None
    rows = np.flatnonzero(found.inside & (found.sizes > 0))
    begins = np.concatenate([found.starts[rows], np.array([a for a, _ in found.indices], np.uint64)])
    ends = np.concatenate([found.starts[rows] + found.sizes[rows], np.array([b for _, b in found.indices], np.uint64)])
    for number, one in enumerate(overlaps(begins, ends)):
        if number == MOST_TOLD:
            report.add(file.data_key, "more of its ranges share bytes", kind=What.OVERLAP)
            break
        is_value = one.row < len(rows)
        same = one.same and is_value and one.other < len(rows)
        what = "the value" if is_value else "a minishard index"
        report.add(
            file.data_key,
            f"{what} has the very bytes of another" if same else f"{what} shares bytes with what lies before it",
            chunk=int(found.ids[rows[one.row]]) if is_value else None,
            offset=int(begins[one.row]),
            length=int(ends[one.row] - begins[one.row]),
            fatal=not same,
            expected=None if same else f"a start at or after byte {one.reach}",
            kind=What.OVERLAP,
        )


def dead_bytes(found: Examination) -> int:
    """How many bytes of a shard's file belong to no value and no index."""
    return sum(end - start for start, end, kind in shard_map(found) if kind == "dead")


def shard_map(found: Examination) -> list[Span]:
    """(first byte, end, "live" or "dead" or "index") from the beginning of the data object to its end."""
    file = found.file
    if file is None:
        return []
    rows = np.flatnonzero(found.inside & (found.sizes > 0))
    used = [(0, file.base, "index"), *((start, end, "index") for start, end in found.indices)]
    ends = found.starts[rows] + found.sizes[rows]
    used += [(start, end, "live") for start, end in zip(found.starts[rows].tolist(), ends.tolist(), strict=True)]
    return byte_map(used, file.limit)
