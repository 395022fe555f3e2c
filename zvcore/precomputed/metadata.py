"""The `info` file of a volume: what it says, checked; changes that keep what they do not know."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore import documents
from zvcore.cached import cached_property
from zvcore.documents import Document, as_json
from zvcore.documents.members import Anything, Integer, Items, Kind, Made, Member, Number, Place, Table, Text
from zvcore.errors import ConflictError, MetadataError, NotFoundError, UnsupportedError
from zvcore.precomputed.encodings import ChunkEncoding, get_encoding
from zvcore.precomputed.sharding_spec import ShardingSpec, grid_bits, grid_of

if TYPE_CHECKING:
    from zvcore.stores import Store
    from zvcore.stores.base import Stamp

__all__ = [
    "INFO",
    "VOLUME_TYPE",
    "InfoFile",
    "Scale",
    "VolumeInfo",
    "change_info",
    "info_bytes",
    "read_info",
    "read_version",
    "resolve_key",
    "write_info",
]

INFO = "info"
VOLUME_TYPE = "neuroglancer_multiscale_volume"
DATA_TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "float32")
_LARGEST_EXTENT = 2**56


def read_info(store: Store, key: str = INFO, type: str | None = None) -> dict[str, Any]:
    """The document as it stands there, or NotFoundError; MetadataError where it is not of the `@type` that is asked."""
    return read_version(store, key, type)[0]


def read_version(store: Store, key: str = INFO, type: str | None = None) -> tuple[dict[str, Any], Stamp | None]:
    """`read_info`, and of which version it is, see `zvcore.documents.fetch_version`."""
    raw, stamp = documents.fetch_version(store, key)
    if raw is None:
        raise NotFoundError("there is no info file", key=f"{store.root}/{key}")
    document = documents.parse(raw, key)
    found = document.get("@type")
    if type is not None and found != type:
        raise MetadataError("wrong @type", key=f"{store.root}/{key}", expected=repr(type), found=repr(found))
    return document, stamp


def encode_info(document: dict[str, Any]) -> bytes:
    """The document as it is stored. What users gave of it has been looked at: JavaScript's JSON has no NaN."""
    return documents.encode(document) + b"\n"


def change_info(store: Store, make: Callable[[dict[str, Any] | None], dict[str, Any]]) -> dict[str, Any]:
    """Replace the document by what `make` makes of it (of None if there is none yet), losing no writer's change."""
    return documents.change(store, INFO, make, encode_info)


def info_bytes(document: dict[str, Any]) -> bytes:
    """The document of a folder that is all ours, as `write_info` stores it; an error where JSON cannot say it."""
    return encode_info(as_json(document, "the members of info", INFO, nan=False))


def write_info(store: Store, document: dict[str, Any]) -> None:
    """Store the document of a folder that is all ours."""
    store.put(INFO, info_bytes(document))


class InfoFile(Document):
    """The `info` at the root of a store."""

    def __init__(
        self, store: Store, content: dict[str, Any], *, read_only: bool = False, stamp: Stamp | None = None
    ) -> None:
        super().__init__(store, INFO, content, read_only=read_only, stamp=stamp)
        # A content, and what it says as a volume's.
        self._said: tuple[dict[str, Any], VolumeInfo] | None = None

    def encode(self, content: dict[str, Any]) -> bytes:
        return encode_info(content)

    def volume(self, content: dict[str, Any]) -> VolumeInfo:
        """What a content says; the volume and its scales ask for the same one several times."""
        said = self._said
        if said is None or said[0] is not content:
            said = self._said = (content, VolumeInfo.from_json(content))
        return said[1]


def resolve_key(key: Any, where: str | None) -> str:
    """A scale's folder relative to the volume's root, which it may not leave."""
    if not isinstance(key, str) or not key:
        raise MetadataError("a scale's key is not a string", key=where, found=repr(key))
    try:
        # As names of files that are not UTF-8 are shown.
        key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise MetadataError("a scale's key is not Unicode text", key=where, found=ascii(key)) from None
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


# The member of a scale by which we note that new chunk files are compressed: the format itself has no word for it.
COMPRESSION = "zvcore_compression"

_RESOLUTION = Items(Number(positive=True), 3)


def _offset(value: Any, place: Place) -> float:
    """Where a scale begins along an axis, in voxels: an integer by the letter, but there are fractions in documents."""
    number = Number().load(value, place)
    if not -_LARGEST_EXTENT <= number <= _LARGEST_EXTENT:
        raise place.wrong("a number from -2**56 to 2**56", value)
    return int(number) if number == int(number) else number


