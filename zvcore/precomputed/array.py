"""One scale of a precomputed volume: an Array with a place in space."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, overload

import numpy as np
import numpy.typing as npt

from zvcore import codecs
from zvcore.array import Array
from zvcore.precomputed.attributes import ScaleAttributes
from zvcore.precomputed.layout import ScaleLayout, UnshardedLayout, layout_of
from zvcore.precomputed.metadata import InfoFile, Scale, VolumeInfo
from zvcore.typed import Item

if TYPE_CHECKING:
    from zvcore.codecs import Codec
    from zvcore.documents import Document
    from zvcore.images.coordinates import Coordinates
    from zvcore.precomputed.encodings import ChunkEncoding
    from zvcore.precomputed.sharding_spec import ShardingSpec
    from zvcore.typed import Box, Spot

__all__ = ["Nanometers", "ScaleArray"]

_CHANNELS = 3


class Nanometers(Generic[Item]):
    """`array.nm`: a scale by places in nanometers along x, y and z, and by the numbers of channels."""

    def __init__(self, coordinates: Coordinates[Item]) -> None:
        self._coordinates = coordinates

    @property
    def touching(self) -> Nanometers[Item]:
        """The same, for ranges that begin or end within a voxel: these are taken whole."""
        return Nanometers(self._coordinates.touching)

    @overload
    def __getitem__(self, key: Spot) -> Any: ...
    @overload
    def __getitem__(self, key: Box) -> npt.NDArray[Item]: ...
    def __getitem__(self, key: Any) -> Any:
        return self._coordinates[self._with_units(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._coordinates[self._with_units(key)] = value

    def _with_units(self, key: Any) -> tuple[Any, ...]:
        keys = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in keys:
            place = keys.index(Ellipsis)
            keys[place : place + 1] = [slice(None)] * (len(self._coordinates.spans) - len(keys) + 1)
        return tuple(_in_nanometers(one) if axis < _CHANNELS else one for axis, one in enumerate(keys))


def _in_nanometers(key: Any) -> Any:
    if not isinstance(key, slice):
        return (key, "nm")
    if key.step not in (None, 1):
        raise IndexError("a range in nanometers has no steps")
    ends = ["" if end is None else f"{_decimal(end)}nm" for end in (key.start, key.stop)]
    return slice(None) if ends == ["", ""] else ":".join(ends)


def _decimal(number: Any) -> str:
    """A number without an exponent, as its shortest decimals say it."""
    if isinstance(number, bool) or not isinstance(number, (int, float, np.integer, np.floating)):
        raise IndexError(f"not a place in nanometers: {number!r}")
    return f"{Decimal(repr(number.item() if isinstance(number, np.generic) else number)):f}"


class ScaleArray(Array[Item]):
    """One scale of a volume, indexed [x, y, z, channel] from zero; `at` takes the volume's own coordinates."""

    _layout: ScaleLayout

    def __init__(self, layout: ScaleLayout, document: Document, *, read_only: bool, threads: int | None = None) -> None:
        scale = layout.scale
        super().__init__(
            layout,
            format="precomputed",
            attrs=ScaleAttributes(document, scale.key, type(scale.encoding)),
            document=document,
            read_only=read_only or len(scale.chunk_sizes) > 1,
            threads=threads,
        )

    @property
    def scale(self) -> Scale:
        """What `info` says of this scale."""
        return self._layout.scale

    def _said(self, content: dict[str, Any]) -> VolumeInfo:
        document = self._document
        return document.volume(content) if isinstance(document, InfoFile) else VolumeInfo.from_json(content)

    def _laid_out(self, content: dict[str, Any]) -> ScaleLayout:
        info = self._said(content)
        layout = self._layout
        return layout_of(layout.store, info.scale(self.key), info.dtype, info.channels, layout.store_empty)

    def _described(self, content: dict[str, Any]) -> Any:
        info = self._said(content)
        scale = info.scale(self.key)
        told = (scale.folder, scale.voxel_offset, scale.chunk_sizes, type(scale.encoding), scale.encoding.to_scale())
        return (info.dtype, info.channels, *told, scale.sharding, scale.gzipped)

    def _resized(self, content: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
        raise self._fixed()

    @property
    def codec(self) -> Codec | None:
        """What encoded chunks are compressed with: in shards as the specification says, in files of their own gzip."""
        sharding = self.scale.sharding
        if sharding is not None:
            return codecs.from_neuroglancer(sharding.data_encoding)
        return self._layout.codec if isinstance(self._layout, UnshardedLayout) else None

    @property
    def key(self) -> str:
        """The scale's key."""
        return self.scale.key

    @property
    def path(self) -> str:
        return self.scale.key

    @property
    def type(self) -> str:
        """ "image" or "segmentation", as the volume is."""
        return self._said(self._document.content).type if self._document is not None else "image"

    @property
    def voxel_offset(self) -> tuple[float, float, float]:
        """The volume's coordinates of the first voxel: integers, but in documents of others that have fractions."""
        return self.scale.voxel_offset

    @property
    def resolution(self) -> tuple[float, float, float]:
        """The size of a voxel in nanometers."""
        return self.scale.resolution

    @property
    def nm(self) -> Nanometers[Item]:
        """The scale in nanometers: `a.nm[8080:8160, 16000:16080, 200]`. What is no voxel's border is an error."""
        return Nanometers(self.at)

    @property
    def encoding(self) -> ChunkEncoding:
        return self.scale.encoding

    @property
    def sharding(self) -> ShardingSpec | None:
        return self.scale.sharding

    @property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """(first, end) along x, y and z in the volume's coordinates."""
        return tuple((o, o + n) for o, n in zip(self.scale.voxel_offset, self.scale.size, strict=True))
