"""Zarr v3 in conversions: groups of arrays, images as OME-Zarr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import codecs
from zvcore.errors import UnsupportedError, ZvcoreError
from zvcore.exchange.by_place import AxesByPlace
from zvcore.exchange.ome_writer import OmeWriter
from zvcore.exchange.stored import given_dtype, mask_value, stored_axes
from zvcore.exchange.target import advised_shards, carried_shards, chunk_shape, fill_value
from zvcore.zarr3.consolidating import consolidate
from zvcore.zarr3.group import create_group
from zvcore.zarr3.metadata import ARRAY, DOCUMENT, GroupMetadata
from zvcore.zarr3.unknown_members import unknown_members

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.array import Array
    from zvcore.codecs.base import Codec
    from zvcore.converting.view import View
    from zvcore.exchange.target import Place, Target
    from zvcore.exchange.writer import ImageWriter
    from zvcore.images import Axes
    from zvcore.stores import Store

__all__ = ["ZarrExchange"]


class ZarrExchange(AxesByPlace):
    common_codecs = ("gzip", "zstd", "blosc")
    consolidated_member = "consolidated_metadata"
    placing = frozenset({"transform", "ome", "multiscales", "_ARRAY_DIMENSIONS"})
    understood = ARRAY.names | {"zarr_format", "node_type"}
    documents = frozenset({DOCUMENT})
    ome_version = "0.5"

    def is_consolidated(self, node: Any) -> bool:
        metadata = getattr(node, "metadata", None)
        return isinstance(metadata, GroupMetadata) and metadata.consolidated is not None

    def other_members(self, attrs: Mapping[str, Any]) -> list[str]:
        return super().other_members(attrs) + unknown_members(getattr(attrs, "document", {}))

    def array_options(self, view: View, target: Target, place: Place) -> dict[str, Any]:
        chunks = chunk_shape(view, target.chunks)
        options: dict[str, Any] = {"dtype": given_dtype(view), "chunks": chunks, "fill_value": fill_value(view)}
        options.update(self.codec_option(view, target))
        options.update(self.shard_option(view, target, chunks))
        if not place.level and view.source.masks_fill(view.array) and "_FillValue" not in view.array.attrs:
            options["attrs"] = {"_FillValue": mask_value(options["fill_value"])}
        separator = view.source.separator_of(view.array) if target.in_place else None
        if separator is not None:
            options["chunk_key_encoding"] = {"name": "v2", "configuration": {"separator": separator}}
        options.update(self.placing_options(place.axes))
        options.update(target.options)
        options["shape"] = place.shape or view.shape
        return options

    def placing_options(self, axes: Axes) -> dict[str, Any]:
        names = [axis.name for axis in axes]
        return {"dimension_names": names} if any(name is not None for name in names) else {}

    def arrangement(self, view: View, filters: list[Codec], big: bool) -> dict[str, Any]:
        axes = stored_axes(view)
        before: list[Any] = []
        if axes != sorted(axes):
            before.append({"name": "transpose", "configuration": {"order": axes}})
        before.extend(codec.to_zarr3() for codec in filters)
        return {"endian": "big" if big else "little", **({"filters": before} if before else {})}

    def has_spelling(self, codec: Codec) -> bool:
        try:
            return codec.identity or codecs.from_zarr3(codec.to_zarr3()).decodes_alike(codec)
        except ZvcoreError:
            return False

    def takes_filter(self, codec: Codec) -> bool:
        return codec.kind == "array" and self.has_spelling(codec) and not getattr(codec, "stores_untold_type", False)

    def spells(self, codec: Codec) -> bool:
        return self.has_spelling(codec) and bool(codec.to_zarr3()["name"] == codec.name)

    def filters_of(self, array: Array) -> list[Codec]:
        layout: Any = array.layout
        pipeline = getattr(layout, "innermost", None) or layout.pipeline
        return [codecs.from_zarr3(one, pipeline.where) for one in pipeline.filters]

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

    def notes(self, options: Mapping[str, Any], of_files: bool) -> list[str]:
        """Codecs and filters by the names of numcodecs are known to zarr-python, and to few others."""
        given = options.get("codec")
        made: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
        spelled = [codec.to_zarr3() for codec in made if hasattr(codec, "to_zarr3") and not codec.identity]
        spelled += [one for one in options.get("filters", ()) if isinstance(one, dict)]
        names = sorted({one["name"] for one in spelled if one["name"].startswith("numcodecs.")})
        if not names:
            return []
        return [
            f"{', '.join(names)}: tensorstore and Neuroglancer do not read this; "
            "with another codec (--codec zstd) chunks are encoded again, and everybody does"
        ]

    def writer(self, store: Store, found: bool) -> ImageWriter:
        return ZarrWriter(self.format, store, found)


class ZarrWriter(OmeWriter):
    """Groups, arrays in them, and images as OME-Zarr."""

    def consolidate(self) -> None:
        consolidate(self.store)

    def has_group(self, path: str) -> bool:
        return self.store.exists(f"{path}/zarr.json" if path else "zarr.json")

    def make_group(self, path: str, attrs: Mapping[str, Any]) -> None:
        create_group(self.child(path), dict(attrs))
