"""HDF5 as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.format import ReadOnlyFormat

if TYPE_CHECKING:
    from zvcore.exchange import Exchange
    from zvcore.stores import Store

__all__ = ["Hdf5"]

_SIGNATURE = b"\x89HDF\r\n\x1a\n"


class Hdf5(ReadOnlyFormat):
    name = "hdf5"
    title = "HDF5"
    suffixes = (".h5", ".hdf5", ".hdf", ".ims", ".nwb", ".nc", ".nc4")
    # A block of the user's own may lie in front.
    signatures = tuple((at, _SIGNATURE) for at in (0, 512, 1024, 2048, 4096, 8192))
    inner_paths = True

    def exchange(self) -> Exchange:
        from zvcore.hdf5.exchange import Hdf5Exchange

        return Hdf5Exchange(self)

    def read(self, store: Store) -> Any:
        from zvcore.hdf5.reading import read

        return read(store)
