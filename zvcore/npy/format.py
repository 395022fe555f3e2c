"""NumPy's files as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.borrowed.format import ReadOnlyFormat

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["Npy"]


class Npy(ReadOnlyFormat):
    name = "npy"
    title = "NumPy's .npy and .npz"
    suffixes = (".npy", ".npz")
    signatures = ((0, b"\x93NUMPY"), (0, b"PK\x03\x04"), (0, b"PK\x05\x06"))
    inner_paths = True

    def read(self, store: Store) -> Any:
        from zvcore.npy.reading import read

        return read(store)
