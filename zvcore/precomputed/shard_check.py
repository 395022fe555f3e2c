"""Looking at one shard file entry by entry: what is wrong with it, and which of its values are sound."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.engine import Keys, fetch
from zvcore.errors import ConflictError, ZvcoreError
from zvcore.layout import Sources
from zvcore.precomputed.external_sort import pieces_of
from zvcore.report import Problem, Report

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from zvcore.codecs import CodecChain
    from zvcore.engine import Buffers
    from zvcore.precomputed._minishard import Minishard
    from zvcore.precomputed.entries import U64
    from zvcore.precomputed.shard_reader import ShardFile, ShardReader

__all__ = ["Examination", "Judge", "dead_bytes", "examine", "parts"]

_BATCH_BYTES = 32 << 20
_USUAL_RATIO = 4


class Judge:
    """Says which values are what they should be. This one asks only that they can be decoded."""

    def __init__(self, reader: ShardReader, threads: int | None = None) -> None:
        self.reader = reader
        self.threads = threads

    def chains(self) -> tuple[CodecChain, ...]:
        return (self.reader.data_chain,)

    def unwanted(self, ids: U64) -> npt.NDArray[np.bool_] | None:
        """Which ids cannot be, whatever their value; None: any can."""
        return None

    def columns(self, ids: U64) -> tuple[npt.NDArray[np.uint8] | None, U64 | None]:
        """Which chain decodes each value, and to how many bytes."""
        return None, None

    def look(self, id: int, value: memoryview, file: ShardFile, start: int) -> None:
        """Raise an error if this decoded value is wrong; `start` is where the stored one lies. For subclasses."""

    # Whether `look` does anything.
    looks = False

    def faults(self, ids: U64, starts: U64, sizes: U64, file: ShardFile) -> list[tuple[int, ZvcoreError]]:
        """(row, error) for each value that is wrong."""
        found: list[tuple[int, ZvcoreError]] = []
        _, expected = self.columns(ids)
        # What a batch takes once it is decoded, as far as that is known.
        weights = np.maximum(sizes, expected) if expected is not None else sizes * np.uint64(_USUAL_RATIO)
        for first, last in pieces_of(weights, _BATCH_BYTES):
            try:
                values = self._fetch(ids[first:last], starts[first:last], sizes[first:last], file)
            except ConflictError:
                raise
            except ZvcoreError:
                # Once more one by one, to see which.
                for row in range(first, last):
                    try:
                        one = self._fetch(ids[row : row + 1], starts[row : row + 1], sizes[row : row + 1], file)
                        found.extend(self._looked(row, ids, starts, one, file))
                    except ConflictError:
                        raise
                    except ZvcoreError as error:
                        found.append((row, error))
                continue
            found.extend(self._looked(first, ids, starts, values, file))
        return found

    def _looked(
        self, first: int, ids: U64, starts: U64, values: Buffers, file: ShardFile
    ) -> Iterable[tuple[int, ZvcoreError]]:
        if not self.looks:
            return []
        found = []
        for row in range(len(values)):
            value = values[row]
            assert value is not None
            try:
                self.look(int(ids[first + row]), value, file, int(starts[first + row]))
            except ZvcoreError as error:
                found.append((first + row, error))
        return found

    def _fetch(self, ids: U64, starts: U64, sizes: U64, file: ShardFile) -> Buffers:
        chain, expected = self.columns(ids)
        sources = Sources(
            Keys.of([file.data_key]), np.zeros(len(ids), np.int32), starts, sizes, chain=chain, stamps=[file.stamp]
        )
        return fetch(self.reader.store, sources, self.chains(), count=len(ids), expected=expected, threads=self.threads)


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


def examine(reader: ShardReader, shard: int, judge: Judge, *, fast: bool = False) -> Examination:
    """Look at everything in a shard file; with `fast` at all but the values."""
    key = reader.key(shard)
    report = Report()
    report.count("files")
    found = Examination(shard, None, report)
    try:
        file = reader.file(shard)
        if file is None:
            return found
        index = reader.whole_index(file)
    except ConflictError:
        raise
    except ZvcoreError as error:
        report.problems.append(Problem.of(error, key))
        return found
    found.file = file
    tables = _tables(reader, file, index, found)
    report.count("minishards", len(tables))
    if not tables:
        return found
    numbers = np.repeat([number for number, _ in tables], [len(table) for _, table in tables]).astype(np.uint64)
    found.ids = np.concatenate([table.ids for _, table in tables])
    found.sizes = np.concatenate([table.sizes for _, table in tables])
    found.starts = np.concatenate([table.starts for _, table in tables]) + np.uint64(file.base)
    found.inside = ~np.concatenate([table.bad_entries() for _, table in tables])
    found.sound = found.inside.copy()
    report.count("values", len(found.ids))
    _check_entries(reader, found, numbers, judge)
    _check_overlaps(found)
    if not fast:
        rows = np.flatnonzero(found.sound)
        for row, fault in judge.faults(found.ids[rows], found.starts[rows], found.sizes[rows], file):
            place = int(rows[row])
            found.sound[place] = False
            fault.located(offset=int(found.starts[place]), length=int(found.sizes[place]))
            fault.chunk = int(found.ids[place])
            report.problems.append(Problem.of(fault, file.data_key))
    return found


def _tables(reader: ShardReader, file: ShardFile, index: U64, found: Examination) -> list[tuple[int, Minishard]]:
    """The minishards whose index can be read."""
    tables = []
    for number in np.flatnonzero(index[:, 0] != index[:, 1]).tolist():
        try:
            place = file.check(number, *index[number].tolist())
            assert place is not None
            found.indices.append((place[0], place[0] + place[1]))
            tables.append((number, reader.read_minishard(file, number, *place)))
        except ConflictError:
            raise
        except ZvcoreError as error:
            found.report.problems.append(Problem.of(error, file.data_key, f"minishard {number}"))
    for number, table in tables:
        if not table.ascending:
            found.report.add(file.data_key, "ids are not in order", chunk=f"minishard {number}", fatal=False)
    return tables


def _check_entries(reader: ShardReader, found: Examination, numbers: U64, judge: Judge) -> None:
    file, report = found.file, found.report
    assert file is not None

    def tell(rows: Any, what: str) -> None:
        for row in np.flatnonzero(rows).tolist():
            report.add(
                file.data_key, what, chunk=int(found.ids[row]), offset=int(found.starts[row]),
                length=int(found.sizes[row]),
            )  # fmt: skip

    tell(~found.inside, f"the value lies outside the file (expected an end at or before byte {file.limit})")
    shards, minishards = reader.spec.locate(found.ids)
    found.astray = (shards != np.uint64(found.shard)) | (minishards != numbers)
    for row in np.flatnonzero(found.astray).tolist():
        report.add(
            file.data_key,
            f"the id stands in minishard {numbers[row]} but belongs to minishard {minishards[row]} of "
            f"{reader.key(int(shards[row]))}, so no reader finds it",
            chunk=int(found.ids[row]),
        )
    values, counts = np.unique(found.ids, return_counts=True)
    tell(np.isin(found.ids, values[counts > 1]) & ~found.astray, "the id is there more than once")
    unwanted = judge.unwanted(found.ids)
    if unwanted is not None:
        tell(unwanted, "the id is that of no chunk: it lies outside the grid")
        found.sound &= ~unwanted
    _drop_duplicates(reader, found, values[counts > 1])


def _drop_duplicates(reader: ShardReader, found: Examination, twice: U64) -> None:
    """Of several entries of one id keep one, if all that could be meant have the same bytes, else none."""
    file = found.file
    assert file is not None
    for id in twice.tolist():
        rows = np.flatnonzero((found.ids == np.uint64(id)) & found.sound)
        proper = rows[~found.astray[rows]]
        candidates = proper if len(proper) else rows
        found.sound[rows] = False
        if not len(candidates):
            continue
        ranges = [(int(found.starts[row]), int(found.sizes[row])) for row in candidates]
        stored = reader.store.get_ranges(file.data_key, ranges, stamp=file.stamp)
        if stored is not None and all(data == stored[0] for data in stored):
            found.sound[candidates[0]] = True


def _check_overlaps(found: Examination) -> None:
    """Values with the very same bytes are odd; those that share some of them cannot all be what was written."""
    file, report = found.file, found.report
    assert file is not None
    rows = np.flatnonzero(found.inside & (found.sizes > 0))
    begins = np.concatenate([found.starts[rows], np.array([a for a, _ in found.indices], np.uint64)])
    ends = np.concatenate([found.starts[rows] + found.sizes[rows], np.array([b for _, b in found.indices], np.uint64)])
    order = np.lexsort((ends, begins))
    covered = np.maximum.accumulate(ends[order])
    for place in np.flatnonzero(begins[order][1:] < covered[:-1]).tolist():
        which, before = int(order[place + 1]), int(order[place])
        start, end = int(begins[which]), int(ends[which])
        same = which < len(rows) and before < len(rows) and (start, end) == (int(begins[before]), int(ends[before]))
        what = "the value" if which < len(rows) else "a minishard index"
        report.add(
            file.data_key,
            f"{what} has the very bytes of another" if same else f"{what} shares bytes with what lies before it",
            chunk=int(found.ids[rows[which]]) if which < len(rows) else None,
            offset=start,
            length=end - start,
            fatal=not same,
            expected=None if same else f"a start at or after byte {int(covered[place])}",
        )


def dead_bytes(found: Examination) -> int:
    """How many bytes of a shard's file belong to no value and no index."""
    return sum(end - start for start, end, kind in parts(found) if kind == "dead")


def parts(found: Examination) -> list[tuple[int, int, str]]:
    """(first byte, end, "live" or "dead" or "index") from the beginning of the data object to its end."""
    file = found.file
    if file is None:
        return []
    rows = np.flatnonzero(found.inside & (found.sizes > 0))
    used = [(0, file.base, "index"), *((start, end, "index") for start, end in found.indices)]
    used += [
        (start, start + size, "live") for start, size in zip(found.starts[rows].tolist(), found.sizes[rows].tolist())
    ]
    answer: list[tuple[int, int, str]] = []
    reach = 0
    for start, end, kind in [*sorted(used), (file.limit, file.limit, "")]:
        if start > reach:
            answer.append((reach, start, "dead"))
        begin, reach = max(start, reach), max(end, reach)
        if reach > begin:
            if answer and answer[-1][2] == kind:
                answer[-1] = (answer[-1][0], reach, kind)
            else:
                answer.append((begin, reach, kind))
    return answer
