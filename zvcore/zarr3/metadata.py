"""The documents of Zarr v3: `zarr.json` of arrays and groups, read strictly and written back whole."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from zvcore import documents
from zvcore.documents import is_number
from zvcore.engine import Keys
from zvcore.errors import MetadataError, NotFoundError, UnsupportedError
from zvcore.zarr3.chain import Pipeline, parse_codecs
from zvcore.zarr3.dtypes import DataType, parse_data_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

    from zvcore.stores import Store

__all__ = ["DOCUMENT", "ArrayMetadata", "GroupMetadata", "attributes_of", "read_metadata", "write_document"]

DOCUMENT = "zarr.json"

_KNOWN = {
    "zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs",
    "attributes", "dimension_names", "storage_transformers", "consolidated_metadata",
}  # fmt: skip


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

    @classmethod
    def parse(cls, document: dict[str, Any], where: str) -> ArrayMetadata:
        shape = _integers(document.get("shape"), "shape", where, least=0)
        ndim = len(shape)
        data_type = parse_data_type(_required(document, "data_type", where), where)
        grid_name, grid = _named(_required(document, "chunk_grid", where), "chunk_grid", where)
        if grid_name != "regular":
            raise UnsupportedError(f"chunk grid {grid_name!r}", key=where)
        chunk_shape = _integers(grid.get("chunk_shape"), "chunk_shape", where, least=1)
        if len(chunk_shape) != ndim:
            raise MetadataError("chunk_shape has another rank than shape", key=where, expected=ndim, found=chunk_shape)
        encoding_name, encoding = _named(document.get("chunk_key_encoding", "default"), "chunk_key_encoding", where)
        if encoding_name not in ("default", "v2"):
            raise UnsupportedError(f"chunk key encoding {encoding_name!r}", key=where)
        separator = encoding.get("separator", "/" if encoding_name == "default" else ".")
        if separator not in ("/", "."):
            raise MetadataError('the separator of chunk keys is "/" or "."', key=where, found=repr(separator))
        if document.get("storage_transformers"):
            raise UnsupportedError("storage transformers", key=where, found=repr(document["storage_transformers"]))
        names = document.get("dimension_names")
        if names is not None and (
            not isinstance(names, list) or len(names) != ndim or not all(n is None or isinstance(n, str) for n in names)
        ):
            raise MetadataError("dimension_names has a name or null for each axis", key=where, found=repr(names))
        codecs = _required(document, "codecs", where)
        return cls(
            shape=shape,
            data_type=data_type,
            chunk_shape=chunk_shape,
            separator=separator,
            key_prefix="c" if encoding_name == "default" else None,
            fill_value=data_type.parse_fill(_required(document, "fill_value", where), where),
            codecs=tuple(codecs) if isinstance(codecs, list) else codecs,
            attributes=attributes_of(document, where),
            dimension_names=None if names is None else tuple(names),
            document=document,
            where=where,
        )

    @cached_property
    def pipeline(self) -> Pipeline:
        codecs = list(self.codecs) if isinstance(self.codecs, tuple) else self.codecs
        return parse_codecs(codecs, self.chunk_shape, self.data_type, self.where)

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
        return tuple(-(-bound // extent) for bound, extent in zip(self.shape, self.chunk_shape, strict=True))

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
        return None if match is None else tuple(int(text) for text in match.groups())

    def stored(self, store: Store) -> Iterator[tuple[str, tuple[int, ...]]]:
        """(key, grid position) of each chunk (or shard) that is in the store, those outside of the array too."""
        for key in store.list(self.folder):
            position = self.position(key)
            if position is not None:
                yield key, position

    def resized(self, shape: Sequence[int]) -> ArrayMetadata:
        return replace(self, shape=tuple(shape), document={**self.document, "shape": [int(n) for n in shape]})


@dataclass(frozen=True)
class GroupMetadata:
    """What the zarr.json of a group says."""

    attributes: dict[str, Any]
    consolidated: dict[str, Any] | None
    document: dict[str, Any] = field(repr=False)
    where: str = ""

    @classmethod
    def parse(cls, document: dict[str, Any], where: str) -> GroupMetadata:
        consolidated = document.get("consolidated_metadata")
        members = None
        if isinstance(consolidated, dict):
            members = consolidated.get("metadata")
            if not isinstance(members, dict) or not all(isinstance(one, dict) for one in members.values()):
                raise MetadataError("consolidated_metadata holds an object of documents", key=where)
        return cls(attributes_of(document, where), members, document, where)

    def within(self, consolidated: Mapping[str, Any], path: str) -> GroupMetadata:
        """This group, which lies at `path` in a group that tells of all its members, knows what that says of its own.

        zarr-python lists members of members in the outermost group and writes an empty list into those between.
        """
        first = f"{path}/"
        members = {name.removeprefix(first): told for name, told in consolidated.items() if name.startswith(first)}
        return replace(self, consolidated=members) if members else self


def parse_document(document: Any, where: str) -> ArrayMetadata | GroupMetadata:
    if not isinstance(document, dict):
        raise MetadataError("the document is a JSON object", key=where, found=type(document).__name__)
    if document.get("zarr_format") != 3:
        raise MetadataError("not a document of Zarr v3", key=where, found=repr(document.get("zarr_format")))
    for name, value in document.items():
        if name not in _KNOWN and not (isinstance(value, dict) and value.get("must_understand") is False):
            raise UnsupportedError(f"member {name!r}, which must be understood", key=where)
    kind = document.get("node_type")
    if kind == "array":
        return ArrayMetadata.parse(document, where)
    if kind == "group":
        return GroupMetadata.parse(document, where)
    raise MetadataError('node_type is "array" or "group"', key=where, found=repr(kind))


def read_document(store: Store, prefix: str = "") -> dict[str, Any] | None:
    """The JSON of a zarr.json, or None if there is none."""
    return documents.read(store, f"{prefix}/{DOCUMENT}" if prefix else DOCUMENT)


def read_metadata(store: Store, prefix: str = "") -> ArrayMetadata | GroupMetadata:
    document = read_document(store, prefix)
    key = f"{prefix}/{DOCUMENT}" if prefix else DOCUMENT
    if document is None:
        old = [name for name in (".zarray", ".zgroup") if store.exists(f"{prefix}/{name}" if prefix else name)]
        if old:
            raise UnsupportedError(
                "a Zarr v2 array or group; zvcore reads v3 (zarr-python reads both)",
                key=f"{store.root}/{prefix}",
                found=old[0],
            )
        raise NotFoundError("there is no zarr.json", key=f"{store.root}/{key}")
    return parse_document(document, key)


def write_document(store: Store, document: dict[str, Any], prefix: str = "") -> None:
    store.put(f"{prefix}/{DOCUMENT}" if prefix else DOCUMENT, documents.encode(document))


def _required(document: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in document:
        raise MetadataError(f"{name!r} is missing", key=where)
    return document[name]


def attributes_of(document: Mapping[str, Any], where: str) -> dict[str, Any]:
    attributes = document.get("attributes", {})
    if not isinstance(attributes, dict):
        raise MetadataError("attributes is an object", key=where, found=type(attributes).__name__)
    return attributes


def _named(value: Any, what: str, where: str) -> tuple[str, dict[str, Any]]:
    if isinstance(value, str):
        return value, {}
    if isinstance(value, dict) and isinstance(value.get("name"), str):
        configuration = value.get("configuration", {})
        if isinstance(configuration, dict):
            return value["name"], configuration
    raise MetadataError(f"{what} is an object with a name", key=where, found=repr(value))


def _integers(value: Any, what: str, where: str, least: int) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(is_number(n) and n == math.floor(n) and n >= least for n in value):
        raise MetadataError(f"{what} is a list of integers of at least {least}", key=where, found=repr(value))
    if any(n >= 2**62 for n in value):
        raise UnsupportedError(f"{what} of 2**62 or more", key=where, found=repr(value))
    return tuple(int(n) for n in value)
