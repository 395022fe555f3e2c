"""What a group says of its members against what they say themselves: by meaning, however it is spelled.

Programs that consolidate metadata write documents of their own: with defaults that the members leave out, for one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore.codecs
from zvcore.errors import ZvcoreError
from zvcore.zarr3.metadata import ArrayMetadata, parse_document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.zarr3.chain import Pipeline
    from zvcore.zarr3.shard_index import ShardIndexForm

__all__ = ["differences"]

# What may be missing when it says nothing.
_EMPTY: dict[str, Any] = {"attributes": {}, "storage_transformers": []}


def differences(own: Mapping[str, Any], told: Mapping[str, Any]) -> list[str]:
    """The members of two documents of a node that do not mean the same. Lists of members within do not count."""
    names = sorted({*own, *told} - {"consolidated_metadata"})
    different = [name for name in names if not _same(_said(own, name), _said(told, name))]
    if not different or own.get("node_type") != "array":
        return different
    try:
        meanings = [_meaning(document) for document in (own, told)]
    except ZvcoreError:
        return different  # what is not understood is compared as it is written
    return [name for name in different if name not in meanings[0] or meanings[0][name] != meanings[1].get(name)]


def _said(document: Mapping[str, Any], name: str) -> Any:
    value = document.get(name)
    return None if name in _EMPTY and value == _EMPTY[name] else value


def _same(one: Any, other: Any) -> bool:
    try:
        # NaN equals no other NaN, but is written as it.
        return bool(one == other) or json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    except RecursionError:
        return False


def _meaning(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the members of an array's document mean that can be written in several ways."""
    metadata = parse_document(dict(document), "zarr.json")
    if not isinstance(metadata, ArrayMetadata):
        return {}
    kind, dtype = metadata.data_type.kind, metadata.data_type.dtype
    fill = metadata.fill_value
    names = metadata.dimension_names or ()
    return {
        "shape": metadata.shape,
        "data_type": (kind, dtype),
        "chunk_grid": metadata.chunk_shape if metadata.edges is None else [one.dump() for one in metadata.edges],
        "chunk_key_encoding": (metadata.key_prefix, metadata.separator),
        "fill_value": np.asarray(fill, dtype).tobytes() if kind == "fixed" else fill,
        "dimension_names": None if all(name is None for name in names) else names,
        "codecs": _codecs(metadata.pipeline),
    }


def _codecs(pipeline: Pipeline) -> Any:
    sharding = pipeline.sharding
    return (
        pipeline.axes,
        _made(pipeline, pipeline.filters),
        pipeline.endian,
        _made(pipeline, () if pipeline.serializer is None else (pipeline.serializer,)),
        None if sharding is None else (sharding.chunk_shape, _index(sharding.index), _codecs(sharding.inner)),
        _made(pipeline, pipeline.compressors),
    )


def _made(pipeline: Pipeline, codecs: tuple[Any, ...]) -> list[Any]:
    return [zvcore.codecs.from_zarr3(one, pipeline.where).for_dtype(pipeline.data_type.dtype) for one in codecs]


def _index(form: ShardIndexForm) -> Any:
    if form.codecs is not None:
        return form.location, _codecs(form.codecs.pipeline)
    return form.location, form.endian, form.checksums
