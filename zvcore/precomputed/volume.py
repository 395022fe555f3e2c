"""A precomputed volume: its scales, each an array of voxels [x, y, z, channel]."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import codecs
from zvcore.array import Array
from zvcore.choices import AUTO
from zvcore.documents.members import Integer, Items, Place
from zvcore.errors import MetadataError, UnsupportedError
from zvcore.precomputed.attributes import ScaleAttributes, VolumeAttributes
from zvcore.precomputed.encodings import ChunkEncoding, get_encoding
from zvcore.precomputed.info import (
    DATA_TYPES,
    InfoFile,
    Scale,
    VolumeInfo,
    change_info,
    read_info,
    resolve_key,
    with_scale,
)
from zvcore.precomputed.layouts import ScaleLayout, layout_of
from zvcore.precomputed.sharded_store import as_spec
from zvcore.precomputed.sharding_spec import ShardingSpec
from zvcore.stores import Store, open_store

if TYPE_CHECKING:
    import os

    from zvcore.codecs import Codec
    from zvcore.documents import Document
    from zvcore.format import Node
    from zvcore.precomputed.meshes import Meshes
    from zvcore.precomputed.skeletons import Skeletons

__all__ = ["ScaleArray", "Volume", "create_volume"]

_DEFAULT_CHUNK = 64


class ScaleArray(Array):
    """One scale of a volume, indexed [x, y, z, channel] from zero; `at` takes the volume's own coordinates."""

    _layout: ScaleLayout

    def __init__(self, layout: ScaleLayout, document: Document, *, read_only: bool, threads: int | None = None) -> None:
        scale = layout.scale
        storing = None if scale.sharding is None else codecs.from_neuroglancer(scale.sharding.data_encoding)
        super().__init__(
            layout,
            format="precomputed",
            attrs=ScaleAttributes(document, scale.key, type(scale.encoding)),
            document=document,
            codec=storing,
            read_only=read_only or len(scale.chunk_sizes) > 1,
            threads=threads,
        )

    @property
    def scale(self) -> Scale:
        """What `info` says of this scale."""
        return self._layout.scale

    def _laid_out(self, content: dict[str, Any]) -> ScaleLayout:
        info = VolumeInfo.from_json(content)
        layout = self._layout
        return layout_of(layout.store, info.scale(self.key), info.dtype, info.channels, layout.store_empty)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (self._layout, self._document, self._read_only, self._work.threads))

    @property
    def key(self) -> str:
        """The scale's key."""
        return self.scale.key

    @property
    def path(self) -> str:
        return self.scale.key

    @property
    def voxel_offset(self) -> tuple[int, int, int]:
        """The volume's coordinates of the first voxel."""
        return self.scale.voxel_offset

    @property
    def resolution(self) -> tuple[float, float, float]:
        """The size of a voxel in nanometers."""
        return self.scale.resolution

    @property
    def encoding(self) -> ChunkEncoding:
        return self.scale.encoding

    @property
    def sharding(self) -> ShardingSpec | None:
        return self.scale.sharding

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """(first, end) along x, y and z in the volume's coordinates."""
        return tuple((o, o + n) for o, n in zip(self.scale.voxel_offset, self.scale.size, strict=True))

    @property
    def at(self) -> AbsoluteIndex:
        """The array in the volume's own coordinates, which may be negative: `a.at[x0:x1, y0:y1, z]`."""
        return AbsoluteIndex(self)


def _rebuild(layout: ScaleLayout, document: Document, read_only: bool, threads: int | None) -> ScaleArray:
    return ScaleArray(layout, document, read_only=read_only, threads=threads)


