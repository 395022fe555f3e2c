"""zarr.json beside attributes.json: one folder that is N5 and Zarr v3 at once, without copying a block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import zvcore.codecs
from zvcore.documents import parse_any
from zvcore.errors import ConflictError, MetadataError
from zvcore.n5.documents import encoded, read_document
from zvcore.n5.group import N5Group
from zvcore.n5.metadata import RESERVED, DatasetMetadata, is_dataset
from zvcore.stores import open_store

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from zvcore.stores import Store

__all__ = ["add_zarr_metadata", "array_document", "group_document"]

ZARR = "zarr.json"


def add_zarr_metadata(path: str | os.PathLike[str] | Store, overwrite: bool = False) -> list[str]:
    """Write a zarr.json beside each attributes.json of a container, group or dataset: the keys that were written.

    Arrays keep N5's order of axes. Their codec is `n5_default`, which zvcore registers for zarr-python; datasets of
    strings and objects have no counterpart and are left out. A zarr.json that is there already is replaced only if
    `overwrite`, or if it says the same.
    """
    store = open_store(path, "r+")
    written: list[str] = []
    document = read_document(store)
    if is_dataset(document):
        _add(store, "", document or {}, overwrite, written)
        return written
    group = N5Group(store, document)
    _add(store, "", document or {}, overwrite, written)
    for name, member in group.walk():
        _add(store, name, member.get_attribute("/"), overwrite, written)
    return written


def _add(store: Store, prefix: str, document: Mapping[str, Any], overwrite: bool, written: list[str]) -> None:
    key = f"{prefix}/{ZARR}" if prefix else ZARR
    if is_dataset(document):
        metadata = DatasetMetadata.parse(document, f"{store.root}/{prefix}")
        if not metadata.numeric:
            return
        new = array_document(metadata, document)
    else:
        new = group_document(document)
    data = encoded(new)
    present = store.get(key)
    if present is not None:
        if not overwrite and _parsed(bytes(present)) != new:
            raise ConflictError("another zarr.json is here already; overwrite=True replaces it", key=key)
        if bytes(present) == data:
            return
    store.put(key, data)
    written.append(key)


def _parsed(data: bytes) -> Any:
    try:
        return parse_any(data, ZARR)
    except MetadataError:
        return None


def user_attributes(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in RESERVED}


def group_document(document: Mapping[str, Any]) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": user_attributes(document)}


def dimension_names(document: Mapping[str, Any], ndim: int) -> list[str] | None:
    """The attribute `axes`, where it names them all and differently."""
    axes = document.get("axes")
    if not isinstance(axes, list) or not all(isinstance(name, str) for name in axes):
        return None
    return list(axes) if len(axes) == len(set(axes)) == ndim else None


def array_document(metadata: DatasetMetadata, document: Mapping[str, Any]) -> dict[str, Any]:
    """The zarr.json of a dataset, in N5's order of axes."""
    ndim = len(metadata.dimensions)
    codec = zvcore.codecs.from_n5(metadata.compression, where=metadata.where).for_dtype(metadata.dtype)
    endian = {"configuration": {"endian": "big"}} if metadata.dtype.itemsize > 1 else {}
    inner: list[dict[str, Any]] = [
        {"name": "transpose", "configuration": {"order": list(range(ndim))[::-1]}},
        {"name": "bytes", **endian},
        *([] if codec.identity else [codec.to_zarr3()]),
    ]
    keys = {"name": "v2", "configuration": {"separator": "/"}}
    codecs = [{"name": "n5_default", "configuration": {"codecs": inner}}]
    shape, chunks = metadata.dimensions, metadata.block_size
    names = dimension_names(document, ndim)
    return zarr_array(shape, chunks, metadata.data_type, keys, codecs, names, user_attributes(document))


def zarr_array(
    shape: Sequence[int],
    chunks: Sequence[int],
    data_type: str,
    keys: Mapping[str, Any],
    codecs: Sequence[Mapping[str, Any]],
    names: Sequence[str] | None,
    attributes: Mapping[str, Any],
) -> dict[str, Any]:
    """The zarr.json of an array, all of it in one order of axes."""
    made: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": keys,
        "fill_value": 0.0 if data_type.startswith("float") else 0,
        "codecs": list(codecs),
        "attributes": attributes,
    }
    if names is not None:
        made["dimension_names"] = list(names)
    return made
