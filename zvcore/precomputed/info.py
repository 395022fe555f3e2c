"""The `info` file of a volume: what it says, checked; changes that keep what they do not know."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from zvcore import documents
from zvcore.documents import Document, as_json, is_number
from zvcore.errors import ConflictError, MetadataError, NotFoundError, UnsupportedError
from zvcore.precomputed.encodings import ChunkEncoding, get_encoding
from zvcore.precomputed.sharding_spec import ShardingSpec, grid_bits, grid_of

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = [
    "INFO",
    "VOLUME_TYPE",
    "InfoFile",
    "Scale",
    "VolumeInfo",
    "change_info",
    "read_info",
    "resolve_key",
    "write_info",
]

INFO = "info"
VOLUME_TYPE = "neuroglancer_multiscale_volume"
DATA_TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "float32")
_LARGEST_EXTENT = 2**56


def read_info(store: Store, key: str = INFO) -> dict[str, Any]:
    """The document as it stands there, or NotFoundError."""
    document = documents.read(store, key)
    if document is None:
        raise NotFoundError("there is no info file", key=f"{store.root}/{key}")
    return document


def encode_info(document: dict[str, Any]) -> bytes:
    """The document as it is stored. What users gave of it has been looked at: JavaScript's JSON has no NaN."""
    return documents.encode(document) + b"\n"


def change_info(store: Store, make: Callable[[dict[str, Any] | None], dict[str, Any]]) -> dict[str, Any]:
    """Replace the document by what `make` makes of it (of None if there is none yet), losing nobody's change."""
    return documents.change(store, INFO, make, encode_info)


def write_info(store: Store, document: dict[str, Any]) -> None:
    """Store the document of a folder that is all ours."""
    store.put(INFO, encode_info(as_json(document, "the members of info", INFO, nan=False)))


class InfoFile(Document):
    """The `info` at the root of a store."""

    def __init__(self, store: Store, content: dict[str, Any], *, read_only: bool = False) -> None:
        super().__init__(store, INFO, content, read_only=read_only)

    def encode(self, content: dict[str, Any]) -> bytes:
        return encode_info(content)


def resolve_key(key: Any, where: str) -> str:
    """A scale's folder relative to the volume's root, which it may not leave."""
    if not isinstance(key, str) or not key:
        raise MetadataError("a scale's key is not a string", key=where, found=repr(key))
    if "://" in key:
        raise UnsupportedError("the scale lies at another address; open the volume there", key=where, found=key)
    parts: list[str] = []
    for part in key.split("/"):
        if part == "..":
            if not parts:
                raise MetadataError("a scale's key leads out of the volume's folder", key=where, found=repr(key))
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if key.startswith("/") or "\\" in key or "\0" in key or not parts:
        raise MetadataError("a scale's key is not a folder below the volume's", key=where, found=repr(key))
    return "/".join(parts)


def _whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _three(document: Mapping[str, Any], name: str, where: str, check: Callable[[Any], bool], what: str) -> list[Any]:
    value = document.get(name)
    if not isinstance(value, list) or len(value) != 3 or not all(check(item) for item in value):
        raise MetadataError(f"{name} is missing or wrong", key=where, expected=f"three {what}", found=repr(value))
    return value


@dataclass(frozen=True)
class Scale:
    """One resolution of a volume.

    folder        where its chunks or shards are, relative to the volume's root
    size          in voxels, without channels
    chunk_sizes   all that the document offers; the first is used
    document      the scale's member of the info file, as it stands there
    """

    key: str
    folder: str
    size: tuple[int, int, int]
    resolution: tuple[float, float, float]
    voxel_offset: tuple[int, int, int]
    chunk_sizes: tuple[tuple[int, int, int], ...]
    encoding: ChunkEncoding
    sharding: ShardingSpec | None
    hidden: bool
    document: Mapping[str, Any]

    @property
    def chunk(self) -> tuple[int, int, int]:
        return self.chunk_sizes[0]

    @property
    def grid(self) -> tuple[int, ...]:
        """How many chunks there are along x, y and z."""
        return grid_of(self.size, self.chunk)

    @classmethod
    def from_json(cls, document: Any, where: str) -> Scale:
        if not isinstance(document, Mapping):
            raise MetadataError("a scale is not a JSON object", key=where, found=repr(document))
        folder = resolve_key(document.get("key"), where)
        where = f"{where}: scale {document['key']!r}"
        size = _three(document, "size", where, lambda n: _whole(n) and 0 < n <= _LARGEST_EXTENT, "positive integers")
        resolution = _three(document, "resolution", where, _positive, "positive numbers")
        offset = [0, 0, 0]
        if document.get("voxel_offset") is not None:
            offset = _three(
                document, "voxel_offset", where, lambda n: _whole(n) and abs(n) <= _LARGEST_EXTENT, "integers"
            )
        chunks = document.get("chunk_sizes")
        if not isinstance(chunks, list) or not chunks:
            raise MetadataError(
                "chunk_sizes is missing or wrong", key=where, expected="a list of sizes", found=repr(chunks)
            )
        for chunk in chunks:
            _three(
                {"chunk_sizes": chunk}, "chunk_sizes", where, lambda n: _whole(n) and 0 < n < 2**31, "positive integers"
            )
        name = document.get("encoding")
        if not isinstance(name, str):
            raise MetadataError("encoding is missing or wrong", key=where, expected="a string", found=repr(name))
        try:
            encoding = get_encoding(name, where=where).from_scale(document)
        except MetadataError as error:
            raise error.located(key=where)
        sharding = None
        if document.get("sharding") is not None:
            try:
                sharding = ShardingSpec.from_json(document["sharding"])
            except MetadataError as error:
                raise error.located(key=where)
            if len(chunks) != 1:
                raise MetadataError("a sharded scale has one chunk size", key=where, found=len(chunks))
            needed = sum(grid_bits(grid_of(size, chunks[0])))
            if needed > 64:
                raise MetadataError("the chunk ids of a sharded scale do not fit into 64 bits", key=where, found=needed)
        return cls(
            document["key"],
            folder,
            (size[0], size[1], size[2]),
            (resolution[0], resolution[1], resolution[2]),
            (offset[0], offset[1], offset[2]),
            tuple((chunk[0], chunk[1], chunk[2]) for chunk in chunks),
            encoding,
            sharding,
            document.get("hidden") is True,
            document,
        )


