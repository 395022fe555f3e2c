"""Zarr Vectors as a format among others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.format import Format

if TYPE_CHECKING:
    from zvcore.format import Care
    from zvcore.stores import Store

__all__ = ["ZarrVectors"]

# The attribute without which a Zarr group is no Zarr Vectors store.
_ATTRIBUTE = b"zarr_vectors"


class ZarrVectors(Format):
    name = "zvf"
    title = "Zarr Vectors"
    marks = ("zarr.json",)
    # Such a store is a Zarr group too.
    precedence = 20
    makes_arrays = False

    def detect(self, store: Store) -> bool:
        if _ATTRIBUTE not in bytes(store.get("zarr.json") or b""):
            return False
        from zvcore import zvf

        return zvf.detect(store)

    def open(self, store: Store, mode: str = "r", **options: Any) -> Any:
        from zvcore import zvf

        return zvf.open(store, mode, **options)

    def care(self) -> Care:
        from zvcore.zvf import care

        return care
