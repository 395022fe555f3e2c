"""N5 as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.format import Format, ViewerSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.array import Array
    from zvcore.exchange import Exchange
    from zvcore.format import Care
    from zvcore.images import Axes, Image
    from zvcore.stores import Store

__all__ = ["N5"]

# What Neuroglancer's reader of N5 knows.
_VIEWER_CODECS = ("raw", "gzip", "blosc", "zstd")


class N5(Format):
    name = "n5"
    title = "N5"
    marks = ("attributes.json",)
    folder_endings = (".n5",)
    # A folder that holds the metadata of both N5 and Zarr for the same blocks is N5.
    precedence = 10
    tensorstore_driver = "n5"
    begins_groups = True
    unmarked = "an N5 group without attributes"
    inner_options = ("member",)
    open_options = ("n5_version", "order", "pad_edges", "strict", "threads", "write_empty_blocks")

    def adopts(self, store: Store) -> bool:
        from zvcore.n5.creating import in_container

        return in_container(store)

    def open(self, store: Store, mode: str = "r", **options: Any) -> Any:
        from zvcore import n5

        return n5.open(store, mode, **options)

    def creator(self) -> Callable[..., Array]:
        from zvcore.n5.creating import create_dataset

        return create_dataset

    def read_axes(self, array: Array) -> Axes:
        from zvcore.n5.image import read_axes

        return read_axes(array)

    def places(self, array: Array) -> tuple[Axes, Axes]:
        from zvcore.n5.image import described_places

        return described_places(array) or super().places(array)

    def read_image(self, node: Any) -> Image | None:
        from zvcore.n5.group import N5Group
        from zvcore.n5.image import read_array, read_image

        return read_image(node) if isinstance(node, N5Group) else read_array(node)

    def fastest_first(self, array: Array) -> bool:
        from zvcore.n5.image import fastest_first

        return fastest_first(array)

    def exchange(self) -> Exchange:
        from zvcore.n5.exchange import N5Exchange

        return N5Exchange(self)

    def care(self) -> Care:
        from zvcore.n5 import care

        return care

    def viewer_folder(self, image: Image) -> str:
        # Of BigDataViewer's folders, the viewer reads one time point.
        around = {level.path.rpartition("/")[0] for level in image.levels}
        return next(iter(around)) if image.convention == "bdv" and len(around) == 1 else ""

    def viewer_source(self, node: Any) -> ViewerSource:
        from zvcore.array import Array

        if isinstance(node, Array):
            name = getattr(node.codec, "name", "raw")
            if name not in _VIEWER_CODECS:
                return ViewerSource(None, f"Neuroglancer does not read {name} in N5")
            compression = getattr(getattr(node, "metadata", None), "compression", None)
            if name == "gzip" and isinstance(compression, dict) and compression.get("useZlib"):
                return ViewerSource(None, "Neuroglancer does not read zlib streams in N5")
        return ViewerSource("n5://")
