"""NRRD as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.format import ReadOnlyFormat

if TYPE_CHECKING:
    from zvcore.array import Array
    from zvcore.format import Care
    from zvcore.stores import Store

__all__ = ["Nrrd"]


class Nrrd(ReadOnlyFormat):
    name = "nrrd"
    title = "NRRD"
    suffixes = (".nrrd", ".nhdr")
    signatures = tuple((0, b"NRRD000%d" % version) for version in range(1, 6))

    def read(self, store: Store) -> Any:
        from zvcore.nrrd.reading import read

        return read(store)

    def fastest_first(self, array: Array) -> bool:
        return True

    def care(self) -> Care:
        from zvcore.nrrd.care import NrrdCare

        return NrrdCare(self)
