"""Zarr v2: arrays and groups, with everything that numcodecs has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.lazy import lazy_names

if TYPE_CHECKING:
    from zvcore.stores import Store
    from zvcore.zarr2.array import Zarr2Array as Zarr2Array
    from zvcore.zarr2.care import compact as compact
    from zvcore.zarr2.care import inspect as inspect
    from zvcore.zarr2.care import repair as repair
    from zvcore.zarr2.care import verify as verify
    from zvcore.zarr2.group import Zarr2Group as Zarr2Group
    from zvcore.zarr2.group import create_group as create_group
    from zvcore.zarr2.metadata import ArrayMetadata as ArrayMetadata

__all__ = [
    "Zarr2Array",
    "Zarr2Group",
    "compact",
    "create",
    "create_group",
    "inspect",
    "open",
    "repair",
    "verify",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "array": "Zarr2Array",
        "care": "compact inspect repair verify",
        "group": "Zarr2Group create_group",
        "metadata": "ArrayMetadata",
    },
)


def create(store: Store, **options: Any) -> Zarr2Array:
    """`create_array`, under the name that every format has."""
    from zvcore.zarr2.creating import create_array

    return create_array(store, **options)


def open(store: Store, mode: str = "r", **options: Any) -> Zarr2Array | Zarr2Group:
    """The array or group at the root of the store. An option for arrays: `write_empty_chunks`.

    Chunks that lie where no reader looks for them are told by a `MisplacedChunksWarning`.
    """
    from zvcore.zarr2.array import Zarr2Array, warn_if_misplaced
    from zvcore.zarr2.group import Zarr2Group, create_group
    from zvcore.zarr2.metadata import ArrayMetadata, read_version

    if mode == "w":
        return create_group(store, overwrite=True, **options)
    read_only = mode == "r"
    metadata, stamp = read_version(store)
    if isinstance(metadata, ArrayMetadata):
        warn_if_misplaced(store, metadata)
        return Zarr2Array(store, metadata, read_only=read_only, stamp=stamp, **options)
    return Zarr2Group(store, metadata, read_only=read_only, **options)
