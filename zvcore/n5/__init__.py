"""N5: containers, groups, datasets, in every compression and mode that any tool writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.lazy import lazy_names

if TYPE_CHECKING:
    from zvcore.n5.array import N5Array as N5Array
    from zvcore.n5.as_zarr import ZarrStore as ZarrStore
    from zvcore.n5.blocks import Block as Block
    from zvcore.n5.care import compact as compact
    from zvcore.n5.care import inspect as inspect
    from zvcore.n5.care import repair as repair
    from zvcore.n5.care import verify as verify
    from zvcore.n5.creating import create_dataset as create_dataset
    from zvcore.n5.creating import create_group as create_group
    from zvcore.n5.group import N5Group as N5Group
    from zvcore.n5.multiscale import Level as Level
    from zvcore.n5.multiscale import Multiscale as Multiscale
    from zvcore.n5.zarr_metadata import add_zarr_metadata as add_zarr_metadata
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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "array": "N5Array",
        "blocks": "Block",
        "care": "compact inspect repair verify",
        "creating": "create_dataset create_group",
        "group": "N5Group",
        "multiscale": "Level Multiscale",
        # These need zarr-python, which nothing else here does.
        "zarr_metadata": "add_zarr_metadata",
        "as_zarr": "ZarrStore",
    },
)


def create(store: Store, **options: Any) -> N5Array:
    """`create_dataset`, under the name that every format has."""
    from zvcore.n5.creating import create_dataset

    return create_dataset(store, **options)


def detect(store: Store) -> bool:
    """Whether an N5 group or dataset lies at the root of the store.

    A folder without attributes.json is a group only within a container.
    """
    from zvcore.n5.creating import in_container
    from zvcore.n5.documents import ATTRIBUTES

    if store.exists(ATTRIBUTES):
        return True
    return in_container(store) and not any(store.exists(name) for name in ("zarr.json", ".zarray", ".zgroup", "info"))


def open(store: Store, mode: str = "r", **options: Any) -> N5Array | N5Group:
    """The dataset or group at the root of the store.

    Options for datasets, and for groups those of the datasets in them: `order="C"` for the reversed view, `pad_edges`,
    `strict`, `write_empty_blocks`. `n5_version` is for new containers (mode "w").
    """
    from zvcore.n5.array import N5Array
    from zvcore.n5.creating import create_group
    from zvcore.n5.documents import read_node
    from zvcore.n5.group import N5Group

    version = options.pop("n5_version", None)
    if mode == "w":
        return N5Group(store, create_group(store, overwrite=True, n5_version=version), **options)
    read_only = mode == "r"
    document, metadata, stamp = read_node(store)
    if document is not None and metadata is not None:
        return N5Array(store, document, read_only=read_only, metadata=metadata, stamp=stamp, **options)
    return N5Group(store, document, read_only=read_only, **options)
