"""The documents of arrays and groups, put together. What they mean is `metadata`'s business."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.documents.members import Place
from zvcore.zarr3.chain import SHARDING
from zvcore.zarr3.metadata import ARRAY, GRID, KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["array_document", "group_document", "inner_codecs", "regular_grid", "sharded_codecs"]


def group_document(attributes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes or {})}


def array_document(
    shape: Sequence[int],
    data_type: Any,
    chunks: Sequence[Any],
    codecs: Sequence[Any],
    *,
    fill_value: Any,
    attributes: Mapping[str, Any] | None = None,
    chunk_key_encoding: str | Mapping[str, Any] = "default",
    dimension_names: Sequence[str | None] | None = None,
) -> dict[str, Any]:
    """The document of an array. `chunks` is the shape of what an object holds; all values as metadata spell them."""
    values = {
        "shape": shape,
        "data_type": data_type,
        "chunk_grid": _grid(chunks),
        "chunk_key_encoding": KEYS.load(chunk_key_encoding, Place(None, "chunk_key_encoding")),
        "fill_value": fill_value,
        "codecs": codecs,
        "attributes": dict(attributes or {}),
        "dimension_names": dimension_names,
        "storage_transformers": None,
    }
    return {"zarr_format": 3, "node_type": "array", **ARRAY.dump(values)}


def _grid(chunks: Sequence[Any]) -> tuple[str, dict[str, Any]]:
    """A regular grid, or a rectilinear one where chunks along an axis are a list."""
    if all(isinstance(one, int) for one in chunks):
        return "regular", {"chunk_shape": chunks}
    return "rectilinear", {"kind": "inline", "chunk_shapes": chunks}


def regular_grid(chunks: Sequence[int]) -> dict[str, Any]:
    return GRID.dump(("regular", {"chunk_shape": chunks}))


def sharded_codecs(chunks: Sequence[int], codecs: Sequence[Any], index: Mapping[str, Any]) -> list[Any]:
    """The codecs of an array whose shards hold chunks of this shape; `index` as `ShardIndexForm.to_json` gives it."""
    configuration = SHARDING.dump({"chunk_shape": chunks, "codecs": codecs, **index})
    return [{"name": "sharding_indexed", "configuration": configuration}]


def inner_codecs(codecs: Sequence[Any]) -> list[Any]:
    """The codecs of what is encoded by itself, out of those of an array that `metadata` has accepted."""
    for codec in codecs:
        if isinstance(codec, dict) and codec["name"] == "sharding_indexed":
            return inner_codecs(codec["configuration"]["codecs"])
    return list(codecs)
