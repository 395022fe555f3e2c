"""Zarr v3 in conversions: groups of arrays, images as OME-Zarr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import codecs
from zvcore.errors import UnsupportedError, ZvcoreError
from zvcore.exchange.exchange import Exchange, slow_first
from zvcore.exchange.target import advised_shards, carried_shards, chunk_shape, fill_value
from zvcore.exchange.writer import ImageWriter
from zvcore.format import get_format
from zvcore.images.axes import known
from zvcore.images.cosem import transform
from zvcore.images.ome import MOST_AXES, attributes_of, members_of
from zvcore.zarr3.group import create_group
from zvcore.zarr3.metadata import ARRAY, DOCUMENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.array import Array
    from zvcore.codecs.base import Codec
    from zvcore.converting.view import View
    from zvcore.exchange.target import Place, Target
    from zvcore.images import Axes, Described
    from zvcore.stores import Store

__all__ = ["ZarrExchange"]


class ZarrExchange(Exchange):
    holds = "group"
    common_codecs = ("gzip", "zstd", "blosc")
    default_codec = "zstd"
    has_attributes = True
    axes_by_place = True
    placing = frozenset({"transform", "ome", "multiscales", "_ARRAY_DIMENSIONS"})
    understood = ARRAY.names | {"zarr_format", "node_type"}
    documents = frozenset({DOCUMENT})
    keeps_fill = True
    ome_version = "0.5"

    def axes_for(
        self, array: Array, kept: Sequence[int], shape: Sequence[int], channel: int | None
    ) -> tuple[tuple[int | None, ...], str]:
        if get_format(array.format).exchange().axes_by_place:
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

    def image_losses(self, image: Described) -> list[str]:
        if 2 <= image.rank <= MOST_AXES:
            return []
        what = f"OME-Zarr has images of 2 to {MOST_AXES} axes; nothing describes the levels of {image.rank}"
        return [what, *(f"{word} of OME-Zarr is not carried" for word in image.words)]

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

    def image(self, path: str, image: Described) -> None:
        if not 2 <= image.rank <= MOST_AXES:
            return
        group: Any = self.format.open(self.child(path), "r+")
        called = path.rpartition("/")[2] or self.store.root.rstrip("/").rpartition("/")[2]
        group.attrs.update(attributes_of(members_of(image, called), "0.5"))
