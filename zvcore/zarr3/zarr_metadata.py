"""The metadata of zarr-python's arrays as ours."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zarr.core.metadata.v3 import ArrayV3Metadata

import zvcore.codecs
from zvcore.codecs.zarr_python import ZarrPythonCodec
from zvcore.errors import ZvcoreError
from zvcore.zarr3.dtypes import data_type_of
from zvcore.zarr3.metadata import ArrayMetadata
from zvcore.zarr3.version_2 import as_version_3

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zvcore.codecs import Codec
    from zvcore.zarr3.chain import Pipeline

__all__ = ["as_metadata"]

_BUILT_IN = frozenset(
    (
        "blosc", "bytes", "cast_value", "crc32c", "gzip", "scale_offset", "sharding_indexed", "transpose", "vlen-bytes",
        "vlen-utf8", "zstd",
    )
)  # fmt: skip


def as_metadata(metadata: Any) -> ArrayMetadata | str:
    """Our view of zarr-python's metadata, or why there is none."""
    if not isinstance(metadata, ArrayV3Metadata):
        return _of_version_2(metadata)
    replaced = _replaced(metadata.codecs)
    if replaced is not None:
        return f"the codec {replaced} took the place of zarr-python's own: what it does is not known here"
    try:
        document = json.loads(json.dumps(metadata.to_dict(), default=_plain))
        document["attributes"] = {}
        document["fill_value"] = _written_fill(metadata, document.get("fill_value"))
        parsed = ArrayMetadata.parse(document, "zarr.json")
        if parsed.edges is not None:
            return "a rectilinear grid"
        pipeline = parsed.pipeline
        codecs = _made(pipeline)
        while pipeline.sharding is not None:
            pipeline = pipeline.sharding.inner
            codecs += _made(pipeline)
        for codec in codecs:
            if isinstance(codec, ZarrPythonCodec):
                return f"the codec {codec.name} is known to zarr-python alone, which runs it best by itself"
    except (ZvcoreError, TypeError, ValueError) as error:
        return str(error)
    ours, theirs = parsed.data_type.dtype, metadata.data_type.to_native_dtype()
    if ours != theirs and (parsed.data_type.kind != "fixed" or ours != theirs.newbyteorder("=")):
        return f"data type {metadata.data_type}: zarr-python holds it as {theirs}, zvcore as {ours}"
    return parsed


def _made(pipeline: Pipeline) -> list[Codec]:
    """The codecs of one level, but for those that the engine itself stands for."""
    said = (*pipeline.filters, pipeline.serializer)
    others = [one for one in said if one is not None and one["name"] != "transpose"]
    return [*(zvcore.codecs.from_zarr3(one, pipeline.where) for one in others), *pipeline.chain.codecs]


def _of_version_2(metadata: Any) -> ArrayMetadata | str:
    try:
        document, unnamed = as_version_3(metadata)
        parsed = replace(ArrayMetadata.parse(document, ".zarray"), unnamed=unnamed)
        _ = parsed.pipeline.chain
    except (ZvcoreError, TypeError, ValueError) as error:
        return str(error)
    return parsed


def _written_fill(metadata: ArrayV3Metadata, written: Any) -> Any:
    """The fill value with the bits of a NaN, which zarr-python keeps but does not write out."""
    dtype = metadata.data_type.to_native_dtype()
    return data_type_of(dtype).write_fill(metadata.fill_value) if dtype.kind in "fc" else written


def _replaced(codecs: Iterable[Any]) -> str | None:
    """A codec with one of zarr-python's names that somebody else wrote and registered in its place."""
    for codec in codecs:
        written = codec.to_dict()
        name = written.get("name") if isinstance(written, dict) else None
        if name in _BUILT_IN and not type(codec).__module__.startswith("zarr."):
            return f"{type(codec).__module__}.{type(codec).__qualname__}"
        inner = _replaced([*getattr(codec, "codecs", ()), *getattr(codec, "index_codecs", ())])
        if inner is not None:
            return inner
    return None


def _plain(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "value"):
        return value.value
    raise TypeError(f"{value!r} has no JSON form")
