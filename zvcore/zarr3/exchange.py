"""Zarr v3 in conversions: groups of arrays, images as OME-Zarr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import codecs
from zvcore.errors import UnsupportedError, ZvcoreError
from zvcore.exchange.exchange import Exchange, slow_first
from zvcore.exchange.target import advised_shards, carried_shards, chunk_shape, fill_value
from zvcore.exchange.writer import ImageWriter
from zvcore.images.axes import known
from zvcore.images.cosem import transform
from zvcore.zarr3.group import create_group
from zvcore.zarr3.ome import MOST_AXES, ome_attributes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.array import Array
    from zvcore.codecs.base import Codec
    from zvcore.converting.view import View
    from zvcore.exchange.target import Place, Target
    from zvcore.images import Axes
    from zvcore.stores import Store

__all__ = ["ZarrExchange"]


class ZarrExchange(Exchange):
    holds = "group"
    common_codecs = ("gzip", "zstd", "blosc")
    default_codec = "zstd"
    has_attributes = True
    placing = frozenset({"transform", "ome", "multiscales", "_ARRAY_DIMENSIONS"})

    def carried_attributes(self, attrs: Mapping[str, Any], target: Exchange, same_place: bool) -> dict[str, Any]:
        kept = super().carried_attributes(attrs, target, same_place)
        ome = attrs.get("ome")
        if target.format is self.format and isinstance(ome, dict) and not same_place:
            # How an image is to be shown, and what its labels mean, stays true.
            rest = {name: value for name, value in ome.items() if name not in ("multiscales", "version")}
            kept.update({"ome": rest} if rest else {})
        return kept

    def axes_for(
        self, array: Array, kept: Sequence[int], shape: Sequence[int], channel: int | None
    ) -> tuple[tuple[int | None, ...], str]:
        if array.format == self.format.name:
            return tuple(kept), array.order
        return tuple(slow_first(array, kept)), "C"

    def array_options(self, view: View, target: Target, place: Place) -> dict[str, Any]:
        chunks = chunk_shape(view, target.chunks)
        options: dict[str, Any] = {"dtype": view.value_dtype, "chunks": chunks, "fill_value": fill_value(view)}
        options.update(self.codec_option(view, target))
        options.update(self.shard_option(view, target, chunks))
        names = [axis.name for axis in place.axes]
        if any(name is not None for name in names):
            options["dimension_names"] = names
        options.update(target.options)
        options["shape"] = place.shape or view.shape
        return options

    def own_codecs(self, view: View, own: list[Codec]) -> dict[str, Any]:
        """The order of axes in chunks, filters and byte order stay too."""
        layout: Any = view.array.layout
        pipeline = getattr(layout, "innermost", None) or layout.pipeline
        options: dict[str, Any] = {"codec": list(own)}
        kept = [axis for axis in view.axes if axis is not None]
        axes = [kept.index(axis) for axis in layout.form.axes if axis in kept]
        filters: list[Any] = []
        if axes != sorted(axes):
            filters.append({"name": "transpose", "configuration": {"order": axes}})
        if view.dtype is None:
            filters.extend(pipeline.filters)
            if pipeline.endian is not None:
                options["endian"] = pipeline.endian
        if filters:
            options["filters"] = filters
        return options

    def spells(self, codec: Codec) -> bool:
        try:
            spelled = codec.to_zarr3()
            return bool(spelled["name"] == codec.name and codecs.from_zarr3(spelled).decodes_alike(codec))
        except ZvcoreError:
            return False

    def shard_option(self, view: View, target: Target, chunks: tuple[int, ...]) -> dict[str, Any]:
        target.check_sharding()
        if target.sharding == "advise" or target.shards is True:
            return {"shards": advised_shards(view, chunks)}
        if target.sharding is not None:
            raise UnsupportedError(f"sharding={target.sharding!r} is not for {self.format.name}")
        if target.shards is not None:
            return {"shards": target.shards} if target.shards else {}
        if not view.array.layout.sharded:
            return {}
        return {"shards": carried_shards(view, chunks) or advised_shards(view, chunks)}

    def placing_attributes(self, axes: Axes) -> dict[str, Any]:
        return {"transform": transform(axes, short=False)} if known(axes) else {}

    def image_losses(self, levels: Sequence[Axes]) -> list[str]:
        rank = len(levels[0])
        if 2 <= rank <= MOST_AXES:
            return []
        return [f"OME-Zarr has images of 2 to {MOST_AXES} axes; nothing describes the levels of {rank}"]

    def writer(self, store: Store, found: bool) -> ImageWriter:
        return ZarrWriter(self.format, store, found)


class ZarrWriter(ImageWriter):
    """Groups, arrays in them, and images as OME-Zarr."""

    def _exists(self, path: str) -> bool:
        return self.store.exists(f"{path}/zarr.json" if path else "zarr.json")

    def folder(self, path: str, attrs: Mapping[str, Any]) -> None:
        if not (self.found and self._exists(path)):
            create_group(self.child(path), dict(attrs))

    def create(self, path: str, options: Mapping[str, Any], attrs: Mapping[str, Any]) -> Array:
        parts = path.split("/") if path else []
        for depth in range(len(parts)):
            above = "/".join(parts[:depth])
            if not self._exists(above):
                create_group(self.child(above))
        return super().create(path, options, attrs)

    def image(
        self, path: str, names: Sequence[str], levels: Sequence[Axes], name: str | None, method: str | None
    ) -> None:
        if not 2 <= len(levels[0]) <= MOST_AXES:
            return
        group: Any = self.format.open(self.child(path), "r+")
        called = name or path.rpartition("/")[2] or self.store.root.rstrip("/").rpartition("/")[2]
        before = group.attrs.get("ome")
        kept = {key: value for key, value in before.items() if key != "multiscales"} if isinstance(before, dict) else {}
        group.attrs.update({"ome": {**kept, **ome_attributes(names, levels, called, method)}})
