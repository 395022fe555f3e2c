"""The documents of Zarr v3: `zarr.json` of arrays and groups, read strictly and written back whole."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from zvcore import documents
from zvcore.boxes import count_of
from zvcore.cached import cached_property
from zvcore.codecs.registry import kept
from zvcore.documents import shown
from zvcore.documents.known import Known, Shared, recalled, remembered
from zvcore.documents.members import (
    Anything,
    Integer,
    Items,
    Member,
    Named,
    Object,
    Optional,
    Place,
    Table,
    Text,
)
from zvcore.engine import Keys
from zvcore.errors import NotFoundError, UnsupportedError, ZvcoreError
from zvcore.zarr3.chain import Pipeline, parse_codecs
from zvcore.zarr3.dtypes import DataType, parse_data_type
from zvcore.zarr3.told_members import ToldMembers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

    from zvcore.codecs import Codec
    from zvcore.stores import Store
    from zvcore.stores.base import Stamp
    from zvcore.zarr3.edges import Edges

__all__ = [
    "ARRAY",
    "DOCUMENT",
    "GRID",
    "KEYS",
    "ArrayMetadata",
    "GroupMetadata",
    "attributes_of",
    "metadata_of",
    "read_metadata",
    "read_version",
    "write_document",
]

DOCUMENT = "zarr.json"
# Its member for what lies in a group.
CONSOLIDATED = "consolidated_metadata"

# What a float or an index of 64 bits can still count.
_MOST = 2**62 - 1


def _keys(separator: str) -> Table:
    return Table(Member("separator", Text("/", "."), default=separator, always=True))


GRID = Named(
    UnsupportedError,
    regular=Table(Member("chunk_shape", Items(Integer(1, _MOST, floats=True, beyond=UnsupportedError)))),
    rectilinear=Table(
        Member("kind", Text("inline", otherwise=UnsupportedError), default="inline", always=True),
        Member("chunk_shapes", Items(Anything(), least=1)),
    ),
)
KEYS = Named(UnsupportedError, default=_keys("/"), v2=_keys("."))
ARRAY = Table(
    Member("shape", Items(Integer(0, _MOST, floats=True, beyond=UnsupportedError))),
    Member("data_type", Anything()),
    Member("chunk_grid", GRID),
    Member("chunk_key_encoding", KEYS, default=KEYS.load("default", Place(None)), always=True),
    # As the document spells it: what it means depends on the data type.
    Member("fill_value", Anything()),
    Member("codecs", Items(Anything("a codec", "codecs"), least=1)),
    Member("attributes", Object(), default=MappingProxyType({}), always=True),
    Member("dimension_names", Items(Optional(Text())), default=None, null=True),
    Member("storage_transformers", Anything(), default=None),
)
_NODE_TYPE = Text("array", "group")
_KNOWN = ARRAY.names | {"zarr_format", "node_type", CONSOLIDATED}


@dataclass(frozen=True)
class ArrayMetadata:
    """What the zarr.json of an array says. `document` is the whole of it, so that nothing is lost on rewriting."""

    shape: tuple[int, ...]
    data_type: DataType
    chunk_shape: tuple[int, ...]
    separator: str
    key_prefix: str | None
    fill_value: Any
    codecs: tuple[Any, ...]
    attributes: dict[str, Any]
    dimension_names: tuple[str | None, ...] | None
    document: dict[str, Any] = field(repr=False)
    where: str = ""
    # Where in its store the array lies, if that is not the store's root.
    folder: str = ""
    # Of rectilinear grids: how each axis is cut. `chunk_shape` has the longest chunk along each then.
    edges: tuple[Edges, ...] | None = None
    # Codecs of bytes in front of the compressors for which documents have no words.
    unnamed: tuple[Codec, ...] = ()

    @classmethod
    def parse(cls, document: dict[str, Any], where: str) -> ArrayMetadata:
        place = Place(where)
        found = ARRAY.load(document, place)
        shape, names = found["shape"], found["dimension_names"]
        data_type = place.member("data_type").made(parse_data_type, found["data_type"])
        chunk_shape, edges = _grid(found["chunk_grid"], shape, place.member("chunk_grid"))
        encoding, keys = found["chunk_key_encoding"]
        for name, given in (("chunk_grid", chunk_shape), ("dimension_names", names)):
            if given is not None and len(given) != len(shape):
                raise place.member(name).error("another rank than shape", expected=len(shape), found=shown(given))
        if found["storage_transformers"]:
            what = "storage transformers are not known here"
            raise UnsupportedError(what, key=where, member=place.member("storage_transformers").path)
        return cls(
            shape=shape,
            data_type=data_type,
            chunk_shape=chunk_shape,
            separator=keys["separator"],
            key_prefix="c" if encoding == "default" else None,
            fill_value=place.member("fill_value").made(data_type.parse_fill, found["fill_value"]),
            codecs=found["codecs"],
            attributes=dict(found["attributes"]),
            dimension_names=names,
            document=document,
            where=where,
            edges=edges,
        )

    def said_again(self, document: dict[str, Any]) -> ArrayMetadata:
        """This, as another reading of the same document gives it: what is made of it is not made anew."""
        with suppress(ZvcoreError):  # whoever needs it is told
            self.pipeline  # noqa: B018 - made here, once for all
        self.grid, self.key_head, self.shared  # noqa: B018
        made = object.__new__(ArrayMetadata)
        made.__dict__.update(self.__dict__, document=document, attributes=dict(document.get("attributes", {})))
        return made

    @cached_property
    def shared(self) -> Shared:
        return Shared()

    @cached_property
    def pipeline(self) -> Pipeline:
        made = parse_codecs(list(self.codecs), self.chunk_shape, self.data_type, Place(self.where, "$.codecs"))
        return replace(made, unnamed=self.unnamed) if self.unnamed else made

    @cached_property
    def key_head(self) -> str:
        """What all keys of chunks (or shards) begin with; the whole key of the one chunk of an array without axes."""
        folder = f"{self.folder}/" if self.folder else ""
        if not self.shape:
            return folder + (self.key_prefix or "0")
        return folder if self.key_prefix is None else folder + self.key_prefix + self.separator

    @cached_property
    def grid(self) -> tuple[int, ...]:
        """How many chunks (or shards) there are along each axis."""
        return count_of(self.shape, self.chunk_shape)

    def key(self, position: Sequence[int]) -> str:
        """The key of the chunk (or shard) at this grid position."""
        return self.key_head + self.separator.join(map(str, position))

    def keys(self, positions: np.ndarray[Any, Any]) -> Keys:
        """The keys of the chunks (or shards) at these grid positions."""
        if not self.shape:
            return Keys.of([self.key_head] * len(positions))
        return Keys.format(positions, [self.key_head, *[self.separator] * (len(self.shape) - 1), ""])

    @cached_property
    def _key_pattern(self) -> re.Pattern[str]:
        numbers = re.escape(self.separator).join([r"(0|[1-9][0-9]{0,18})"] * len(self.shape))
        return re.compile(re.escape(self.key_head) + numbers)

    def position(self, key: str) -> tuple[int, ...] | None:
        """Which chunk (or shard) an object is, by its key; None if it is none."""
        match = self._key_pattern.fullmatch(key)
        return None if match is None else tuple(map(int, match.groups()))

    def stored(self, store: Store) -> Iterator[tuple[str, tuple[int, ...]]]:
        """(key, grid position) of each chunk (or shard) that is in the store, those outside of the array too."""
        for key in store.list(self.folder):
            position = self.position(key)
            if position is not None:
                yield key, position

    def has_edges(self, position: Sequence[int]) -> bool:
        """Whether a chunk has a size: where sizes are listed, those behind the last have none."""
        return self.edges is None or all(i < one.declared for i, one in zip(position, self.edges, strict=True))

    def resized(self, shape: Sequence[int]) -> ArrayMetadata:
        if self.edges is not None:
            steps = dict.fromkeys(range(len(shape)), 1)
            if self.pipeline.sharding is not None:
                steps.update(zip(self.pipeline.axes, self.pipeline.sharding.chunk_shape, strict=True))
            edges = tuple(
                one.resized(n, steps[axis]) for axis, (one, n) in enumerate(zip(self.edges, shape, strict=True))
            )
            grid = self.document["chunk_grid"]
            said = {**grid["configuration"], "chunk_shapes": [one.dump() for one in edges]}
            grid = {**grid, "configuration": said}
            document = {**self.document, "shape": [int(n) for n in shape], "chunk_grid": grid}
            return replace(self, shape=tuple(shape), edges=edges, document=document)
        return replace(self, shape=tuple(shape), document={**self.document, "shape": [int(n) for n in shape]})


def _grid(
    said: tuple[str, dict[str, Any]], shape: tuple[int, ...], place: Place
) -> tuple[tuple[int, ...], tuple[Edges, ...] | None]:
    """The shape of the chunks, and how a rectilinear grid cuts each axis."""
    name, configuration = said
    if name == "regular":
        return configuration["chunk_shape"], None
    from zvcore.zarr3.edges import Edges

    listed = configuration["chunk_shapes"]
    at = place.member("configuration").member("chunk_shapes")
    if len(listed) != len(shape):
        raise at.error("another rank than shape", expected=len(shape), found=len(listed))
    edges = tuple([Edges.load(one, n, at.item(axis)) for axis, (one, n) in enumerate(zip(listed, shape, strict=True))])
    return tuple(one.longest for one in edges), edges


@dataclass(frozen=True)
class GroupMetadata:
    """What the zarr.json of a group says."""

    attributes: dict[str, Any]
    consolidated: ToldMembers | None
    document: dict[str, Any] = field(repr=False)
    where: str = ""

    @classmethod
    def parse(cls, document: dict[str, Any], where: str) -> GroupMetadata:
        consolidated = document.get(CONSOLIDATED)
        members = None
        if isinstance(consolidated, dict):
            place = Place(where, "$.consolidated_metadata.metadata")
            members = Object().load(consolidated.get("metadata"), place)
            for name, member in members.items():
                if not isinstance(member, dict):
                    raise place.member(name).wrong("an object", member)
            # The group itself would lie in itself without end; `verify` tells of it.
            members = {name: member for name, member in members.items() if name}
        return cls(attributes_of(document, where), None if members is None else ToldMembers(members), document, where)

    def within(self, consolidated: ToldMembers, path: str) -> GroupMetadata:
        """This group, which lies at `path` in a group that tells of all its members, knows what that says of its own.

        zarr-python lists members of members in the outermost group and writes an empty list into those between.
        """
        members = consolidated.within(path)
        return replace(self, consolidated=members) if members else self


def parse_document(document: Any, where: str) -> ArrayMetadata | GroupMetadata:
    place = Place(where)
    Object().load(document, place)
    if document.get("zarr_format") != 3:
        raise place.member("zarr_format").wrong("3", document.get("zarr_format"))
    for name, value in document.items():
        if name not in _KNOWN and not (isinstance(value, dict) and value.get("must_understand") is False):
            what = "this member must be understood, and is not known here"
            raise UnsupportedError(what, key=where, member=place.member(name).path)
    kind = _NODE_TYPE.load(document.get("node_type"), place.member("node_type"))
    return (ArrayMetadata if kind == "array" else GroupMetadata).parse(document, where)


def read_document(store: Store, prefix: str = "") -> dict[str, Any] | None:
    """The JSON of a zarr.json, or None if there is none."""
    key = _key_of(prefix)
    raw = _fetch(store, key)[0]
    return None if raw is None else documents.parse(raw, key)


def read_metadata(store: Store, prefix: str = "") -> ArrayMetadata | GroupMetadata:
    return read_version(store, prefix)[0]


def read_version(store: Store, prefix: str = "") -> tuple[ArrayMetadata | GroupMetadata, Stamp | None]:
    """What a zarr.json says, and of which version that is, see `zvcore.documents.fetch_version`."""
    key = _key_of(prefix)
    raw, stamp = _fetch(store, key)
    if raw is None:
        raise NotFoundError("there is no zarr.json", key=f"{store.root}/{key}")
    return metadata_of(raw, key), stamp


def metadata_of(raw: bytes, key: str) -> ArrayMetadata | GroupMetadata:
    """What a document says, which is written so."""
    known = kept(_nothing_known)
    found = recalled(known, raw, key)
    if found is not None:
        return found[1]
    document = documents.parse(raw, key)
    said = parse_document(document, key)
    return remembered(known, raw, key, document, said)[1] if isinstance(said, ArrayMetadata) else said


def _nothing_known() -> Known[ArrayMetadata]:
    """Documents and what they said, for those who open an array again, or another that is the same."""
    return {}


def _key_of(prefix: str) -> str:
    return f"{prefix}/{DOCUMENT}" if prefix else DOCUMENT


def _fetch(store: Store, key: str) -> tuple[bytes | None, Stamp | None]:
    """Consolidated metadata is left out of a document that is too large: it would take ten times the memory."""
    raw, stamp = documents.fetch_version(store, key)
    if raw is not None and len(raw) > documents.LARGEST_TOLD:
        from zvcore.documents.nesting import cut_out

        return cut_out(raw, CONSOLIDATED.encode()), None  # which is no version of it
    return raw, stamp


def write_document(store: Store, document: dict[str, Any], prefix: str = "") -> None:
    store.put(f"{prefix}/{DOCUMENT}" if prefix else DOCUMENT, documents.encode(document))


def attributes_of(document: Mapping[str, Any], where: str) -> dict[str, Any]:
    return Object().load(document.get("attributes", {}), Place(where, "$.attributes"))
