"""HDF5 as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.format import ReadOnlyFormat
from zvcore.errors import UnsupportedError

if TYPE_CHECKING:
    from zvcore.errors import ZvcoreError
    from zvcore.exchange import Exchange
    from zvcore.stores import Store

__all__ = ["Hdf5"]

_CLASSIC_NETCDF = b"CDF"
_SIGNATURE = b"\x89HDF\r\n\x1a\n"


class Hdf5(ReadOnlyFormat):
    name = "hdf5"
    title = "HDF5"
    suffixes = (".h5", ".hdf5", ".hdf", ".ims", ".nwb", ".nc", ".nc4")
    # A block of the user's own may lie in front.
    signatures = tuple((at, _SIGNATURE) for at in (0, 512, 1024, 2048, 4096, 8192))
    inner_paths = True

    def unreadable(self, store: Store) -> ZvcoreError | None:
        wrong = super().unreadable(store)
        if wrong is not None and self._head(store).startswith(_CLASSIC_NETCDF):
            what = "this is a netCDF file of the classic format, which is not HDF5: nccopy -k netCDF-4 makes such of it"
            return UnsupportedError(what, key=store.file)
        return wrong

    def exchange(self) -> Exchange:
        from zvcore.hdf5.exchange import Hdf5Exchange

        return Hdf5Exchange(self)

    def read(self, store: Store) -> Any:
        from zvcore.hdf5.reading import read

        return read(store)
