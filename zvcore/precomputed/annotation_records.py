"""How annotations become bytes and back, in bulk: records, single annotations, lists of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from zvcore.errors import CorruptDataError
from zvcore.kernels.annotations import scan_annotations, scan_lists
from zvcore.kernels.ranges import copy_ranges, gather_ranges
from zvcore.precomputed.annotation_info import GEOMETRY
from zvcore.precomputed.ragged import Ragged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zvcore.precomputed.annotation_info import AnnotationInfo, AnnotationProperty

__all__ = ["ID", "Columns", "Listed", "RecordForm", "Records", "Single", "encode_lists", "joined", "taken"]

Columns = dict[str, Any]  # of arrays, and of `Ragged`
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
Fault = tuple[int, int, int]

ID = "id"
_ALIGNMENT = 4
# No property may be called so.
_PADDING = " padding"


class Records:
    """Encoded annotations without their ids: bytes, one record after the other."""

    __slots__ = ("data", "starts")

    def __init__(self, data: U8, starts: I64) -> None:
        self.data = data
        # One more than there are records: the last is the end.
        self.starts = starts

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> I64:
        return np.diff(self.starts)

    def take(self, rows: npt.NDArray[np.intp]) -> Records:
        sizes = self.sizes[rows]
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(sizes, out=starts[1:])
        data = gather_ranges(self.data, self.starts[rows].astype(np.uint64), sizes.astype(np.uint64))
        return Records(data, starts)

    def followed_by(self, ids: npt.NDArray[np.uint64]) -> Records:
        """Each record with an id behind it."""
        count, sizes = len(self), self.sizes
        starts = self.starts + 8 * np.arange(count + 1)
        data = np.empty(int(starts[-1]), np.uint8)
        _put(data, starts[:-1], self.data, sizes)
        _put(data, starts[1:] - 8, ids.astype("<u8", copy=False), np.full(count, 8, np.int64))
        return Records(data, starts)

    def without_ids(self) -> tuple[Records, npt.NDArray[np.uint64]]:
        """What `followed_by` was made of."""
        sizes = self.sizes - 8
        ids = _gather(self.data, self.starts[1:] - 8, np.full(len(self), 8, np.int64)).view("<u8")
        return Records(_gather(self.data, self.starts[:-1], sizes), _offsets(sizes)), ids

    def differ(self, other: Records) -> npt.NDArray[np.bool_]:
        """Which of as many other records are not the same, byte by byte."""
        wrong: npt.NDArray[np.bool_] = self.sizes != other.sizes
        rows = np.flatnonzero(~wrong & (self.sizes > 0))
        one, another = self.take(rows), other.take(rows)
        unlike = one.data != another.data
        if unlike.any():
            wrong[rows] = np.logical_or.reduceat(unlike, one.starts[:-1])
        return wrong


class Listed(NamedTuple):
    """The annotations of some lists: their ids and records, and how many each list has."""

    ids: npt.NDArray[np.uint64]
    records: Records
    counts: I64


class Single(NamedTuple):
    """Single annotations: their records, and the related segments of each relationship."""

    records: Records
    related: list[Ragged]


class RecordForm:
    """What a record consists of: positions (of a polyline, their number first), then properties, padded to 4 bytes.

    geometry  the names of the columns of positions
    names     the column of each property, and
    related   of each relationship: their ids, unless two would have the same
    fixed     how many bytes a record has at least, and
    point_bytes  how many more for each point of a polyline; 0 for other types
    """

    def __init__(
        self, type: str, rank: int, properties: Sequence[AnnotationProperty], relationships: Sequence[str]
    ) -> None:
        self.type = type
        self.rank = rank
        self.geometry = GEOMETRY[type]
        self.lines = type == "polyline"
        # Readers go by the alignment, whatever the order in which the document declares properties.
        self.properties = sorted(properties, key=lambda one: -one.alignment)
        fields: list[Any] = [] if self.lines else [(name, "<f4", (rank,)) for name in self.geometry]
        self.names: dict[str, str] = {}
        taken = {ID, *self.geometry}
        for one in properties:
            self.names[one.id] = _free(one.id, "property", taken)
        self.related = {name: _free(name, "relationship", taken) for name in relationships}
        for one in self.properties:
            shape = () if one.components == 1 else (one.components,)
            fields.append((self.names[one.id], one.dtype, shape))
        size = sum(np.dtype(kind).itemsize * int(np.prod(shape)) for _, kind, shape in fields)
        padding = -size % _ALIGNMENT
        # Of polylines, what follows the points.
        self.dtype = np.dtype([*fields, (_PADDING, f"V{padding}")] if padding else fields)
        self.point_bytes = 4 * rank if self.lines else 0
        self.fixed = self.dtype.itemsize + (4 if self.lines else 0)

    @classmethod
    def of(cls, info: AnnotationInfo) -> RecordForm:
        return cls(info.type, info.rank, info.properties, [one.name for one in info.relationships])

    # --- checking

    def check_one(self, data: Any) -> None:
        """Check the bytes of a single annotation."""
        _, _, fault = scan_annotations(data, _ends(data), self.fixed, self.point_bytes, len(self.related))
        if fault is not None:
            raise _misfit(fault)

    def check_list(self, data: Any) -> None:
        """Check the bytes of a list of annotations."""
        *_, fault = scan_lists(data, _ends(data), self.fixed, self.point_bytes)
        if fault is not None:
            raise self._list_misfit(np.frombuffer(data, np.uint8), fault)

    def _list_misfit(self, data: U8, fault: Fault) -> CorruptDataError:
        """`data` is the list alone."""
        if len(data) >= 8 and not self.lines:
            count = int(data[:8].view("<u8")[0])
            rest = len(data) - 8 - 8 * count
            if count and rest > 0 and rest % count == 0:
                return CorruptDataError(
                    f"a list of {count} annotations has records of another length; written by neuroglancer before "
                    "September 2025?", expected=f"{self.fixed} bytes for each", found=rest // count,
                )  # fmt: skip
        return _misfit(fault)

    # --- decoding

    def annotations(self, data: U8, starts: I64, place: Callable[[int], Mapping[str, Any]]) -> Columns:
        """The columns of single annotations, with those of relationships. `place(row)`: where it lies, for errors."""
        points, related, fault = scan_annotations(data, starts, self.fixed, self.point_bytes, len(self.related))
        if fault is not None:
            raise _misfit(fault).located(**place(fault[0]))
        found = self._columns(data, starts[:-1], points)
        ids = _related_ids(data, starts[:-1] + self._sizes(points, len(starts) - 1), related)
        return found | dict(zip(self.related.values(), ids, strict=True))

    def singles(self, data: U8, starts: I64) -> Single:
        """Single annotations as they are stored."""
        points, related, fault = scan_annotations(data, starts, self.fixed, self.point_bytes, len(self.related))
        if fault is not None:
            raise _misfit(fault)
        sizes = self._sizes(points, len(starts) - 1)
        records = Records(_gather(data, starts[:-1], sizes), _offsets(sizes))
        return Single(records, _related_ids(data, starts[:-1] + sizes, related))

    def lists(self, data: U8, starts: I64, place: Callable[[int], Mapping[str, Any]]) -> Columns:
        """The columns of all annotations of some lists, with their ids."""
        counts, records, points, fault = scan_lists(data, starts, self.fixed, self.point_bytes)
        if fault is not None:
            row = fault[0]
            raise self._list_misfit(data[starts[row] : starts[row + 1]], fault).located(**place(row))
        return {ID: _listed_ids(data, starts, counts), **self._columns(data, records, points)}

    def listed(self, data: U8, starts: I64) -> Listed:
        """The annotations of some lists as they are stored."""
        counts, records, points, fault = scan_lists(data, starts, self.fixed, self.point_bytes)
        if fault is not None:
            raise _misfit(fault)
        sizes = self._sizes(points, len(records))
        found = Records(_gather(data, records, sizes), _offsets(sizes))
        return Listed(_listed_ids(data, starts, counts), found, counts)

    def _sizes(self, points: npt.NDArray[np.uint32], count: int) -> I64:
        """The length of each of `count` records; `points` are those of polylines."""
        more = points.astype(np.int64) * self.point_bytes if self.lines else np.zeros(count, np.int64)
        return self.fixed + more

    def positions(self, records: Records) -> Columns:
        """The columns of positions of encoded records."""
        if self.lines:
            points = _gather(records.data, records.starts[:-1], np.full(len(records), 4, np.int64)).view("<u4")
            return self._points(records.data, records.starts[:-1], points.astype(np.int64))
        size = self.dtype.itemsize
        table = records.data.view(self.dtype) if size else np.empty(len(records), self.dtype)
        return {name: table[name] for name in self.geometry}

    def _points(self, data: U8, records: I64, counts: I64) -> Columns:
        values = _gather(data, records + 4, counts * self.point_bytes).view("<f4").reshape(-1, self.rank)
        return {self.geometry[0]: Ragged(values, _offsets(counts))}

    def _columns(self, data: U8, records: I64, points: npt.NDArray[np.uint32]) -> Columns:
        found: Columns = {}
        if self.lines:
            counts = points.astype(np.int64)
            found |= self._points(data, records, counts)
            records = records + 4 + counts * self.point_bytes
        table = self._table(data, records)
        for name in [*(() if self.lines else self.geometry), *self.names.values()]:
            found[name] = np.ascontiguousarray(table[name])
        return found

    def _table(self, data: U8, records: I64) -> npt.NDArray[Any]:
        size = self.dtype.itemsize
        if not size:
            return np.empty(len(records), self.dtype)
        return _gather(data, records, np.full(len(records), size, np.int64)).view(self.dtype)

    def empty(self, related: bool = True) -> Columns:
        """The columns of no annotations."""
        none = np.zeros(1, np.int64)
        found: Columns = {
            ID: np.empty(0, np.uint64),
            **self._columns(np.empty(0, np.uint8), none[:0], np.empty(0, np.uint32)),
        }
        if related:
            found |= {name: Ragged(np.empty(0, np.uint64), none) for name in self.related.values()}
        return found

    # --- encoding

    def encode(self, columns: Mapping[str, Any], count: int) -> Records:
        """The records of columns that have the right types and lengths already."""
        table = np.zeros(count, self.dtype)
        for name in [*(() if self.lines else self.geometry), *self.names.values()]:
            table[name] = columns[name]
        size = self.dtype.itemsize
        if not self.lines:
            return Records(table.view(np.uint8).reshape(-1) if size else np.empty(0, np.uint8), _steps(count, size))
        points = columns[self.geometry[0]]
        counts = points.lengths
        starts = _offsets(4 + counts * self.point_bytes + size)
        data = np.zeros(int(starts[-1]), np.uint8)
        _put(data, starts[:-1], counts.astype("<u4"), np.full(count, 4, np.int64))
        _put(data, starts[:-1] + 4, points.values.astype("<f4", copy=False), counts * self.point_bytes)
        if size:
            _put(data, starts[1:] - size, table, np.full(count, size, np.int64))
        return Records(data, starts)

    def encode_annotations(self, records: Records, related: Sequence[Ragged]) -> Records:
        """Single annotations: each record and the ids of related segments behind it."""
        if not related:
            return records
        count = len(records)
        sizes = records.sizes + sum(4 + 8 * one.lengths for one in related)
        starts = _offsets(sizes)
        data = np.empty(int(starts[-1]), np.uint8)
        _put(data, starts[:-1], records.data, records.sizes)
        at = starts[:-1] + records.sizes
        for one in related:
            _put(data, at, one.lengths.astype("<u4"), np.full(count, 4, np.int64))
            _put(data, at + 4, one.values.astype("<u8", copy=False), 8 * one.lengths)
            at = at + 4 + 8 * one.lengths
        return Records(data, starts)


def _related_ids(data: U8, ends: I64, counts: npt.NDArray[np.uint32]) -> list[Ragged]:
    """The related segments of single annotations whose records end there, so many of each relationship."""
    found = []
    for column in counts.T.astype(np.int64):
        found.append(Ragged(_gather(data, ends + 4, 8 * column).view("<u8"), _offsets(column)))
        ends = ends + 4 + 8 * column
    return found


def _listed_ids(data: U8, starts: I64, counts: I64) -> npt.NDArray[np.uint64]:
    """The ids behind the records of lists."""
    return _gather(data, starts[1:] - 8 * counts, 8 * counts).view("<u8")


def encode_lists(records: Records, ids: npt.NDArray[np.uint64], counts: I64) -> Records:
    """Lists of neighbouring records, so many in each: their number, the records, their ids."""
    bounds = _offsets(counts)
    sizes = np.diff(records.starts[bounds])
    starts = _offsets(8 + sizes + 8 * counts)
    data = np.empty(int(starts[-1]), np.uint8)
    _put(data, starts[:-1], counts.astype("<u8"), np.full(len(counts), 8, np.int64))
    _put(data, starts[:-1] + 8, records.data, sizes)
    _put(data, starts[:-1] + 8 + sizes, ids.astype("<u8", copy=False), 8 * counts)
    return Records(data, starts)


def taken(columns: Columns, rows: npt.NDArray[Any]) -> Columns:
    """Some rows of all columns: by their numbers, or by a mask."""
    numbers = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
    return {name: one.take(numbers) if isinstance(one, Ragged) else one[numbers] for name, one in columns.items()}


def joined(parts: Sequence[Columns]) -> Columns:
    """The rows of all parts, which have the same columns."""
    if len(parts) == 1:
        return parts[0]
    return {
        name: Ragged.join([part[name] for part in parts])
        if isinstance(parts[0][name], Ragged)
        else np.concatenate([part[name] for part in parts])
        for name in parts[0]
    }


def _free(name: str, prefix: str, taken: set[str]) -> str:
    """The name of a column; with a prefix if there is one of this name."""
    while name in taken:
        name = f"{prefix}:{name}"
    taken.add(name)
    return name


def _misfit(fault: Fault) -> CorruptDataError:
    _, expected, found = fault
    what = "the annotations are cut off" if expected > found else "the annotations are longer than their types require"
    return CorruptDataError(what, expected=f"{expected} bytes", found=found)


def _ends(data: Any) -> I64:
    return np.array([0, len(data)], np.int64)


def _offsets(counts: I64) -> I64:
    found = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=found[1:])
    return found


def _steps(count: int, size: int) -> I64:
    return np.arange(count + 1, dtype=np.int64) * size


def _gather(data: U8, starts: I64, sizes: I64) -> U8:
    return gather_ranges(data, starts.astype(np.uint64), sizes.astype(np.uint64))


def _put(target: U8, places: I64, source: npt.NDArray[Any], sizes: I64) -> None:
    """Cut the bytes of `source`, which lie one after the other, and put the pieces where they belong."""
    flat = np.ascontiguousarray(source).reshape(-1).view(np.uint8)
    copy_ranges(flat, _offsets(sizes)[:-1], target, np.ascontiguousarray(places), np.ascontiguousarray(sizes))
