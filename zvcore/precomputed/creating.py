"""Making new volumes, and further scales of volumes."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import codecs, documents
from zvcore.casting import in_native_order
from zvcore.choices import AUTO, Auto
from zvcore.documents.members import Integer, Items, Number, Place, Text
from zvcore.errors import ConflictError, InvalidKeyError, MetadataError, UnsupportedError
from zvcore.precomputed.array import ScaleArray
from zvcore.precomputed.attributes import ScaleAttributes
from zvcore.precomputed.encodings import ChunkEncoding, get_encoding
from zvcore.precomputed.layout import CHUNK_NAME, layout_of
from zvcore.precomputed.metadata import (
    COMPRESSION,
    DATA_TYPES,
    INFO,
    InfoFile,
    Scale,
    change_info,
    resolve_key,
    with_scale,
)
from zvcore.precomputed.sharded_store import as_spec
from zvcore.precomputed.sharding_spec import ShardingSpec
from zvcore.stores import Store, open_store
from zvcore.stores.base import UnlistedError

if TYPE_CHECKING:
    import os

    from zvcore.codecs import Codec

__all__ = ["create_volume", "data_encoding_of", "make_encoding", "zips_files"]

_DEFAULT_CHUNK = 64
# So many names of a folder show whether chunks are left in it.
_LOOKED_AT = 1000


def create_volume(
    path: str | os.PathLike[str] | Store,
    *,
    shape: Sequence[int],
    dtype: npt.DTypeLike,
    chunks: Sequence[int] | None = None,
    shards: Sequence[int] | None = None,
    codec: Any = AUTO,
    fill_value: Any = AUTO,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    encoding: str | ChunkEncoding | Auto = AUTO,
    voxel_offset: Sequence[int] = (0, 0, 0),
    resolution: Sequence[float] = (1, 1, 1),
    type: str | None = None,
    key: str | None = None,
    sharding: ShardingSpec | Mapping[str, Any] | str | None = None,
    mesh: str | None = None,
    skeletons: str | None = None,
    segment_properties: str | None = None,
    write_empty_chunks: bool = False,
    **parameters: Any,
) -> ScaleArray:
    """Make a volume with one scale, or add a scale to a volume, and open it for writing.

    shape        (x, y, z) or (x, y, z, channels)
    encoding     the name of a chunk encoding, by default "compressed_segmentation" for segmentations of 32 or 64 bits
                 with one channel and "raw" for others; its parameters are given as the format names them, such as
                 `compressed_segmentation_block_size=` and `jpeg_quality=`; with `lossless=True` none that loses digits
    key          the scale's folder, by default its resolution ("8_8_40")
    sharding     a specification, its JSON, "advise" for one that suits the volume, or None for a file per chunk
    shards       a shard's shape in voxels, instead of `sharding`: one whose bits give it is made
    codec        how chunks are compressed after their encoding: "gzip", unless they are pictures, or "raw". Files of
                 single chunks are then called `.gz`, as CloudVolume has it; in object stores these are not compressed
    attrs        further members of the scale in `info`
    mesh, skeletons, segment_properties
                 the folders in which these are, as `info` names them
    overwrite    replace a scale of this key and all its chunks
    """
    store = open_store(path, "w")
    # Volumes say the name of a type, and no order of bytes: theirs is little-endian.
    kind = in_native_order(np.dtype(dtype))
    if kind.name not in DATA_TYPES:
        raise MetadataError("volumes do not hold this data type", expected=", ".join(DATA_TYPES), found=kind)
    _refuse_fill_value(fill_value)
    type, sizes = _type(type), _sizes(resolution)
    size = _integers(shape, "shape", (3, 4))
    channels = size[3] if len(size) == 4 else 1
    grain = _integers((_DEFAULT_CHUNK,) * 3 if chunks is None else chunks, "chunks", (3, 4))
    if len(grain) == 4 and grain[3] != channels:
        raise MetadataError("a chunk holds all channels", expected=channels, found=grain[3])
    if encoding is AUTO:
        encoding = _usual_encoding(type or _type_there(store), kind, channels)
    encoder = _chosen_encoding(encoding, parameters)
    encoder.check(kind, channels)
    spec = _sharding(sharding, shards, size, grain[:3], kind, encoder, codec)
    scale: dict[str, Any] = {
        **ScaleAttributes.checked(attrs or {}, ScaleAttributes.reserved.union(encoder.members)),
        "key": "_".join(f"{number:g}" for number in sizes) if key is None else key,
        "size": list(size[:3]),
        "resolution": [int(number) if float(number).is_integer() else float(number) for number in sizes],
        "voxel_offset": list(_integers(voxel_offset, "voxel_offset", (3,), least=None)),
        "chunk_sizes": [list(grain[:3])],
        "encoding": encoder.name,
        **encoder.to_scale(),
    }
    if spec is not None:
        scale["sharding"] = spec.to_json()
    elif zips_files(store.of_files, encoder, codec):
        scale[COMPRESSION] = "gzip"
    checked = Scale.from_json(scale, Place(None, "scale"))
    wanted = {"dtype": kind, "channels": channels, "type": type, "overwrite": overwrite}
    links = {"mesh": mesh, "skeletons": skeletons, "segment_properties": segment_properties}
    document = _with_scale(store, scale, wanted, {name: link for name, link in links.items() if link is not None})
    layout = layout_of(store, checked, kind, channels, write_empty_chunks)
    return ScaleArray(layout, document, read_only=False)


def _with_scale(store: Store, scale: dict[str, Any], wanted: Mapping[str, Any], links: Mapping[str, Any]) -> InfoFile:
    """Add a scale to the volume in a store, or begin one, and remove the chunks of a scale that it replaces.

    `links` are members of the document that name folders.
    """
    for name, link in links.items():
        Text().load(link, Place(None, name))

    def added(document: dict[str, Any] | None) -> dict[str, Any]:
        return {**with_scale(document, scale, **wanted, where=store.root), **links}

    def without(document: dict[str, Any] | None) -> dict[str, Any]:
        new = added(document)  # what is refused leaves the old scale
        if document is None:
            return new
        return {**document, "scales": [other for other in document["scales"] if not _has_key(other, scale["key"])]}

    if wanted["overwrite"]:
        # First what tells of the old scale: its chunks would be values of the new one if they could not be removed, or
        # could not be the last time.
        old = documents.read(store, INFO)
        added(old)
        if old is not None and any(_has_key(other, scale["key"]) for other in old["scales"]):
            change_info(store, without)
        store.delete_prefix(resolve_key(scale["key"], store.root))
    else:
        added(documents.read(store, INFO))
        _refuse_left_chunks(store, resolve_key(scale["key"], store.root))
    return InfoFile(store, change_info(store, added))


def _refuse_left_chunks(store: Store, folder: str) -> None:
    """ConflictError where files of chunks lie that no document tells of: they would be values of the new scale."""
    try:
        names = [name.rpartition("/")[2] for name in store.some_objects(folder, _LOOKED_AT)]
    except (UnlistedError, InvalidKeyError):
        return
    left = next((name for name in names if CHUNK_NAME.fullmatch(name) or name.endswith((".shard", ".data"))), None)
    if left is not None:
        what = "chunks of a scale that info does not name are here, which would be values of the new one"
        raise ConflictError(f"{what}; overwrite=True removes them", key=f"{store.root}/{folder}", found=left)


def _has_key(scale: Any, key: str) -> bool:
    return isinstance(scale, Mapping) and scale.get("key") == key


def _integers(values: Sequence[int], name: str, counts: tuple[int, ...], least: int | None = 1) -> tuple[int, ...]:
    """What a caller gave, as integers."""
    try:
        given: Any = [value if isinstance(value, bool) else operator.index(value) for value in values]
    except TypeError:
        given = values
    return Items(Integer(least), *counts).load(given, Place(None, name))


def _refuse_fill_value(given: Any) -> None:
    if not (given is AUTO or given is None or (np.ndim(given) == 0 and given == 0)):
        raise MetadataError("missing chunks of a volume are zeros", expected=0, found=repr(given))


def _type(given: str | None) -> str | None:
    """What a volume shows: Neuroglancer opens none of another type, nor do we one whose type is no text."""
    if given is None:
        return None
    return Text("image", "segmentation").load(given.lower() if isinstance(given, str) else given, Place(None, "type"))


def _sizes(values: Sequence[float]) -> tuple[float, ...]:
    """The sizes of voxels that a caller gave, as numbers of Python's."""
    try:
        given: Any = [number.item() if isinstance(number, np.generic) else number for number in values]
    except TypeError:
        given = values
    return Items(Number(positive=True), 3).load(given, Place(None, "resolution"))


