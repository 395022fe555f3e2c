"""Precomputed volumes in conversions: one image, whose levels are scales with axes x, y, z and channels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zvcore import codecs
from zvcore.choices import AUTO
from zvcore.errors import UnsupportedError, ZvcoreError
from zvcore.exchange.exchange import Exchange, slow_first
from zvcore.exchange.target import carried_shards, chunk_shape
from zvcore.exchange.writer import ImageWriter
from zvcore.images.axes import Axis, is_length, known, long_unit, nanometers, plain
from zvcore.precomputed.array import ScaleArray
from zvcore.precomputed.creating import create_volume, data_encoding_of, make_encoding, zips_files
from zvcore.precomputed.encodings import get_encoding
from zvcore.precomputed.group import Volume
from zvcore.precomputed.metadata import INFO, resolve_key

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from zvcore.array import Array
    from zvcore.codecs.base import Codec
    from zvcore.converting.view import View
    from zvcore.exchange.target import Place, Target
    from zvcore.images import Axes, Described
    from zvcore.stores import Store

__all__ = ["VolumeExchange"]

_CHANNELS = 3
# The members of `info` that name folders.
_LINKS = ("mesh", "skeletons", "segment_properties")


class VolumeExchange(Exchange):
    holds = "image"
    common_codecs = ("gzip", "raw")
    names_levels = False
    documents = frozenset({INFO})
    keeps_kind = True
    nan = False

    # --- as a source

    def codecs_of(self, array: Array) -> list[Codec]:
        """What follows the chunk encoding."""
        return [codec for codec in array.codecs if not codec.identity]

    def spare_axes(self, array: Array) -> Collection[int]:
        return (_CHANNELS,) if array.shape[_CHANNELS] == 1 else ()

    def user_attributes(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        reserved: frozenset[str] = getattr(attrs, "reserved", frozenset()).union(_LINKS)
        return {name: value for name, value in attrs.items() if name not in reserved}

    def links(self, attrs: Mapping[str, Any]) -> dict[str, str | None]:
        return {name: _linked(attrs[name]) for name in _LINKS if attrs.get(name) is not None}

    def folder_of(self, group: Any, member: str) -> str:
        return resolve_key(member, INFO)

    def place_of(self, path: str, options: Mapping[str, Any]) -> str:
        return resolve_key(options["key"], None)

    def kept_attributes(
        self, attrs: Mapping[str, Any], foreign: bool, *, of_group: bool = False
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Members of `info` that the format does not know go from one `info` to another."""
        return super().kept_attributes(attrs, foreign, of_group=of_group) if foreign else (dict(attrs), {})

    def is_lossy(self, array: Array) -> bool:
        return isinstance(array, ScaleArray) and array.encoding.lossy

    # --- as a destination

    def option_losses(self, options: Mapping[str, Any]) -> list[str]:
        name = options.get("encoding")
        if not isinstance(name, str):
            return []  # the source's own: what it loses is lost already
        cls = get_encoding(name)
        encoder = make_encoding(
            name,
            {member: options[member] for member in cls.members if member in options},
            bool(options.get("lossless")),
        )
        if not encoder.lossy:
            return []
        advice = "; lossless=True keeps them" if cls.lossless_members else ""
        return [f"the chunk encoding {name!r} is lossy: values are kept approximately{advice}"]

    def notes(self, options: Mapping[str, Any], of_files: bool) -> list[str]:
        """Packed files of chunks are called so as CloudVolume has it, which others do not look for."""
        if options.get("sharding") is not None or options.get("shards") is not None:
            return []
        encoding = options.get("encoding", "raw")
        encoder = get_encoding(encoding) if isinstance(encoding, str) else encoding
        if not zips_files(of_files, encoder, options.get("codec", AUTO)):
            return []
        return [
            "chunks are files called .gz: tensorstore does not look for them and reads zeros, and so does Neuroglancer "
            "through a plain server; with codec='raw' (--codec raw) or in shards everybody reads them"
        ]

    def axes_for(
        self, array: Array, kept: Sequence[int], shape: Sequence[int], channel: int | None
    ) -> tuple[tuple[int | None, ...], str]:
        """Axes x, y, z, channel."""
        rest = slow_first(array, kept)
        channels: int | None = None
        if channel is not None and channel in rest:
            channels = channel
            rest.remove(channel)
        while len(rest) > 3 and shape[rest[0]] == 1:
            rest.pop(0)
        if len(rest) == 4 and channels is None:
            channels = rest.pop(0)
        if len(rest) > 3 or not rest:
            raise UnsupportedError(
                "a precomputed volume has axes x, y, z and channels; choose the rest with a region",
                key=array.store.root, found=f"{len(kept)} axes",
            )  # fmt: skip
        return (*rest[::-1], *[None] * (3 - len(rest)), channels), "F"

    def array_options(self, view: View, target: Target, place: Place) -> dict[str, Any]:
        asked = target.chunks
        if asked is not None and len(asked) == 3:
            asked = (*asked, view.shape[_CHANNELS])
        chunks = chunk_shape(view, asked)
        if asked is None:
            chunks = (*chunks[:_CHANNELS], view.shape[_CHANNELS])
        options: dict[str, Any] = {
            "shape": view.shape, "dtype": view.value_dtype, "chunks": chunks, **_places(place.axes, place.finest),
        }  # fmt: skip
        if place.kind is not None:
            options["type"] = place.kind
        source = view.array
        if "encoding" not in target.options and isinstance(source, ScaleArray) and view.dtype is None:
            options["encoding"] = source.encoding
        sharding = self.shard_option(view, target, chunks)
        options.update(sharding)
        if target.codec is not None or (sharding and target.sharding in (None, "advise")):
            # Only what lies in shards is compressed once more, and a specification says itself how.
            options.update(self.codec_option(view, target))
        elif not sharding and isinstance(source, ScaleArray) and source.sharding is None and source.codec is None:
            options["codec"] = "raw"
        options.update(target.options)
        options.setdefault("key", "_".join(f"{round(float(n), 9):.15g}" for n in options["resolution"]))
        return options if place.shape is None else _smaller({**options, "shape": place.shape})

    def placing_options(self, axes: Axes) -> dict[str, Any]:
        three = (*axes, Axis(), Axis(), Axis())[:3]
        return _places(three, three) if known(three) else {}

    def own_codecs(self, view: View, own: list[Codec]) -> dict[str, Any]:
        return {} if view.array.codec is None else {"codec": view.array.codec}

    def codec_option(self, view: View, target: Target) -> dict[str, Any]:
        if target.codec is None and view.source.format is not self.format:
            return {}
        return super().codec_option(view, target)

    def spells(self, codec: Codec) -> bool:
        try:
            return codecs.from_neuroglancer(codec.to_neuroglancer()).decodes_alike(codec)
        except ZvcoreError:
            return False

    def shard_option(self, view: View, target: Target, chunks: tuple[int, ...]) -> dict[str, Any]:
        target.check_sharding()
        if target.sharding is not None:
            return {"sharding": target.sharding}
        if target.shards is True:
            return {"sharding": "advise"}
        if target.shards is not None:
            return {"shards": target.shards} if target.shards else {}
        source = view.array
        if not source.layout.sharded:
            return {}
        shards = carried_shards(view, chunks)
        same_grid = view.shape == source.shape and chunks == source.chunks
        if shards is not None and isinstance(source, ScaleArray) and view.axes == tuple(range(4)) and same_grid:
            spec = source.sharding
            if target.codec is not None and spec is not None:
                spec = replace(spec, data_encoding=data_encoding_of(target.codec) or spec.data_encoding)
            return {"sharding": spec}
        return {"sharding": "advise"}

    def spatial_axes(self, axes: Axes, order: str) -> tuple[int, ...]:
        return (0, 1, 2)

    def given_factors(self, given: Sequence[int], rank: int) -> tuple[int, ...]:
        found = super().given_factors((*given, 1) if len(given) == 3 else given, rank)
        if found[_CHANNELS] != 1:
            raise ValueError("the channels of a volume stay as they are")
        return found

    def level_names(self, wanted: Sequence[str | None]) -> list[str]:
        """None: the scales have keys, within the volume."""
        return ["" for _ in wanted]

    def image_losses(self, image: Described) -> list[str]:
        lost = super().image_losses(image)
        for axis, expected in zip(image.axes[0], "xyzc", strict=False):
            if axis.name is not None and axis.name != expected:
                lost.append(f"the axis {axis.name!r} is called {expected!r} in a volume")
            if axis.unit is not None and not is_length(axis.unit):
                lost.append(f"the unit {axis.unit!r} of the axis {axis.name!r} has no place: volumes have nanometers")
        if any(long_unit(axis.unit) is None and axis.scale not in (None, 1) for axis in image.axes[0][:3]):
            lost.append("the sizes of voxels have no unit, and are taken for nanometers")
        return lost + [
            f"the offset of level {number} is not a whole number of voxels, and is rounded"
            for number, axes in enumerate(image.axes)
            if not _voxel_offset(axes, image.axes[0])[1]
        ]

    def writer(self, store: Store, found: bool) -> ImageWriter:
        return VolumeWriter(self.format, store, found)


