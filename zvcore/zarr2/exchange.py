"""Zarr v2 in conversions: groups of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import codecs
from zvcore.errors import ZvcoreError
from zvcore.exchange.exchange import Exchange, slow_first
from zvcore.exchange.target import chunk_shape, fill_value
from zvcore.exchange.writer import ImageWriter
from zvcore.format import get_format
from zvcore.images.axes import known
from zvcore.images.cosem import transform
from zvcore.zarr2.attributes import DIMENSIONS
from zvcore.zarr2.group import create_group
from zvcore.zarr2.metadata import DOCUMENT, GROUP, document_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.array import Array
    from zvcore.codecs.base import Codec
    from zvcore.converting.view import View
    from zvcore.exchange.target import Place, Target
    from zvcore.images import Axes
    from zvcore.stores import Store

__all__ = ["Zarr2Exchange"]


class Zarr2Exchange(Exchange):
    holds = "group"
    common_codecs = ("gzip", "zstd", "blosc", "bzip2")
    default_codec = "zstd"
    has_attributes = True
    axes_by_place = True
    placing = frozenset({"transform", "multiscales", DIMENSIONS})

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
        if view.source.axes_by_place and view.order == "F":
            options["order"] = "F"
        names = [axis.name for axis in place.axes]
        if names and all(name is not None for name in names):
            options["dimension_names"] = names
        metadata: Any = getattr(view.array, "metadata", None)
        if view.source.format is self.format:
            options["dimension_separator"] = metadata.separator
            if metadata.undefined and view.dtype is None:
                options["fill_value"] = None
        options.update(target.options)
        options["shape"] = place.shape or view.shape
        return options

    def own_codecs(self, view: View, own: list[Codec]) -> dict[str, Any]:
        """Filters and byte order stay too."""
        metadata: Any = getattr(view.array, "metadata", None)
        options: dict[str, Any] = {"codec": list(own)}
        if view.dtype is None:
            options["filters"] = list(metadata.pipeline.filters)
            if metadata.data_type.swapped:
                options["dtype"] = metadata.data_type.stored
        return options

    def spells(self, codec: Codec) -> bool:
        try:
            return codecs.from_zarr2(codec.to_zarr2()).decodes_alike(codec)
        except ZvcoreError:
            return False

    def placing_attributes(self, axes: Axes) -> dict[str, Any]:
        return {"transform": transform(axes, short=False)} if known(axes) else {}

    def writer(self, store: Store, found: bool) -> ImageWriter:
        return Zarr2Writer(self.format, store, found)


class Zarr2Writer(ImageWriter):
    """Groups, and arrays in them."""

    def _exists(self, path: str) -> bool:
        return any(self.store.exists(document_key(mark, path)) for mark in (DOCUMENT, GROUP))

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
