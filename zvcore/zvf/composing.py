"""The metadata documents of a store, as the reference writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zvcore import codecs
from zvcore.documents import as_json
from zvcore.zarr3.composing import array_document, group_document, sharded_codecs
from zvcore.zarr3.shard_index import ShardIndexForm
from zvcore.zvf.axes import axes_document

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "compressor_codecs",
    "extend_bounds",
    "level_attributes",
    "numbers_document",
    "root_document",
    "rows_document",
]

FORMAT_VERSION = "0.9.2"
ZSTD: dict[str, Any] = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
BLOSC: dict[str, Any] = {
    "name": "blosc",
    "configuration": {"typesize": 4, "cname": "zstd", "clevel": 5, "shuffle": "bitshuffle", "blocksize": 0},
}


def compressor_codecs(compressor: Any) -> list[dict[str, Any]]:
    """The codecs after `vlen-bytes` for what users write: None, a name, a description, a codec, or a list of these."""
    if compressor is None:
        return []
    if isinstance(compressor, (list, tuple)):
        return [codec for item in compressor for codec in compressor_codecs(item)]
    if compressor in ("zstd", "blosc"):
        return [ZSTD if compressor == "zstd" else BLOSC]
    if isinstance(compressor, Mapping) and "configuration" in compressor:
        return [codecs.from_zarr3(dict(compressor)).to_zarr3()]
    return [codecs.as_codec(compressor).to_zarr3()]


def rows_document(
    shape: Sequence[int],
    chunk: Sequence[int],
    compressor: Sequence[Mapping[str, Any]],
    attributes: Mapping[str, Any],
    shard: Sequence[int] | None = None,
) -> dict[str, Any]:
    """An array of byte strings; `shard` is the shape of what an object holds, `chunk` that of what is encoded alone."""
    codecs_: list[Any] = [{"name": "vlen-bytes", "configuration": {}}, *compressor]
    if shard is not None:
        codecs_ = sharded_codecs(chunk, codecs_, ShardIndexForm(tuple(shard)).to_json())
    found = array_document(
        shape, "variable_length_bytes", shard or chunk, codecs_, fill_value="", attributes=attributes
    )
    return {**found, "storage_transformers": []}


def numbers_document(
    values: npt.NDArray[Any], chunk: Sequence[int], fill_value: Any, attributes: Mapping[str, Any],
    compressor: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    """An array for these numbers."""
    codecs_ = [{"name": "bytes", "configuration": {"endian": "little"}}, *compressor]
    found = array_document(
        values.shape, values.dtype.name, chunk, codecs_, fill_value=fill_value, attributes=attributes
    )
    return {**found, "storage_transformers": []}


def root_document(
    name: str,
    chunk_shape: Sequence[float],
    bounds: tuple[Sequence[float], Sequence[float]],
    geometry: str,
    bin_shape: Sequence[float] | None,
    axes: Sequence[Mapping[str, str]] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """`axes` as callers give them; `attrs`: further attributes."""
    ndim = len(chunk_shape)
    declared = axes_document(axes, ndim)
    metadata: dict[str, Any] = {
        "zv_version": FORMAT_VERSION,
        "format_capabilities": [],
        "chunk_shape": as_json(list(chunk_shape), "chunk_shape"),
        "bounds": as_json([list(bounds[0]), list(bounds[1])], "bounds"),
        "geometry_types": [geometry],
    }
    if bin_shape is not None:
        metadata["base_bin_shape"] = [float(side) for side in bin_shape]
    metadata |= {
        "links_convention": "implicit_sequential",
        "object_index_convention": "standard",
        "cross_chunk_strategy": "explicit_links",
    }
    half = [float(side) / 2 for side in (bin_shape or chunk_shape)]
    attributes = {
        **as_json(dict(attrs or {}), "attributes"),
        "zarr_vectors": metadata,
        "multiscales": [
            {
                "version": "0.4",
                "name": "default",
                "axes": declared,
                "datasets": [dataset(0, [1.0] * ndim, half)],
                "metadata": {"format": "zarr_vectors"},
            }
        ],
        "ome": {
            "version": "0.6",
            "type": "collection",
            "name": name,
            "attributes": {
                "scene": {"coordinateSystems": [{"name": "world", "axes": declared}], "coordinateTransformations": []}
            },
            "nodes": [{"type": "zv:level", "name": "0"}],
        },
    }
    return group_document(attributes)


def dataset(level: int, scale: Sequence[float], translation: Sequence[float]) -> dict[str, Any]:
    return {
        "path": str(level),
        "coordinateTransformations": [
            {"type": "scale", "scale": list(scale)},
            {"type": "translation", "translation": list(translation)},
        ],
    }


def level_attributes(
    level: int, vertex_count: int, arrays: Sequence[str], fragments_tile: bool, **more: Any
) -> dict[str, Any]:
    return {
        "zarr_vectors_level": {
            "level": level,
            "object_sparsity": 1.0,
            "vertex_count": vertex_count,
            "coarsening_method": "none",
            "parent_level": None,
            "arrays_present": list(arrays),
            "fragments_tile": fragments_tile,
            **more,
        }
    }


def extend_bounds(document: Mapping[str, Any], low: Sequence[float], high: Sequence[float]) -> dict[str, Any]:
    """A root document whose bounds also hold what lies between these corners."""
    attributes = dict(document["attributes"])
    metadata = dict(attributes["zarr_vectors"])
    old = metadata.get("bounds") or [low, high]
    metadata["bounds"] = [
        [min(a, b) for a, b in zip(old[0], low, strict=True)],
        [max(a, b) for a, b in zip(old[1], high, strict=True)],
    ]
    attributes["zarr_vectors"] = metadata
    return {**document, "attributes": attributes}
