"""Volumes as images: their axes in nanometers, their scales as levels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zvcore.images import Axis, Image, Level

if TYPE_CHECKING:
    from zvcore.images import Axes
    from zvcore.precomputed.array import ScaleArray
    from zvcore.precomputed.group import Volume

__all__ = ["read_axes", "read_image", "read_scale"]


def read_axes(array: ScaleArray) -> Axes:
    """What a scale says of its axes, counted from the corner of its own first voxel."""
    places = [
        Axis(name, "nm", float(size), float(offset * size))
        for name, size, offset in zip("xyz", array.resolution, array.voxel_offset, strict=True)
    ]
    return (*places, Axis("c"))


def _kind(type: str) -> str | None:
    return type if type in ("image", "segmentation") else None


def read_scale(array: ScaleArray) -> Image:
    """A scale alone."""
    return Image("", [Level("", array, read_axes(array))], kind=_kind(array.type))


def read_image(volume: Volume) -> Image | None:
    """The scales as levels within one frame: the centre of the finest scale's first voxel lies at its offset."""
    # By number: a scale that cannot be read is an error, and not left out.
    arrays: list[Any] = [volume[number] for number in range(len(volume.info["scales"]))]
    finest = read_axes(arrays[0])
    levels = []
    for array in arrays:
        axes = tuple(
            axis
            if axis.scale is None or first.scale is None
            else replace(axis, offset=axis.offset + (axis.scale - first.scale) / 2)
            for axis, first in zip(read_axes(array), finest, strict=True)
        )
        levels.append(Level(array.key, array, axes))
    return Image("", levels, volume.attrs, _kind(volume.type), convention="precomputed")
