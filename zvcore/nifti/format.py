"""NIfTI as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.format import ReadOnlyFormat

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from zvcore.array import Array
    from zvcore.images.whole import WholeImage
    from zvcore.report import Report
    from zvcore.stores import Store

__all__ = ["Nifti"]

_SIZES = (348, 540)


class Nifti(ReadOnlyFormat):
    name = "nifti"
    title = "NIfTI"
    suffixes = (".nii", ".nii.gz")
    takes_images = True
    # The size of the header in either byte order, or of a gzip stream its beginning.
    signatures = (
        *((0, size.to_bytes(4, order)) for size in _SIZES for order in ("little", "big")),
        (0, b"\x1f\x8b"),
    )

    def read(self, store: Store) -> Any:
        from zvcore.nifti.reading import read

        return read(store)

    def image_lost(self, image: WholeImage) -> Report:
        from zvcore.nifti.writing import image_lost

        return image_lost(image)

    def write_image(self, file: BinaryIO, image: WholeImage, options: Mapping[str, Any]) -> Report:
        from zvcore.exchange.options import refuse_unknown
        from zvcore.nifti.writing import write_nifti

        refuse_unknown("nifti", options, write_nifti)
        return write_nifti(file, image, **options)

    def options_for(self, name: str) -> dict[str, Any]:
        return {"packed": True} if name.lower().endswith(".gz") else {}

    def fastest_first(self, array: Array) -> bool:
        return True
