"""NIfTI as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.format import ReadOnlyFormat

if TYPE_CHECKING:
    from zvcore.array import Array
    from zvcore.stores import Store

__all__ = ["Nifti"]

_SIZES = (348, 540)


class Nifti(ReadOnlyFormat):
    name = "nifti"
    title = "NIfTI"
    suffixes = (".nii", ".nii.gz")
    # The size of the header in either byte order, or of a gzip stream its beginning.
    signatures = (
        *((0, size.to_bytes(4, order)) for size in _SIZES for order in ("little", "big")),
        (0, b"\x1f\x8b"),
    )

    def read(self, store: Store) -> Any:
        from zvcore.nifti.reading import read

        return read(store)

    def fastest_first(self, array: Array) -> bool:
        return True
