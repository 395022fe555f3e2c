"""TIFF as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.format import ReadOnlyFormat

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["Tiff"]


class Tiff(ReadOnlyFormat):
    name = "tiff"
    title = "TIFF"
    suffixes = (".tif", ".tiff", ".btf", ".lsm", ".svs", ".ndpi")
    signatures = ((0, b"II*\0"), (0, b"MM\0*"), (0, b"II+\0"), (0, b"MM\0+"))
    inner_paths = True

    def read(self, store: Store) -> Any:
        from zvcore.tiff.reading import read

        return read(store)
