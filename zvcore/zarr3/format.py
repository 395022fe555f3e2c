"""Zarr v3 as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.format import Format, ViewerSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zvcore.array import Array
    from zvcore.exchange import Exchange
    from zvcore.format import Care
    from zvcore.images import Axes, Image
    from zvcore.stores import Store

__all__ = ["Zarr3"]

# What Neuroglancer's reader of Zarr knows.
_VIEWER_CODECS = ("bytes", "transpose", "gzip", "zstd", "blosc", "crc32c")


class Zarr3(Format):
    name = "zarr3"
    title = "Zarr v3"
    family = "zarr"
    version = 3
    marks = ("zarr.json",)
    folder_endings = (".zarr", ".zarr.zip", ".ozx")
    # Where the documents of an older version stand beside it, they describe the same.
    precedence = 1
    tensorstore_driver = "zarr3"
    zarr_python = True
    begins_groups = True
    inner_options = ("through",)
    open_options = ("dead_bytes_threshold", "order_in_shard", "threads", "write_empty_chunks", "write_mode")

    def open(self, store: Store, mode: str = "r", **options: Any) -> Any:
        from zvcore import zarr3

        return zarr3.open(store, mode, **options)

    def creator(self) -> Callable[..., Array]:
        from zvcore.zarr3.creating import create_array

        return create_array

    def removed(self, store: Store) -> None:
        from zvcore.zarr3.telling import forget_below

        forget_below(store)

    def read_axes(self, array: Array) -> Axes:
        from zvcore.zarr3.array import Zarr3Array
        from zvcore.zarr3.image import read_axes

        assert isinstance(array, Zarr3Array)
        return read_axes(array)

    def places(self, array: Array) -> tuple[Axes, Axes]:
        from zvcore.zarr3.image import described_places

        return described_places(array) or super().places(array)

    def read_image(self, node: Any) -> Image | None:
        from zvcore.zarr3.group import Zarr3Group
        from zvcore.zarr3.image import read_array, read_image

        return read_image(node) if isinstance(node, Zarr3Group) else read_array(node)

    def exchange(self) -> Exchange:
        from zvcore.zarr3.exchange import ZarrExchange

        return ZarrExchange(self)

    def described_levels(self, attributes: Mapping[str, Any]) -> list[tuple[str, Axes]]:
        from zvcore.images.ome import read_set, read_words

        found = read_set(read_words(attributes).members, "zarr.json")
        return [] if found is None else list(zip(found.paths, found.axes, strict=True))

    def care(self) -> Care:
        from zvcore.zarr3 import care

        return care

    def viewer_axes(self, image: Image) -> dict[str, tuple[float, str]] | None:
        from zvcore.images.ome_image import viewer_axes

        return viewer_axes(image)

    def viewer_source(self, node: Any) -> ViewerSource:
        reason = _unread(getattr(getattr(node, "metadata", None), "codecs", ()))
        return ViewerSource(None, reason) if reason else ViewerSource("zarr3://")


def _unread(codecs: Iterable[Any]) -> str:
    """Which of these codecs, within shards too, Neuroglancer does not read."""
    for codec in codecs:
        name = codec.get("name") if isinstance(codec, dict) else codec
        if name == "sharding_indexed":
            reason = _unread(codec.get("configuration", {}).get("codecs", ()))
            if reason:
                return reason
        elif name not in _VIEWER_CODECS:
            return f"Neuroglancer does not read the codec {name}"
    return ""
