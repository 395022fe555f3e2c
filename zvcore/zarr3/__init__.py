"""Zarr v3: arrays and groups, in shards or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.zarr3.array import Zarr3Array
from zvcore.zarr3.creating import create_array
from zvcore.zarr3.group import Zarr3Group, create_group
from zvcore.zarr3.inspection import inspect
from zvcore.zarr3.metadata import DOCUMENT, ArrayMetadata, read_metadata
from zvcore.zarr3.repair import compact, repair
from zvcore.zarr3.verification import verify

if TYPE_CHECKING:
    from zvcore.stores import Store
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

create = create_array


def detect(store: Store) -> bool:
    """Whether a Zarr array or group lies at the root of the store (v2 too: opening it says what is the matter)."""
    return any(store.exists(name) for name in (DOCUMENT, ".zarray", ".zgroup"))


def open(store: Store, mode: str = "r", **options: Any) -> Zarr3Array | Zarr3Group:
    """The array or group at the root of the store.

    Options for arrays: `write_empty_chunks`, and for those with shards `write_mode` and `order_in_shard`.
    """
    read_only = mode == "r"
    if mode == "w":
        return create_group(store, overwrite=True)
    metadata = read_metadata(store)
    if isinstance(metadata, ArrayMetadata):
        return Zarr3Array(store, metadata, read_only=read_only, **options)
    return Zarr3Group(store, metadata, read_only=read_only, **options)


def __getattr__(name: str) -> Any:
    # These need zarr-python, which nothing else here does.
    if name in ("CodecPipeline", "explain"):
        from zvcore.zarr3 import pipeline

        return getattr(pipeline, name)
    raise AttributeError(f"module 'zvcore.zarr3' has no attribute {name!r}")
