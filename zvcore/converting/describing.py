"""The attributes that describe arrays and pyramids in each format: what is carried over, and what is written anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.images.axes import known, short_unit, size_of
from zvcore.images.cosem import transform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.images import Axes

__all__ = ["array_attributes", "carried"]

# What the conventions of N5 and Zarr put among the user's attributes to say where voxels lie. It is written anew.
_GEOMETRY = {
    "zarr3": {"transform", "ome", "multiscales", "_ARRAY_DIMENSIONS"},
    "n5": {
        "axes", "units", "resolution", "offset", "transform", "pixelResolution", "downsamplingFactors", "scales",
        "multiscales", "coordinateArrays", "multiScale",
    },
}  # fmt: skip
# What N5 keeps for itself.
_RESERVED = {"dimensions", "blockSize", "dataType", "compression", "compressionType", "codecs", "n5"}


def carried(attrs: Mapping[str, Any], source: str, target: str, same_place: bool) -> tuple[dict[str, Any], list[str]]:
    """(the user's attributes that go along, the names of those that cannot).

    `same_place`: nothing changes about the voxels' places, so that within one format all attributes hold as they are.
    """
    if source == "precomputed" or target == "precomputed":
        return {}, []
    kept = dict(attrs.items())
    if source != target or not same_place:
        kept = {name: value for name, value in kept.items() if name not in _GEOMETRY[source]}
    ome = attrs.get("ome")
    if source == target == "zarr3" and isinstance(ome, dict) and not same_place:
        # How an image is to be shown, and what its labels mean, stays true.
        rest = {name: value for name, value in ome.items() if name not in ("multiscales", "version")}
        kept.update({"ome": rest} if rest else {})
    lost = sorted(_RESERVED & kept.keys()) if target == "n5" else []
    return {name: value for name, value in kept.items() if name not in lost}, lost


def array_attributes(axes: Axes, format: str) -> dict[str, Any]:
    """What says the place of an array on its own, for Zarr and N5. Nothing where nothing is known."""
    if not known(axes):
        return {}
    if format == "n5":
        fast = tuple(axes)
        said: dict[str, Any] = {"resolution": [size_of(axis) for axis in fast]}
        said["units"] = ["" if axis.unit is None else short_unit(axis.unit) for axis in fast]
        if all(axis.name for axis in fast):
            said["axes"] = [axis.name for axis in fast]
        if any(axis.offset for axis in fast):
            said["transform"] = transform(fast[::-1], short=True)
        return said
    return {"transform": transform(axes, short=False)}