def _positive(value: Any) -> bool:
    return is_number(value) and value > 0


@dataclass(frozen=True)
class VolumeInfo:
    """The document of a volume. Scales are read when asked for, so that a broken one takes no other with it."""

    dtype: np.dtype[Any]
    channels: int
    type: str
    document: Mapping[str, Any]
    where: str

    @classmethod
    def from_json(cls, document: Mapping[str, Any], where: str = INFO) -> VolumeInfo:
        if isinstance(document.get("redirect"), str):
            raise UnsupportedError("this volume has moved; open it there", key=where, found=document["redirect"])
        kind = document.get("@type", VOLUME_TYPE)
        if kind != VOLUME_TYPE:
            raise MetadataError(
                "not the info file of a volume", key=where, expected=repr(VOLUME_TYPE), found=repr(kind)
            )
        dtype = document.get("data_type")
        if not isinstance(dtype, str) or dtype.lower() not in DATA_TYPES:
            raise MetadataError(
                "data_type is missing or wrong", key=where, expected=", ".join(DATA_TYPES), found=repr(dtype)
            )
        channels = document.get("num_channels")
        if not _whole(channels) or not 0 < channels < 2**20:
            raise MetadataError(
                "num_channels is missing or wrong", key=where, expected="a positive integer", found=repr(channels)
            )
        type_ = document.get("type")
        if not isinstance(type_, str):
            raise MetadataError(
                "type is missing or wrong", key=where, expected="'image' or 'segmentation'", found=repr(type_)
            )
        scales = document.get("scales")
        if not isinstance(scales, list) or not scales:
            raise MetadataError("scales is missing or empty", key=where, found=repr(scales)[:80])
        return cls(np.dtype(dtype.lower()), int(channels), type_.lower(), document, where)

    @property
    def keys(self) -> list[str]:
        """The keys of the scales, in their order."""
        return [
            scale["key"]
            for scale in self.document["scales"]
            if isinstance(scale, Mapping) and isinstance(scale.get("key"), str)
        ]

    def scale(self, which: int | str) -> Scale:
        """One scale by its place or by its key."""
        scales = self.document["scales"]
        if isinstance(which, str):
            places = [i for i, scale in enumerate(scales) if isinstance(scale, Mapping) and scale.get("key") == which]
            if not places:
                raise NotFoundError(
                    f"there is no scale {which!r}; there are {', '.join(map(repr, self.keys))}", key=self.where
                )
            which = places[0]
        elif not -len(scales) <= which < len(scales):
            raise NotFoundError(f"there is no scale {which}; there are {len(scales)}", key=self.where)
        scale = Scale.from_json(scales[which], self.where)
        try:
            scale.encoding.check(self.dtype, self.channels)
        except MetadataError as error:
            raise error.located(key=f"{self.where}: scale {scale.key!r}")
        return scale


def with_scale(
    document: dict[str, Any] | None,
    scale: dict[str, Any],
    *,
    dtype: np.dtype[Any],
    channels: int,
    type: str | None,
    overwrite: bool,
    where: str,
) -> dict[str, Any]:
    """A document with one scale more; finer scales stand before coarser ones."""
    if document is None:
        kind = type or ("segmentation" if scale["encoding"] == "compressed_segmentation" else "image")
        return {
            "@type": VOLUME_TYPE,
            "type": kind,
            "data_type": dtype.name,
            "num_channels": channels,
            "scales": [scale],
        }
    document = copy.deepcopy(document)
    info = VolumeInfo.from_json(document, where)
    others = [old for old in document["scales"] if not (isinstance(old, Mapping) and old.get("key") == scale["key"])]
    if len(others) < len(document["scales"]) and not overwrite:
        raise ConflictError(f"there is a scale {scale['key']!r} already; overwrite=True replaces it", key=where)
    if not others:
        document.update({"data_type": dtype.name, "num_channels": channels})
        if type is not None:
            document["type"] = type
    elif info.dtype != dtype or info.channels != channels or (type is not None and info.type != type):
        raise MetadataError(
            "all scales of a volume have the same data",
            key=where,
            expected=f"{info.type} of {info.dtype}, {info.channels} channels",
            found=f"{type or info.type} of {dtype}, {channels} channels",
        )
    volume = math.prod(scale["resolution"])
    finer = [old for old in others if not isinstance(old, Mapping) or _volume(old) <= volume]
    document["scales"] = [*finer, scale, *(old for old in others if old not in finer)]
    return document


def _volume(scale: Mapping[str, Any]) -> float:
    resolution = scale.get("resolution")
    if isinstance(resolution, list) and all(_positive(item) for item in resolution):
        return math.prod(resolution)
    return 0.0
