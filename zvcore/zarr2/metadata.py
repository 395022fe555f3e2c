"""The documents of Zarr v2: `.zarray` and `.zgroup`, read strictly where a mistake would give other values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from zvcore import documents
from zvcore.boxes import count_of
from zvcore.cached import cached_property
from zvcore.codecs.registry import kept
from zvcore.documents.known import Known, Shared, recalled, remembered
from zvcore.documents.members import Anything, Integer, Items, Made, Member, Object, Optional, Place, Table, Text
from zvcore.documents.values import shown
from zvcore.engine.chunk_keys import ChunkKeys
from zvcore.errors import NotFoundError, UnsupportedError
from zvcore.zarr2.chain import Pipeline
from zvcore.zarr2.dtypes import DataType, parse_data_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.stores import Store
    from zvcore.stores.base import Stamp

__all__ = [
    "ARRAY",
    "ATTRIBUTES",
    "CONSOLIDATED",
    "DOCUMENT",
    "DOCUMENTS",
    "GROUP",
    "ArrayMetadata",
    "GroupMetadata",
    "document_key",
    "parse_array",
    "parse_group",
    "read_metadata",
    "read_version",
    "write_document",
]

DOCUMENT, GROUP, ATTRIBUTES, CONSOLIDATED = ".zarray", ".zgroup", ".zattrs", ".zmetadata"
DOCUMENTS = frozenset((DOCUMENT, GROUP, ATTRIBUTES, CONSOLIDATED))

# What a float or an index of 64 bits can still count.
_MOST = 2**62 - 1


def _codec(value: Any, place: Place) -> dict[str, Any]:
    found = Object().load(value, place)
    Text().load(found.get("id"), place.member("id"))
    return found


_CODEC = Made(_codec, dict, one='an object such as {"id": "zlib"}')
ARRAY = Table(
    Member("shape", Items(Integer(0, _MOST, floats=True, beyond=UnsupportedError))),
    Member("chunks", Items(Integer(1, _MOST, floats=True, beyond=UnsupportedError))),
    # As the document spells them: what they mean depends on each other.
    Member("dtype", Anything()),
    Member("compressor", Optional(_CODEC), default=None, always=True),
    Member("fill_value", Anything()),
    Member("order", Text("C", "F")),
    Member("filters", Optional(Items(_CODEC)), default=None, always=True),
    Member("dimension_separator", Text(".", "/"), default=".", null=True, always=True, field="separator"),
)


@dataclass(frozen=True)
class ArrayMetadata:
    """What the .zarray of an array says. `document` is the whole of it, so that nothing is lost on rewriting."""

    shape: tuple[int, ...]
    data_type: DataType
    chunks: tuple[int, ...]
    codecs: tuple[Mapping[str, Any], ...]
    fill_value: Any
    order: str
    separator: str
    document: dict[str, Any] = field(repr=False)
    where: str = ""

    @classmethod
    def parse(cls, document: dict[str, Any], where: str) -> ArrayMetadata:
        place = Place(where)
        _check_format(document, place)
        found = ARRAY.load(document, place)
        shape, chunks = found["shape"], found["chunks"]
        if len(chunks) != len(shape):
            raise place.member("chunks").error("another rank than shape", expected=len(shape), found=shown(chunks))
        compressor = found["compressor"]
        codecs = (*(found["filters"] or ()), *(() if compressor is None else (compressor,)))
        names = [one["id"] for one in codecs]
        data_type = place.member("dtype").made(lambda json, key: parse_data_type(json, names, key), found["dtype"])
        return cls(
            shape=shape,
            data_type=data_type,
            chunks=chunks,
            codecs=codecs,
            fill_value=place.member("fill_value").made(data_type.parse_fill, found["fill_value"]),
            order=found["order"],
            separator=found["separator"],
            document=document,
            where=where,
        )

    @property
    def foreign(self) -> frozenset[str]:
        """Members of the document that the format does not have."""
        return frozenset(self.document.keys() - ARRAY.names - {"zarr_format"})

    @property
    def undefined(self) -> bool:
        """Whether what is not stored has no value: others may read anything there, so nothing is left out."""
        return self.document["fill_value"] is None

    @property
    def axes(self) -> tuple[int, ...]:
        """The array's axes from slowest to fastest as chunks lie."""
        axes = tuple(range(len(self.shape)))
        return axes if self.order == "C" else axes[::-1]

    @cached_property
    def shared(self) -> Shared:
        return Shared()

    @cached_property
    def pipeline(self) -> Pipeline:
        return Pipeline(self.data_type, self.axes, self.codecs, self.where)

    @cached_property
    def keys(self) -> ChunkKeys:
        return ChunkKeys("", self.separator, len(self.shape))

    @property
    def other_keys(self) -> ChunkKeys | None:
        """The keys with the other separator; None where there is none."""
        return ChunkKeys("", "." if self.separator == "/" else "/", len(self.shape)) if len(self.shape) > 1 else None

    @cached_property
    def grid(self) -> tuple[int, ...]:
        """How many chunks there are along each axis."""
        return count_of(self.shape, self.chunks)

    def said_again(self, document: dict[str, Any]) -> ArrayMetadata:
        """This, as another reading of the same document gives it: what is made of it is not made anew."""
        self.pipeline, self.keys, self.grid, self.shared  # noqa: B018 - made here, once for all
        made = object.__new__(ArrayMetadata)
        made.__dict__.update(self.__dict__, document=document)
        return made

    def resized(self, shape: Sequence[int]) -> ArrayMetadata:
        return replace(self, shape=tuple(shape), document={**self.document, "shape": [int(n) for n in shape]})


