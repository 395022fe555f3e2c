"""MRC as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.format import ReadOnlyFormat

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["Mrc"]


class Mrc(ReadOnlyFormat):
    name = "mrc"
    title = "MRC"
    suffixes = (".mrc", ".mrcs", ".rec", ".st", ".ali", ".map", ".ccp4")
    signatures = ((208, b"MAP"),)

    def read(self, store: Store) -> Any:
        from zvcore.mrc.reading import read

        return read(store)
