"""N5: containers, groups, datasets, in every compression and mode that any tool writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.n5.array import N5Array
from zvcore.n5.blocks import Block
from zvcore.n5.creating import create_dataset, create_group, in_container
from zvcore.n5.documents import ATTRIBUTES, read_document
from zvcore.n5.group import N5Group
from zvcore.n5.metadata import is_dataset
from zvcore.n5.multiscale import Level, Multiscale
from zvcore.n5.verification import compact, inspect, repair, verify

if TYPE_CHECKING:
    from zvcore.n5.zarr_metadata import add_zarr_metadata
    from zvcore.n5.zarr_store import ZarrStore
    from zvcore.stores import Store

__all__ = [
    "Block",
    "Level",
    "Multiscale",
    "N5Array",
    "N5Group",
    "ZarrStore",
    "add_zarr_metadata",
    "compact",
    "create",
    "create_group",
    "detect",
    "inspect",
    "open",
    "repair",
    "verify",
]

create = create_dataset


def detect(store: Store) -> bool:
    """Whether an N5 group or dataset lies at the root of the store.

    A folder without attributes.json is a group only within a container.
    """
    if store.exists(ATTRIBUTES):
        return True
    return in_container(store) and not any(store.exists(name) for name in ("zarr.json", ".zarray", ".zgroup", "info"))


def open(store: Store, mode: str = "r", **options: Any) -> N5Array | N5Group:
    """The dataset or group at the root of the store.

    Options for datasets, and for groups those of the datasets in them: `order="C"` for the reversed view, `pad_edges`,
    `strict`, `write_empty_blocks`. `n5_version` is for new containers (mode "w").
    """
    version = options.pop("n5_version", None)
    if mode == "w":
        return N5Group(store, create_group(store, overwrite=True, n5_version=version), **options)
    read_only = mode == "r"
    document = read_document(store)
    if document is not None and is_dataset(document):
        return N5Array(store, document, read_only=read_only, **options)
    return N5Group(store, document, read_only=read_only, **options)


def __getattr__(name: str) -> Any:
    # They need zarr-python, which nothing else here does.
    if name == "ZarrStore":
        from zvcore.n5.zarr_store import ZarrStore

        return ZarrStore
    if name == "add_zarr_metadata":
        from zvcore.n5.zarr_metadata import add_zarr_metadata

        return add_zarr_metadata
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
