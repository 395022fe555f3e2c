"""Zarr v2 as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.format import Format, ViewerSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zvcore.array import Array
    from zvcore.exchange import Exchange
    from zvcore.format import Care
    from zvcore.images import Axes, Image
    from zvcore.stores import Store

__all__ = ["Zarr2"]

# What Neuroglancer's reader of Zarr v2 knows, by numcodecs' names.
_VIEWER_CODECS = ("zlib", "gzip", "zstd", "blosc")
_VIEWER_DTYPES = "biuf"


class Zarr2(Format):
    name = "zarr2"
    title = "Zarr v2"
    family = "zarr"
    version = 2
    marks = (".zarray", ".zgroup")
    folder_endings = (".zarr", ".zarr.zip")
    tensorstore_driver = "zarr"
    zarr_python = True
    begins_groups = True
    inner_options = ("through",)
    open_options = ("threads", "write_empty_chunks")

    def open(self, store: Store, mode: str = "r", **options: Any) -> Any:
        from zvcore import zarr2

        return zarr2.open(store, mode, **options)

    def creator(self) -> Callable[..., Array]:
        from zvcore.zarr2.creating import create_array

        return create_array

    def removed(self, store: Store) -> None:
        from zvcore.zarr2.consolidated import forget_below

        forget_below(store)

    def read_axes(self, array: Array) -> Axes:
        from zvcore.zarr2.image import read_axes

        return read_axes(array)

    def places(self, array: Array) -> tuple[Axes, Axes]:
        from zvcore.zarr2.image import described_places

        return described_places(array) or super().places(array)

    def read_image(self, node: Any) -> Image | None:
        from zvcore.zarr2.group import Zarr2Group
        from zvcore.zarr2.image import read_array, read_image

        return read_image(node) if isinstance(node, Zarr2Group) else read_array(node)

    def exchange(self) -> Exchange:
        from zvcore.zarr2.exchange import Zarr2Exchange

        return Zarr2Exchange(self)

    def described_levels(self, attributes: Mapping[str, Any]) -> list[tuple[str, Axes]]:
        from zvcore.images.ome import read_set, read_words

        found = read_set(read_words(attributes).members, ".zattrs")
        return [] if found is None else list(zip(found.paths, found.axes, strict=True))

    def viewer_axes(self, image: Image) -> dict[str, tuple[float, str]] | None:
        from zvcore.images.ome_image import viewer_axes

        return viewer_axes(image)

    def care(self) -> Care:
        from zvcore.zarr2 import care

        return care

    def viewer_source(self, node: Any) -> ViewerSource:
        metadata = getattr(node, "metadata", None)
        document = getattr(metadata, "document", {})
        if document.get("filters"):
            return ViewerSource(None, "Neuroglancer reads no filters of Zarr v2")
        compressor = document.get("compressor")
        if isinstance(compressor, dict) and compressor.get("id") not in _VIEWER_CODECS:
            return ViewerSource(None, f"Neuroglancer does not read the codec {compressor.get('id')} in Zarr v2")
        return ViewerSource("zarr2://")
