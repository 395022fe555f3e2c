"""Zarr v3: arrays and groups, in shards or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.lazy import lazy_names

if TYPE_CHECKING:
    from zvcore.stores import Store
    from zvcore.zarr3.array import Zarr3Array as Zarr3Array
    from zvcore.zarr3.async_store import AsyncStore as AsyncStore
    from zvcore.zarr3.care import compact as compact
    from zvcore.zarr3.care import inspect as inspect
    from zvcore.zarr3.care import repair as repair
    from zvcore.zarr3.care import verify as verify
    from zvcore.zarr3.direct import accelerate as accelerate
    from zvcore.zarr3.group import Zarr3Group as Zarr3Group
    from zvcore.zarr3.group import create_group as create_group
    from zvcore.zarr3.metadata import ArrayMetadata as ArrayMetadata
    from zvcore.zarr3.pipeline import CodecPipeline as CodecPipeline
    from zvcore.zarr3.pipeline import explain as explain

__all__ = [
    "Zarr3Array",
    "Zarr3Group",
    "compact",
    "create",
    "create_group",
    "detect",
    "inspect",
    "open",
    "repair",
    "verify",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "array": "Zarr3Array",
        "care": "compact inspect repair verify",
        "group": "Zarr3Group create_group",
        # These need zarr-python, which nothing else here does.
        "metadata": "ArrayMetadata",
        "pipeline": "CodecPipeline explain",
        "async_store": "AsyncStore",
        "direct": "accelerate",
    },
)


def create(store: Store, **options: Any) -> Zarr3Array:
    """`create_array`, under the name that every format has."""
    from zvcore.zarr3.creating import create_array

    return create_array(store, **options)


def detect(store: Store) -> bool:
    """Whether a Zarr v3 array or group lies at the root of the store."""
    return store.exists("zarr.json")


def open(store: Store, mode: str = "r", **options: Any) -> Zarr3Array | Zarr3Group:
    """The array or group at the root of the store.

    Options for arrays: `write_empty_chunks`, and for those with shards `write_mode` and `order_in_shard`.
    """
    from zvcore.zarr3.array import array_of
    from zvcore.zarr3.group import Zarr3Group, create_group
    from zvcore.zarr3.metadata import ArrayMetadata, read_version
    from zvcore.zarr3.sharding import check_write_options, refuse_write_mode

    check_write_options(**options)
    if mode == "w":
        return create_group(store, overwrite=True, **options)
    read_only = mode == "r"
    metadata, stamp = read_version(store)
    if isinstance(metadata, ArrayMetadata):
        array = array_of(store, metadata, read_only=read_only, stamp=stamp, **options)
        if not read_only:
            refuse_write_mode(array.layout)
        return array
    return Zarr3Group(store, metadata, read_only=read_only, stamp=stamp, **options)
