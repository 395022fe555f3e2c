"""Making new containers, groups and datasets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import zvcore.codecs
from zvcore.boxes import default_chunks, lengths_of
from zvcore.choices import AUTO, chosen
from zvcore.errors import ConflictError, MetadataError, UnsupportedError
from zvcore.n5.array import N5Array
from zvcore.n5.attributes import Attributes, GroupAttributes, refuse_dataset
from zvcore.n5.documents import change_document, read_document
from zvcore.n5.metadata import NUMERIC, RESERVED, VERSION, DatasetMetadata, check_version, is_dataset, version_text
from zvcore.stores import LocalStore, Store, files

__all__ = ["create_dataset", "create_group", "in_container"]

# How far up a container's root is looked for.
_DEPTH = 32


def create_dataset(
    store: Store,
    *,
    shape: Sequence[int] | int,
    dtype: Any,
    chunks: Sequence[int] | int | None = None,
    codec: Any = AUTO,
    fill_value: Any = AUTO,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    n5_version: str | None = None,
    member: bool = False,
    order: str = "F",
    pad_edges: bool = False,
    strict: bool = True,
    write_empty_blocks: bool = False,
) -> N5Array:
    """Make a dataset at the root of the store. `shape` and `chunks` are in N5's order of axes, reversed with order="C".

    codec       a name, a configuration, a Codec, or N5's own `{"type": ...}`; None for raw
    dtype       one of the ten numeric types, "string" or "object"
    n5_version  the version to write ("4.0.0" unless given) where the dataset begins a container of its own
    member      it is made in a group, and begins none
    """
    shape = lengths_of(shape, "shape")
    data_type = data_type_of(dtype)
    items = NUMERIC.get(data_type, np.dtype(np.uint8))
    fill_value = chosen(fill_value, 0)
    if not isinstance(fill_value, int | float | np.number) or fill_value != 0:
        raise MetadataError("N5 has no fill value: what is not stored is 0", found=repr(fill_value))
    if chunks is None:
        chunks = default_chunks(shape, items.itemsize)
    chunks = lengths_of(chunks, "chunks")
    turn = -1 if order == "C" else 1
    metadata = DatasetMetadata.parse(
        {
            "dataType": data_type,
            "compression": compression_of(chosen(codec, "zstd"), items),
            "blockSize": list(chunks)[::turn],
            "dimensions": list(shape)[::turn],
        },
        f"{store.root}/attributes.json",
    )
    user = Attributes.checked(attrs or {})
    version = None if member or in_container(store) else version_text(n5_version or VERSION)
    make_room(store, overwrite)

    def change(document: dict[str, Any]) -> dict[str, Any]:
        if is_dataset(document):
            raise ConflictError("somebody else has made a dataset here", key=store.root)
        kept = {name: value for name, value in document.items() if name == "n5" or name not in RESERVED}
        begun = {} if version is None else {"n5": version}
        return {**begun, **kept, **metadata.to_json(), **user}

    # Built before anything is written: what we write must be what we would accept.
    options: dict[str, Any] = {
        "order": order, "pad_edges": pad_edges, "strict": strict, "write_empty_blocks": write_empty_blocks,
    }  # fmt: skip
    N5Array(store, metadata.to_json(), **options)
    return N5Array(store, change_document(store, change), **options)


def create_group(
    store: Store,
    attrs: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    n5_version: str | None = None,
    member: bool = False,
) -> dict[str, Any]:
    """Make a group at the root of the store: its attributes.json. Outside of a container, it begins one."""
    user = GroupAttributes.checked(attrs or {})
    version = None if member or in_container(store) else version_text(n5_version or VERSION)
    present = read_document(store)
    if overwrite:
        store.delete_prefix("")
    elif is_dataset(present):
        raise ConflictError("a dataset is here already; overwrite=True replaces it", key=store.root)

    def change(document: dict[str, Any]) -> dict[str, Any]:
        # One that opens an older container leaves its version as it is.
        begun = {} if version is None else {"n5": version}
        changed = {**begun, **document, **user}
        # What is here already may be what they lack.
        refuse_dataset(changed)
        return changed

    return change_document(store, change)


def make_room(store: Store, overwrite: bool) -> None:
    """Refuse to write over what is there, or remove it."""
    if overwrite:
        store.delete_prefix("")
        return
    document = read_document(store)
    check_version(document, f"{store.root}/attributes.json")
    if is_dataset(document):
        raise ConflictError("a dataset is here already; overwrite=True replaces it", key=store.root)
    folders, objects = store.list_dir()
    # Names with a dot in front are other programs' notes, and no blocks.
    others = [name for name in (*folders, *objects) if name != "attributes.json" and not name.startswith(".")]
    if others:
        raise ConflictError(
            "other things are here already; overwrite=True removes them", key=store.root, found=others[0]
        )


def in_container(store: Store) -> bool:
    """Whether the store's root is a group below that of an N5 container, as far as the file system tells.

    Folders in a dataset hold its blocks and are none.
    """
    if not isinstance(store, LocalStore):
        return False
    folder = os.path.dirname(store.root)
    for _ in range(_DEPTH):
        above = os.path.dirname(folder)
        if _has_attributes(folder):
            try:
                document = read_document(LocalStore(folder, read_only=True))
            except (MetadataError, OSError):
                return False
            if is_dataset(document):
                return False
            if document is not None and "n5" in document:
                return True
        if above == folder:
            return False
        folder = above
    return False


def _has_attributes(folder: str) -> bool:
    try:
        # One call: all folders of a data set that has many ask this of those above them.
        return files.stamp(os.fsencode(folder) + b"/", "attributes.json") is not None
    except OSError:
        return False


def data_type_of(dtype: Any) -> str:
    if isinstance(dtype, str) and dtype in ("string", "object"):
        return dtype
    given = np.dtype(dtype)
    name = {"U": "string", "T": "string", "O": "object"}.get(given.kind) or given.newbyteorder("=").name
    if name not in NUMERIC and name not in ("string", "object"):
        raise UnsupportedError("N5 has no such data type", expected=f"{', '.join(NUMERIC)}, string, object", found=name)
    return name


def compression_of(codec: Any, dtype: np.dtype[Any]) -> dict[str, Any]:
    """A codec as N5's `compression` names it, with every parameter."""
    if isinstance(codec, (list, tuple)):
        if len(codec) > 1:
            raise UnsupportedError("N5 has one compression for a dataset", found=f"{len(codec)} codecs")
        codec = codec[0] if codec else None
    if codec is None:
        codec = "raw"
    if isinstance(codec, Mapping) and "type" in codec and "name" not in codec:
        made = zvcore.codecs.from_n5(codec)
    else:
        made = zvcore.codecs.as_codec(codec)
    return made.for_dtype(dtype).to_n5()