def _chosen_encoding(encoding: str | ChunkEncoding, parameters: dict[str, Any]) -> ChunkEncoding:
    """The encoding that was asked for, which with the parameter `lossless` loses nothing."""
    lossless = parameters.pop("lossless", False)
    if isinstance(encoding, ChunkEncoding):
        encoder = encoding
        if parameters:
            raise TypeError(f"unknown options: {', '.join(parameters)}")
    else:
        encoder = make_encoding(encoding, parameters, lossless)
    if lossless and encoder.lossy:
        raise MetadataError(f"the chunk encoding {encoder.name!r} loses digits with these parameters, or always")
    return encoder


def make_encoding(name: str, parameters: Mapping[str, Any], lossless: bool = False) -> ChunkEncoding:
    """The encoding of this name with parameters as users give them; with `lossless` those by which it loses nothing."""
    cls = get_encoding(name)
    unknown = [option for option in parameters if option not in cls.members]
    if unknown:
        known = f"; {name!r} has {', '.join(cls.members)}" if cls.members else ""
        raise TypeError(f"precomputed has no option {unknown[0]!r} for creating{known}")
    members = {option: list(value) if isinstance(value, tuple) else value for option, value in parameters.items()}
    asked = cls.lossless_members if lossless else {}
    return cls.from_scale({**cls.defaults, **asked, **members})


