"""TIFF as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.format import ReadOnlyFormat

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from zvcore.images.whole import WholeImage
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["Tiff"]


class Tiff(ReadOnlyFormat):
    name = "tiff"
    title = "TIFF"
    suffixes = (".tif", ".tiff", ".btf", ".lsm", ".svs", ".ndpi")
    signatures = ((0, b"II*\0"), (0, b"MM\0*"), (0, b"II+\0"), (0, b"MM\0+"))
    inner_paths = True
    takes_images = True

    def read(self, store: Store) -> Any:
        from zvcore.tiff.reading import read

        return read(store)

    def image_lost(self, image: WholeImage) -> Report:
        from zvcore.tiff.writing import image_lost

        return image_lost(image)

    def write_image(self, file: BinaryIO, image: WholeImage, options: Mapping[str, Any]) -> Report:
        from zvcore.exchange.options import refuse_unknown
        from zvcore.tiff.writing import write_tiff

        refuse_unknown("tiff", options, write_tiff)
        return write_tiff(file, image, **options)