class AbsoluteIndex:
    """`array.at`."""

    def __init__(self, array: ScaleArray) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> Any:
        return self._array[self._relative(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._array[self._relative(key)] = value

    def _relative(self, key: Any) -> tuple[Any, ...]:
        keys = list(key) if isinstance(key, tuple) else [key]
        if sum(item is Ellipsis for item in keys) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        if Ellipsis in keys:
            place = keys.index(Ellipsis)
            keys[place : place + 1] = [slice(None)] * (self._array.ndim - len(keys) + 1)
        if len(keys) > self._array.ndim:
            raise IndexError(f"too many indices: the array has {self._array.ndim} dimensions, {len(keys)} were given")
        bounds = [*self._array.bounds, (0, self._array.shape[3])]
        return tuple(
            _relative(item, *span, "xyzc"[axis]) for axis, (item, span) in enumerate(zip(keys, bounds, strict=False))
        )


def _relative(item: Any, first: int, end: int, axis: str) -> Any:
    """An absolute coordinate or slice as one that counts from zero. What lies outside is an error, not cut."""
    if isinstance(item, slice):
        step = 1 if item.step is None else int(item.step)
        if step < 1:
            raise IndexError(f"{axis}: slices of absolute coordinates go forwards, not in steps of {step}")
        start = first if item.start is None else int(item.start)
        stop = end if item.stop is None else int(item.stop)
        if not first <= start <= stop <= end:
            raise IndexError(f"{axis}: {start}:{stop} does not lie within {first}:{end}")
        return slice(start - first, stop - first, step)
    place = item.__index__() if hasattr(item, "__index__") else None
    if place is None:
        raise IndexError(f"{axis}: absolute coordinates are integers and slices, not {type(item).__name__}")
    if not first <= place < end:
        raise IndexError(f"{axis}: {place} does not lie within {first}:{end}")
    return place - first


class Volume(Mapping[str, ScaleArray]):
    """A volume: a mapping from scale keys to arrays; `volume[0]` is the finest, negative numbers count from the end.

    `info` is the document as it stands in the store. What it refers to besides scales is reached by `skeletons()` and
    `meshes()`.
    """

    kind = "image"
    format = "precomputed"
    path = ""

    def __init__(
        self,
        path: str | os.PathLike[str] | Store,
        mode: str = "r",
        *,
        write_empty_chunks: bool = False,
        threads: int | None = None,
    ) -> None:
        self.store = open_store(path, mode)
        self.mode = mode
        self.write_empty_chunks = write_empty_chunks
        self.threads = threads
        self._document = InfoFile(self.store, read_info(self.store), read_only=mode == "r")
        self.attrs = VolumeAttributes(self._document)
        """The members of `info` that describe no scale. Those that the format does not define can be changed."""
        _ = self._info

    @property
    def _info(self) -> VolumeInfo:
        return VolumeInfo.from_json(self._document.content)

    @property
    def info(self) -> Mapping[str, Any]:
        return self._document.content

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._info.dtype

    @property
    def num_channels(self) -> int:
        return self._info.channels

    @property
    def type(self) -> str:
        """ "image" or "segmentation"."""
        return self._info.type

    def __getitem__(self, which: int | str) -> ScaleArray:
        if not isinstance(which, str):
            which = which.__index__()
        info = self._info
        layout = layout_of(self.store, info.scale(which), info.dtype, info.channels, self.write_empty_chunks)
        return ScaleArray(layout, self._document, read_only=self.mode == "r", threads=self.threads)

    def __iter__(self) -> Iterator[str]:
        return iter(self._info.keys)

    def __len__(self) -> int:
        return len(self._info.keys)

    def __contains__(self, key: object) -> bool:
        return key in self._info.keys

    def children(self) -> Mapping[str, Node]:
        """The scales, the finest first."""
        return self

    def __repr__(self) -> str:
        return f"<zvcore.precomputed.Volume {self.type} of {self.dtype}, {len(self)} scales, in {self.store.root}>"

    def skeletons(self) -> Skeletons:
        """The skeletons that `info` names."""
        from zvcore.precomputed.skeletons import Skeletons

        return Skeletons(self._below("skeletons"), self.mode)

    def meshes(self) -> Meshes:
        """The meshes that `info` names."""
        from zvcore.precomputed.meshes import Meshes

        return Meshes(self._below("mesh"), self.mode)

    def _below(self, name: str) -> Store:
        folder = self._info.document.get(name)
        if folder is None:
            raise MetadataError(f"this volume names no {name}", key=self._info.where)
        return self.store.child(resolve_key(folder, self._info.where))


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
    encoding: str | ChunkEncoding = "raw",
    voxel_offset: Sequence[int] = (0, 0, 0),
    resolution: Sequence[float] = (1, 1, 1),
    type: str | None = None,
    key: str | None = None,
    sharding: ShardingSpec | Mapping[str, Any] | str | None = None,
    write_empty_chunks: bool = False,
    **parameters: Any,
) -> ScaleArray:
    """Make a volume with one scale, or add a scale to a volume, and open it for writing.

    shape        (x, y, z) or (x, y, z, channels)
    encoding     the name of a chunk encoding; its parameters are given as the format names them, such as
                 `compressed_segmentation_block_size=` and `jpeg_quality=`
    key          the scale's folder, by default its resolution ("8_8_40")
    sharding     a specification, its JSON, "advise" for one that suits the volume, or None for a file per chunk
    shards       a shard's shape in voxels, instead of `sharding`: one whose bits give it is made
    codec        how sharded chunks are compressed after their encoding: "gzip" or "raw"
    attrs        further members of the scale in `info`
    overwrite    replace a scale of this key and all its chunks
    """
    store = open_store(path, "w")
    kind = np.dtype(dtype)
    if kind.name not in DATA_TYPES:
        raise MetadataError("volumes do not hold this data type", expected=", ".join(DATA_TYPES), found=kind)
    if fill_value not in (AUTO, 0, None):
        raise MetadataError("missing chunks of a volume are zeros", expected=0, found=fill_value)
    size = _integers(shape, "shape", (3, 4))
    channels = size[3] if len(size) == 4 else 1
    grain = _integers(chunks or (_DEFAULT_CHUNK,) * 3, "chunks", (3, 4))
    if len(grain) == 4 and grain[3] != channels:
        raise MetadataError("a chunk holds all channels", expected=channels, found=grain[3])
    encoder = encoding if isinstance(encoding, ChunkEncoding) else _encoder(encoding, parameters)
    if isinstance(encoding, ChunkEncoding) and parameters:
        raise TypeError(f"unknown options: {', '.join(parameters)}")
    encoder.check(kind, channels)
    spec = _sharding(sharding, shards, size, grain[:3], kind, encoder, codec)
    scale: dict[str, Any] = {
        **ScaleAttributes.checked(attrs or {}, ScaleAttributes.reserved.union(encoder.members)),
        "key": key or "_".join(f"{number:g}" for number in resolution),
        "size": list(size[:3]),
        "resolution": [int(number) if float(number).is_integer() else float(number) for number in resolution],
        "voxel_offset": list(_integers(voxel_offset, "voxel_offset", (3,), least=None)),
        "chunk_sizes": [list(grain[:3])],
        "encoding": encoder.name,
        **encoder.to_scale(),
    }
    if spec is not None:
        scale["sharding"] = spec.to_json()
    checked = Scale.from_json(scale, Place(None, "scale"))
    wanted = {"dtype": kind, "channels": channels, "type": type, "overwrite": overwrite}
    document = _with_scale(store, scale, wanted)
    layout = layout_of(store, checked, kind, channels, write_empty_chunks)
    return ScaleArray(layout, document, read_only=False)


def _with_scale(store: Store, scale: dict[str, Any], wanted: Mapping[str, Any]) -> InfoFile:
    """Add a scale to the volume in a store, or begin one, and remove the chunks of a scale that it replaces."""
    replaced: list[str] = []

    def change(document: dict[str, Any] | None) -> dict[str, Any]:
        replaced.clear()
        new = with_scale(document, scale, **wanted, where=store.root)
        old = [] if document is None else document["scales"]
        same = [other for other in old if isinstance(other, Mapping) and other.get("key") == scale["key"]]
        replaced.extend(resolve_key(other["key"], store.root) for other in same)
        return new

    document = InfoFile(store, change_info(store, change))
    for folder in replaced:
        store.delete_prefix(folder)
    return document


def _integers(values: Sequence[int], name: str, counts: tuple[int, ...], least: int | None = 1) -> tuple[int, ...]:
    """What a caller gave, as integers."""
    try:
        given: Any = [operator.index(value) for value in values]
    except TypeError:
        given = values
    return Items(Integer(least), *counts).load(given, Place(None, name))


def _encoder(name: str, parameters: Mapping[str, Any]) -> ChunkEncoding:
    cls = get_encoding(name)
    unknown = [option for option in parameters if option not in cls.members]
    if unknown:
        known = f"; {name!r} has {', '.join(cls.members)}" if cls.members else ""
        raise TypeError(f"precomputed has no option {unknown[0]!r} for creating{known}")
    members = {option: list(value) if isinstance(value, tuple) else value for option, value in parameters.items()}
    return cls.from_scale({**cls.defaults, **members})


def _sharding(
    sharding: ShardingSpec | Mapping[str, Any] | str | None,
    shards: Sequence[int] | None,
    size: Sequence[int],
    chunk: Sequence[int],
    dtype: np.dtype[Any],
    encoder: ChunkEncoding,
    codec: Any,
) -> ShardingSpec | None:
    chosen = _data_encoding(codec)
    # Pictures are compressed already.
    data_encoding = chosen or ("raw" if encoder.compressed else "gzip")
    if shards is not None:
        if sharding is not None:
            raise TypeError("sharding= and shards= both say how shards are made; give one of them")
        box = _integers(shards, "shards", (3, 4))
        return ShardingSpec.for_shards(size, chunk, box[:3], data_encoding=data_encoding)
    if sharding is None:
        if chosen not in (None, "raw"):
            raise UnsupportedError("chunks in files of their own are not compressed after their encoding", codec=chosen)
        return None
    if sharding == "advise":
        return ShardingSpec.advise_volume(size, chunk, dtype, data_encoding=data_encoding)
    spec = as_spec(sharding)
    if chosen not in (None, spec.data_encoding):
        raise MetadataError("codec= and the sharding specification disagree", expected=spec.data_encoding, found=chosen)
    return spec


def _data_encoding(codec: Any) -> str | None:
    """What a `codec=` asks for, None if it was not given."""
    if codec is AUTO or codec is None:
        return None
    chosen: Codec = codecs.as_codec(codec)
    return "raw" if chosen.name == "raw" else chosen.to_neuroglancer()