class VolumeWriter(ImageWriter):
    """Scales of the volume at the root of the store."""

    def array(self, path: str, options: Mapping[str, Any], attrs: Mapping[str, Any]) -> Array:
        if self.found and self.store.exists("info"):
            volume = Volume(self.store, "r+", **self.for_opening(options))
            if options["key"] in volume:
                return volume[options["key"]]
        return create_volume(self.store, attrs=attrs, **options)

    def image(self, path: str, image: Described) -> None:
        if image.attrs:
            Volume(self.store, "r+").attrs.update(image.attrs)


def _linked(value: Any) -> str | None:
    """The folder that a member of `info` names, or the address as it is."""
    if isinstance(value, str) and "://" in value:
        return value
    try:
        return resolve_key(value, INFO)
    except ZvcoreError:
        return None


def _places(axes: Axes, finest: Axes) -> dict[str, Any]:
    """The size of voxels in nanometers, and where the first one lies."""
    sizes = [(1.0 if axis.scale is None else axis.scale) * nanometers(axis.unit) for axis in axes[:3]]
    return {"voxel_offset": _voxel_offset(axes, finest)[0], "resolution": tuple(map(plain, sizes))}


def _voxel_offset(axes: Axes, finest: Axes) -> tuple[tuple[int, ...], bool]:
    """(voxel_offset of a scale, whether it is exact). Offsets of volumes are whole numbers of voxels."""
    offset = []
    exact = True
    for axis, first in zip(axes[:3], finest[:3], strict=True):
        size = 1.0 if axis.scale is None else axis.scale
        base = 1.0 if first.scale is None else first.scale
        place = (axis.offset - (size - base) / 2) / size
        offset.append(round(place))
        exact = exact and abs(place - round(place)) < 1e-6
    return tuple(offset), exact


def _smaller(options: dict[str, Any]) -> dict[str, Any]:
    """Bits that suit the size of a coarser scale, in place of those of the finest."""
    if options.get("sharding") not in (None, "advise"):
        options["sharding"] = "advise"
    if options.get("shards") is not None:
        chunks = options["chunks"]
        grid = [-(-n // c) for n, c in zip(options["shape"], chunks, strict=True)]
        options["shards"] = tuple(
            min(s, 2 ** (g - 1).bit_length() * c) for s, g, c in zip(options["shards"], grid, chunks, strict=False)
        )
    return options
