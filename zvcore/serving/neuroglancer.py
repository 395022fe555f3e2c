"""What Neuroglancer can open by itself, and links that open it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from zvcore.images.axes import long_unit, nanometers

if TYPE_CHECKING:
    from zvcore.array import Array
    from zvcore.serving.catalog import Dataset

__all__ = ["DEMO", "direct_source", "link", "state", "zarr_axes"]

DEMO = "https://neuroglancer-demo.appspot.com/"

_TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "float32")
_N5_CODECS = ("raw", "gzip", "blosc", "zstd")
_ZARR_CODECS = ("bytes", "transpose", "gzip", "zstd", "blosc", "crc32c")
_SECONDS = {"second": 1.0, "millisecond": 1e-3, "microsecond": 1e-6}
_ENCODINGS = ("raw", "jpeg", "png", "compressed_segmentation", "compresso", "jxl")


def direct_source(dataset: Dataset, base: str) -> tuple[str | None, str]:
    """(what to type into Neuroglancer, "") for what it reads by itself, else (None, why it does not)."""
    where = f"{base}/" + "".join(f"{quote(name)}/" for name in dataset.names)
    if dataset.format == "zvf":
        return None, "Neuroglancer has no reader for Zarr Vectors"
    if dataset.format == "zarr2":
        return f"zarr2://{where}", ""
    if dataset.pyramid is None:
        known = dataset.format == "precomputed" and dataset.kind != "broken"
        return (f"precomputed://{where}", "") if known else (None, "broken")
    for array in dataset.pyramid.arrays:
        reason = _why_not(array)
        if reason:
            return None, reason
    return f"{dataset.format}://{where}", ""


def _why_not(array: Array) -> str:
    if array.dtype.name not in _TYPES:
        return f"Neuroglancer shows no {array.dtype.name}"
    if array.format == "n5":
        metadata: Any = getattr(array, "metadata", None)
        codec = array.codec
        name = getattr(codec, "name", "raw")
        if name not in _N5_CODECS:
            return f"Neuroglancer does not read {name} in N5"
        if name == "gzip" and _uses_zlib(metadata):
            return "Neuroglancer does not read zlib streams in N5"
    elif array.format == "zarr3":
        return _zarr_reason(getattr(getattr(array, "metadata", None), "codecs", ()))
    else:
        encoding = str(getattr(getattr(array, "encoding", None), "name", "raw"))
        if encoding not in _ENCODINGS:
            return f"Neuroglancer does not read {encoding}"
    return ""


def _uses_zlib(metadata: Any) -> bool:
    compression = getattr(metadata, "compression", None)
    return isinstance(compression, dict) and bool(compression.get("useZlib"))


def _zarr_reason(codecs: Any) -> str:
    for codec in codecs:
        name = codec.get("name") if isinstance(codec, dict) else codec
        if name == "sharding_indexed":
            reason = _zarr_reason(codec.get("configuration", {}).get("codecs", ()))
            if reason:
                return reason
        elif name not in _ZARR_CODECS:
            return f"Neuroglancer does not read the codec {name}"
    return ""


def zarr_axes(dataset: Dataset) -> dict[str, tuple[float, str]] | None:
    """{name: (size, unit)} of the axes of a Zarr array or pyramid with x, y, z first, where it names its axes so.

    Neuroglancer puts the first axis of Zarr, usually z, where others have x, unless it is told. The sizes have to be
    those that it finds by itself: it does not know the attributes of single arrays.
    """
    pyramid = dataset.pyramid
    if dataset.format != "zarr3" or pyramid is None:
        return None
    sizes = {}
    for axis in pyramid.axes:
        if not axis.name:
            return None
        scale, unit = (1.0, None) if pyramid.convention is None else (axis.scale or 1.0, long_unit(axis.unit))
        if unit is None:
            sizes[axis.name] = (scale, "")
        elif unit in _SECONDS:
            sizes[axis.name] = (scale * _SECONDS[unit], "s")
        else:
            sizes[axis.name] = (scale * nanometers(unit) * 1e-9, "m")
    shown = [name for name in "xyz" if name in sizes]
    if len(shown) < 2:
        return None
    return {name: sizes[name] for name in [*shown, *sizes]}


def state(
    name: str,
    source: str,
    kind: str,
    limits: tuple[float, float] | None = None,
    segments: list[str] | None = None,
    axes: dict[str, tuple[float, str]] | None = None,
    place: tuple[list[float], float] | None = None,
) -> dict[str, Any]:
    """A viewer's state with one layer.

    kind   "image", "segmentation" or "annotation"
    axes   their sizes and units, in their order on the screen
    place  (middle, extent) in nanometers of lines or points, of which Neuroglancer does not know where they are
    """
    layer: dict[str, Any] = {"type": kind, "source": source, "name": name or "data", "tab": "source"}
    if limits is not None and kind == "image":
        layer["shaderControls"] = {"normalized": {"range": list(limits)}}
    if segments:
        layer["segments"] = segments
    found: dict[str, Any] = {"layers": [layer], "layout": "4panel"}
    if axes:
        # Neuroglancer heeds the second only where the first says which axes there are.
        found["dimensions"] = {name: list(size) for name, size in axes.items()}
        found["displayDimensions"] = list(axes)[:3]
    if place is not None:
        found["dimensions"] = {name: [1e-9, "m"] for name in "xyz"}
        found |= {"position": place[0], "projectionScale": 1.3 * place[1], "layout": "3d"}
    return found


def link(viewer: str, viewer_state: dict[str, Any]) -> str:
    """A URL that opens this state."""
    text = json.dumps(viewer_state, separators=(",", ":"), allow_nan=False)
    return f"{viewer.split('#', 1)[0]}#!{quote(text, safe='')}"
