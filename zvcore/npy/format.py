"""NumPy's files as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.format import ReadOnlyFormat

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from zvcore.images.whole import WholeImage
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["Npy"]


class Npy(ReadOnlyFormat):
    name = "npy"
    title = "NumPy's .npy and .npz"
    suffixes = (".npy", ".npz")
    signatures = ((0, b"\x93NUMPY"), (0, b"PK\x03\x04"), (0, b"PK\x05\x06"))
    inner_paths = True
    takes_images = True

    def names_written(self, name: str) -> bool:
        return name.lower().endswith(".npy")

    def read(self, store: Store) -> Any:
        from zvcore.npy.reading import read

        return read(store)

    def image_lost(self, image: WholeImage) -> Report:
        from zvcore.npy.writing import image_lost

        return image_lost(image)

    def write_image(self, file: BinaryIO, image: WholeImage, options: Mapping[str, Any]) -> Report:
        from zvcore.npy.writing import write_npy

        if options:
            raise TypeError(f"npy has no option {min(options)!r}")
        return write_npy(file, image)
