"""Looking after annotations: what their document says, and the length of each record and list in their indexes."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore import kernels
from zvcore.documents.members import Integer, Items, Made, Member, Number, Object, Place, Table, Text
from zvcore.errors import CorruptDataError, MetadataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.precomputed.metadata import INFO, resolve_key
from zvcore.precomputed.part import FilePart, stored_file
from zvcore.precomputed.shard_check import Judge
from zvcore.precomputed.sharding_spec import ShardingSpec, grid_bits
from zvcore.report import What
from zvcore.stores.copying import is_backup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from zvcore.precomputed.entries import U64
    from zvcore.precomputed.shard_reader import ShardFile, ShardReader
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["AnnotationFiles", "AnnotationJudge", "Index", "Records", "read_annotations"]

_SHARDING = Made(ShardingSpec.from_json, ShardingSpec.to_json)
_INDEX = Table(Member("key", Text()), Member("sharding", _SHARDING, default=None, null=True))
_LEVEL = Table(
    Member("grid_shape", Items(Integer(1))), Member("chunk_size", Items(Number(positive=True))),
    Member("limit", Integer(1)),
)  # fmt: skip
# How many bytes a value of a property takes.
_SIZES = {
    "uint32": 4, "int32": 4, "float32": 4, "uint16": 2, "int16": 2, "uint8": 1, "int8": 1, "rgb": 3, "rgba": 4,
    "bool": 1,
}  # fmt: skip
_PROPERTY_ID = re.compile(r"[a-z][a-zA-Z0-9_]*")
_PROPERTY = Table(Member("id", Text()), Member("type", Text(*_SIZES)))
# How many positions an annotation has; the record of a polyline says so itself.
_POSITIONS = {"point": 1, "line": 2, "axis_aligned_bounding_box": 2, "ellipsoid": 2, "polyline": None}
_KIND = Text(*_POSITIONS, otherwise=UnsupportedError)
_DOCUMENT = Table(
    Member("dimensions", Object()),
    Member("lower_bound", Items(Number())),
    Member("upper_bound", Items(Number())),
    Member("annotation_type", Made(lambda value, place: _KIND.load(_small(value), place), one=_KIND.one), field="kind"),
    Member("properties", Items(Object()), default=(), null=True),
    Member("relationships", Items(Object())),
    Member("by_id", Object()),
    Member("spatial", Items(Object())),
)


def _small(value: Any) -> Any:
    """Some programs write types in capitals, others in small letters."""
    return value.lower() if isinstance(value, str) else value


@dataclass(frozen=True)
class Records:
    """How annotations are stored: positions (of a polyline, their number first), then properties, padded to 4 bytes."""

    rank: int
    positions: int | None
    properties: int
    relationships: int

    def check_one(self, data: bytes | memoryview) -> None:
        """Check a single annotation, which is followed by the ids of related segments."""
        end = self._end(data, 0)
        for _ in range(self.relationships):
            (count,) = struct.unpack_from("<I", self._within(data, end, 4), end)
            end += 4 + 8 * count
        self._refuse_other_length(data, end)

    def check_list(self, data: bytes | memoryview) -> None:
        """Check a list of annotations, which is followed by their ids."""
        (count,) = struct.unpack_from("<Q", self._within(data, 0, 8))
        if self.positions is not None:
            self._check_fixed(data, int(count))
            return
        if count > len(data) // (12 + self.properties):
            raise CorruptDataError(f"a list of {count} annotations is cut off", offset=0, found=f"{len(data)} bytes")
        end = 8
        for _ in range(count):
            end = self._end(data, end)
        self._refuse_other_length(data, end + 8 * count)

    def _check_fixed(self, data: bytes | memoryview, count: int) -> None:
        """Check a list of records that have the same length."""
        rest = len(data) - 8 - 8 * count
        if count and rest != count * self._fixed and rest > 0 and rest % count == 0:
            raise CorruptDataError(
                f"a list of {count} annotations has records of another length; written by neuroglancer before "
                "September 2025?", expected=f"{self._fixed} bytes for each", found=rest // count,
            )  # fmt: skip
        self._refuse_other_length(data, 8 + count * (self._fixed + 8))

    @property
    def _fixed(self) -> int:
        return 4 * self.rank * (self.positions or 0) + self.properties

    def _end(self, data: bytes | memoryview, at: int) -> int:
        """Where the record that begins there ends."""
        if self.positions is not None:
            return at + self._fixed
        (count,) = struct.unpack_from("<I", self._within(data, at, 4), at)
        return at + 4 + 4 * self.rank * int(count) + self.properties

    def _within(self, data: bytes | memoryview, at: int, size: int) -> bytes | memoryview:
        if at + size > len(data):
            raise CorruptDataError(
                "the annotations are cut off", expected=f"at least {at + size} bytes", found=len(data)
            )
        return data

    def _refuse_other_length(self, data: bytes | memoryview, length: int) -> None:
        if len(data) != length:
            raise CorruptDataError(
                "the annotations have another length than their types require", expected=f"{length} bytes",
                found=len(data),
            )  # fmt: skip


@dataclass(frozen=True)
class Index:
    """One of the indexes: by id, of a relationship, or a level of the spatial one.

    what    in words
    folder  where it lies
    single  whether a value is one annotation; else it is a list
    grid    of a level, how many cells there are along each axis
    """

    what: str
    folder: str
    sharding: ShardingSpec | None
    single: bool = False
    grid: tuple[int, ...] | None = None

    def check(self, records: Records) -> Callable[[bytes | memoryview], None]:
        return records.check_one if self.single else records.check_list


def read_annotations(info: Mapping[str, Any], where: str) -> tuple[Records, list[Index]]:
    """Read and check the document."""
    place = Place(where)
    found = _DOCUMENT.load(info, place)
    rank = len(found["dimensions"])
    for name in ("lower_bound", "upper_bound"):
        _refuse_other_rank(found[name], rank, place.member(name))
    for name, value in found["dimensions"].items():
        here = place.member("dimensions").member(name)
        if not (isinstance(value, list) and len(value) == 2 and isinstance(value[1], str)):
            raise here.wrong("a number and a unit", value)
        Number().load(value[0], here.item(0))
    size = 0
    for number, document in enumerate(found["properties"]):
        here = place.member("properties").item(number)
        one = _PROPERTY.load({**document, "type": _small(document.get("type"))}, here)
        if _PROPERTY_ID.fullmatch(one["id"]) is None:
            raise here.member("id").wrong("a small letter, then letters, digits and _", one["id"])
        size += _SIZES[one["type"]]
    indexes = [_index("by_id", found["by_id"], place.member("by_id"), single=True)]
    for number, document in enumerate(found["relationships"]):
        here = place.member("relationships").item(number)
        indexes.append(_index("relationship", document, here))
    for number, document in enumerate(found["spatial"]):
        here = place.member("spatial").item(number)
        level = _LEVEL.load(document, here)
        for name in ("grid_shape", "chunk_size"):
            _refuse_other_rank(level[name], rank, here.member(name))
        indexes.append(_index(f"spatial level {number}", document, here, grid=level["grid_shape"]))
    records = Records(rank, _POSITIONS[found["kind"]], (size + 3) // 4 * 4, len(found["relationships"]))
    return records, indexes


def _index(what: str, document: Any, place: Place, **facts: Any) -> Index:
    found = _INDEX.load(document, place)
    try:
        folder = place.member("key").made(resolve_key, found["key"])
    except MetadataError as error:
        # A path may lead anywhere from the folder of the document; zvcore stays within it.
        raise UnsupportedError(error.message, key=error.key, member=error.member, found=error.found) from None
    grid = facts.get("grid")
    if grid is not None and found["sharding"] is not None and sum(grid_bits(grid)) > 64:
        raise place.member("grid_shape").error("the ids of the cells do not fit into 64 bits", found=list(grid))
    return Index(what, folder, found["sharding"], **facts)


def _refuse_other_rank(values: Sequence[Any], rank: int, place: Place) -> None:
    if len(values) != rank:
        raise place.error("there is not one number for each dimension", expected=rank, found=len(values))


class AnnotationJudge(Judge):
    """Annotations in shards: values have the length that their types require, and cells belong to the grid."""

    looks = True

    def __init__(self, reader: ShardReader, records: Records, index: Index, threads: int | None = None) -> None:
        super().__init__(reader, threads)
        self.index = index
        self._check = index.check(records)

    def unwanted(self, ids: U64) -> npt.NDArray[Any] | None:
        grid = self.index.grid
        return None if grid is None else ~kernels.compressed_morton_valid(ids, grid)

    def look(self, id: int, value: memoryview, file: ShardFile, start: int) -> None:
        self._check(value)


class AnnotationFiles(FilePart):
    """One index whose files are named after ids or cells."""

    loss = "the annotations of the file are left out"

    def __init__(self, store: Store, records: Records, index: Index, threads: int | None = None) -> None:
        super().__init__(store, index.folder, threads)
        self.index = index
        self._check = index.check(records)

    def verify(self, report: Report, only: Sequence[str] | None, fast: bool) -> None:
        count = 0

        def look(name: str) -> None:
            nonlocal count
            count += 1
            if not fast:
                self._look(f"{self.prefix}{name}")

        self.look_at_each(self.files(only, report), look, report)
        report.count("values", count)

    def files(self, only: Sequence[str] | None, report: Report) -> Iterator[str]:
        """The names of files, without `.gz`; others are reported."""
        grid = self.index.grid
        for name in self.names(only):
            stem = name.removesuffix(".gz")
            numbers = stem.split("_") if grid is not None else [stem]
            known = len(numbers) == (1 if grid is None else len(grid)) and all(
                re.fullmatch("0|[1-9][0-9]{0,19}", number) for number in numbers
            )
            if is_backup(name) or (stem == INFO and not self.prefix):
                continue
            if not known:
                report.add(f"{self.prefix}{name}", "not the name of annotations", fatal=False, kind=What.STRAY)
            elif grid is not None and any(int(one) >= n for one, n in zip(numbers, grid, strict=True)):
                what = "the cell lies outside the grid, so no reader finds it"
                report.add(f"{self.prefix}{name}", what, fatal=False, kind=What.STRAY)
            else:
                yield stem

    def _look(self, key: str) -> None:
        data = stored_file(self.store, key)
        if data is None:
            raise NotFoundError("the file was removed meanwhile", key=key)
        try:
            self._check(data)
        except ZvcoreError as error:
            name = key if self.store.exists(key) else f"{key}.gz"
            raise error.located(key=name, offset=0, length=self.store.size(name))
