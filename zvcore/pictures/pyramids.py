"""Finds the arrays of one picture at several sizes, whatever describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore.array import Array
from zvcore.errors import NotFoundError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Pyramid", "pyramid_of"]


@dataclass
class Pyramid:
    """Arrays of the same thing, the finest first.

    paths        of the arrays below the node
    labels       whether values are names of things; None: nobody says
    convention   what describes the levels, for people
    """

    arrays: list[Array]
    paths: list[str]
    labels: bool | None = None
    convention: str | None = None

    def at_least(self, size: int) -> Array:
        """The smallest of the arrays whose two longest sides still have so many voxels, or the finest."""
        fitting = [array for array in self.arrays if all(n >= size for n in sorted(array.shape)[-2:])]
        return fitting[-1] if fitting else self.arrays[0]


def pyramid_of(node: Any) -> Pyramid | None:
    """The levels at this node: an array is one level; None for groups that describe none."""
    if isinstance(node, Array):
        return Pyramid([node], [""])
    if hasattr(node, "num_channels") and hasattr(node, "info"):
        arrays = [node[key] for key in node]
        return Pyramid(arrays, list(node), node.type == "segmentation", "precomputed") if arrays else None
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
    return Pyramid(arrays, paths, convention=found.convention)


def _of_ome(group: Any, attrs: Mapping[str, Any]) -> Pyramid | None:
    ome = attrs.get("ome")
    described = ome.get("multiscales") if isinstance(ome, dict) else attrs.get("multiscales")
    if not (isinstance(described, list) and described and isinstance(described[0], dict)):
        return None
    levels = described[0].get("datasets")
    if not isinstance(levels, list):
        return None
    paths = [level["path"] for level in levels if isinstance(level, dict) and isinstance(level.get("path"), str)]
    try:
        arrays = [group[path] for path in paths]
    except NotFoundError:
        return None
    if not arrays or not all(isinstance(array, Array) for array in arrays):
        return None
    is_labels = isinstance(ome, dict) and "image-label" in ome
    return Pyramid(arrays, paths, True if is_labels else None, "OME-Zarr")
