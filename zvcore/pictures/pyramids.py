"""Finds the arrays of one picture at several sizes, whatever describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore.array import Array
from zvcore.converting.describing import read_ome
from zvcore.converting.geometry import Axis, read_axes
from zvcore.errors import MetadataError, NotFoundError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Pyramid", "pyramid_of"]


@dataclass
class Pyramid:
    """Arrays of the same thing, the finest first.

    paths        of the arrays below the node
    axes         of the finest array, as far as anything says what they are
    labels       whether values are names of things; None: nobody says
    convention   what describes the levels, for people
    """

    arrays: list[Array]
    paths: list[str]
    axes: tuple[Axis, ...]
    labels: bool | None = None
    convention: str | None = None

    def at_least(self, size: int) -> Array:
        """The smallest of the arrays whose two longest sides still have so many voxels, or the finest."""
        fitting = [array for array in self.arrays if all(n >= size for n in sorted(array.shape)[-2:])]
        return fitting[-1] if fitting else self.arrays[0]


def pyramid_of(node: Any) -> Pyramid | None:
    """The levels at this node: an array is one level; None for groups that describe none."""
    if isinstance(node, Array):
        return Pyramid([node], [""], read_axes(node))
    if hasattr(node, "num_channels") and hasattr(node, "info"):
        arrays = [node[key] for key in node]
        if not arrays:
            return None
        return Pyramid(arrays, list(node), read_axes(arrays[0]), node.type == "segmentation", "precomputed")
    if hasattr(node, "multiscale"):
        return _of_n5(node)
    attrs = getattr(node, "attrs", None)
    return None if attrs is None else _of_ome(node, attrs)


def _of_n5(group: Any) -> Pyramid | None:
    try:
        found = group.multiscale()
    except ZvcoreError:
        return None
    paths = [level.path for level in found.levels]
    arrays = [group[path] for path in paths]
    if not arrays or not all(isinstance(array, Array) for array in arrays):
        return None
    finest = found.levels[0]
    said = zip(finest.axes, finest.units, finest.resolution, finest.offset, strict=True)
    axes = tuple(Axis(name, unit or None, size, place) for name, unit, size, place in said)
    return Pyramid(arrays, paths, axes if arrays[0].order == "F" else axes[::-1], convention=found.convention)


def _of_ome(group: Any, attrs: Mapping[str, Any]) -> Pyramid | None:
    try:
        found = read_ome(attrs, "")
        if found is None:
            return None
        arrays = [group[path] for path in found.paths]
    except (MetadataError, NotFoundError):
        return None
    if not all(isinstance(array, Array) and array.ndim == len(found.axes[0]) for array in arrays):
        return None
    ome = attrs.get("ome")
    labels = True if isinstance(ome, dict) and "image-label" in ome else None
    return Pyramid(arrays, list(found.paths), found.axes[0], labels, "OME-Zarr")