_SCALE = Table(
    Member("key", Text()),
    Member("size", Items(Integer(1, _LARGEST_EXTENT), 3)),
    Member("resolution", _RESOLUTION),
    Member("voxel_offset", Items(Made(_offset, one="a number"), 3), default=(0, 0, 0), null=True),
    Member("chunk_sizes", Items(Items(Integer(1, 2**31 - 1), 3), least=1)),
    Member("encoding", Text()),
    Member("sharding", Made(ShardingSpec.from_json, ShardingSpec.to_json), default=None, null=True),
    Member("hidden", Anything(), default=False),
    Member(COMPRESSION, Anything(), default=None, field="gzipped"),
)


@dataclass(frozen=True)
class Scale:
    """One resolution of a volume.

    folder        where its chunks or shards are, relative to the volume's root
    size          in voxels, without channels
    voxel_offset  as the document has it; integers where they are whole
    chunk_sizes   all that the document offers; the first is used
    gzipped       whether new chunk files are compressed
    document      the scale's member of the info file, as it stands there
    """

    key: str
    folder: str
    size: tuple[int, int, int]
    resolution: tuple[float, float, float]
    voxel_offset: tuple[float, float, float]
    chunk_sizes: tuple[tuple[int, int, int], ...]
    encoding: ChunkEncoding
    sharding: ShardingSpec | None
    hidden: bool
    gzipped: bool
    document: Mapping[str, Any]

    @property
    def chunk(self) -> tuple[int, int, int]:
        return self.chunk_sizes[0]

    @cached_property
    def corner(self) -> tuple[int, ...]:
        """What the names of chunk files count from: CloudVolume and Neuroglancer cut fractions off."""
        return tuple(int(offset) for offset in self.voxel_offset)

    @property
    def grid(self) -> tuple[int, ...]:
        """How many chunks there are along x, y and z."""
        return grid_of(self.size, self.chunk)

    @classmethod
    def from_json(cls, document: Any, place: Place) -> Scale:
        found = _SCALE.load(document, place)
        folder = place.member("key").made(resolve_key, found["key"])
        encoding = place.member("encoding").made(lambda name, key: get_encoding(name, where=key), found["encoding"])
        found["encoding"] = place.made(lambda scale, _: encoding.from_scale(scale), document)
        if found["sharding"] is not None:
            if len(found["chunk_sizes"]) != 1:
                raise place.member("chunk_sizes").error(
                    "a sharded scale has one chunk size", found=len(found["chunk_sizes"])
                )
            needed = sum(grid_bits(grid_of(found["size"], found["chunk_sizes"][0])))
            if needed > 64:
                raise place.error("the chunk ids of a sharded scale do not fit into 64 bits", found=needed)
        found["hidden"] = found["hidden"] is True
        found["gzipped"] = found["gzipped"] == "gzip"
        return cls(folder=folder, document=document, **found)


def _lower(kind: Kind) -> Kind:
    """What may be written in capitals too."""
    return Made(lambda value, place: kind.load(value.lower() if isinstance(value, str) else value, place), one=kind.one)


_VOLUME = Table(
    Member("@type", Text(VOLUME_TYPE), default=VOLUME_TYPE, field="kind", always=True),
    Member("type", _lower(Text())),
    Member("data_type", _lower(Text(*DATA_TYPES))),
    Member("num_channels", Integer(1, 2**20 - 1)),
    Member("scales", Items(Anything("a scale", "scales"), least=1)),
)


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
        found = _VOLUME.load(document, Place(where))
        return cls(np.dtype(found["data_type"]), found["num_channels"], found["type"], document, where)

    @cached_property
    def _scales(self) -> dict[int, Scale]:
        """Those that were asked for."""
        return {}

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
        which %= len(scales)
        if which not in self._scales:
            place = Place(self.where, "$.scales").item(which)
            scale = Scale.from_json(scales[which], place)
            place.member("encoding").made(lambda encoding, _: encoding.check(self.dtype, self.channels), scale.encoding)
            self._scales[which] = scale
        return self._scales[which]


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
        return _VOLUME.dump(
            {
                "kind": VOLUME_TYPE,
                "type": kind,
                "data_type": dtype.name,
                "num_channels": channels,
                "scales": [scale],
            }
        )
    document = copy.deepcopy(document)
    # No scales at all: a replacement that failed when the only one was gone.
    emptied = overwrite and document.get("scales") == []
    info = VolumeInfo.from_json({**document, "scales": [{}]} if emptied else document, where)
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
    try:
        return float(math.prod(_RESOLUTION.load(scale.get("resolution"), Place(None))))
    except MetadataError:
        return 0.0