@dataclass(frozen=True)
class GroupMetadata:
    """What the .zgroup of a group says: that it is one."""

    document: dict[str, Any] = field(repr=False)
    where: str = ""

    @property
    def foreign(self) -> frozenset[str]:
        """Members of the document that the format does not have."""
        return frozenset(self.document.keys() - {"zarr_format"})


def parse_array(document: Any, where: str) -> ArrayMetadata:
    return ArrayMetadata.parse(Object().load(document, Place(where)), where)


def parse_group(document: Any, where: str) -> GroupMetadata:
    found = Object().load(document, Place(where))
    _check_format(found, Place(where))
    return GroupMetadata(found, where)


def _check_format(document: Mapping[str, Any], place: Place) -> None:
    given = document.get("zarr_format")
    if isinstance(given, bool) or not isinstance(given, (int, float)) or given != 2:
        raise place.member("zarr_format").wrong("2", given)


def document_key(name: str, prefix: str = "") -> str:
    return f"{prefix}/{name}" if prefix else name


def read_metadata(store: Store, prefix: str = "") -> ArrayMetadata | GroupMetadata:
    """The array or group at a path. An array that has a .zgroup too is an array."""
    return read_version(store, prefix)[0]


def read_version(store: Store, prefix: str = "") -> tuple[ArrayMetadata | GroupMetadata, Stamp | None]:
    """`read_metadata`, and of which version of its document an array is, see `zvcore.documents.fetch_version`."""
    key = document_key(DOCUMENT, prefix)
    raw, stamp = documents.fetch_version(store, key)
    if raw is not None:
        known = kept(_nothing_known)
        found = recalled(known, raw, key)
        if found is None:
            document = documents.parse(raw, key)
            found = remembered(known, raw, key, document, parse_array(document, key))
        return found[1], stamp
    key = document_key(GROUP, prefix)
    group = documents.read(store, key)
    if group is not None:
        return parse_group(group, key), None
    raise NotFoundError("there is neither .zarray nor .zgroup", key=f"{store.root}/{prefix}".rstrip("/"))


def _nothing_known() -> Known[ArrayMetadata]:
    """Documents and what they said, for those who open an array again, or another that is the same."""
    return {}


def write_document(store: Store, name: str, document: Mapping[str, Any], prefix: str = "") -> None:
    store.put(document_key(name, prefix), documents.encode(document))