def _sharding(
    sharding: ShardingSpec | Mapping[str, Any] | str | None,
    shards: Sequence[int] | None,
    size: Sequence[int],
    chunk: Sequence[int],
    dtype: np.dtype[Any],
    encoder: ChunkEncoding,
    codec: Any,
) -> ShardingSpec | None:
    chosen = data_encoding_of(codec)
    # Pictures are compressed already.
    data_encoding = chosen or ("raw" if encoder.compressed else "gzip")
    if shards is not None:
        if sharding is not None:
            raise TypeError("sharding= and shards= both say how shards are made; give one of them")
        box = _integers(shards, "shards", (3, 4))
        return ShardingSpec.for_shards(size, chunk, box[:3], data_encoding=data_encoding)
    if sharding is None:
        return None
    if sharding == "advise":
        return ShardingSpec.advise_volume(size, chunk, dtype, data_encoding=data_encoding)
    spec = as_spec(sharding)
    if chosen not in (None, spec.data_encoding):
        raise MetadataError("codec= and the sharding specification disagree", expected=spec.data_encoding, found=chosen)
    return spec


def zips_files(of_files: bool, encoder: ChunkEncoding | type[ChunkEncoding], codec: Any) -> bool:
    """Whether chunks in files of their own are compressed; `of_files`: they are files, and not other objects."""
    chosen = data_encoding_of(codec)
    if chosen is None:
        return of_files and not encoder.compressed
    if chosen == "gzip" and not of_files:
        raise UnsupportedError("objects that are no files are not compressed after their encoding", codec=chosen)
    if chosen not in ("gzip", "raw"):
        raise UnsupportedError("chunks in files of their own are compressed with gzip or not at all", codec=chosen)
    return chosen == "gzip"


def _type_there(store: Store) -> str | None:
    """The type of the volume that a scale is added to."""
    found = (documents.read(store, INFO) or {}).get("type")
    return found.lower() if isinstance(found, str) else None


def _usual_encoding(type: str | None, dtype: np.dtype[Any], channels: int) -> str:
    packed = type == "segmentation" and dtype.name in ("uint32", "uint64") and channels == 1
    return "compressed_segmentation" if packed else "raw"


def data_encoding_of(codec: Any) -> str | None:
    """What a `codec=` asks for, None if it was not given."""
    if codec is AUTO:
        return None
    if codec is None:
        return "raw"
    chosen: Codec = codecs.as_codec(codec)
    return "raw" if chosen.name == "raw" else chosen.to_neuroglancer()
