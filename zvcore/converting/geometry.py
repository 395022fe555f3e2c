"""Where the voxels of a view lie, and of a volume that it becomes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zvcore.images import Axes, Axis
from zvcore.images.axes import nanometers, plain

if TYPE_CHECKING:
    from zvcore.converting.view import View

__all__ = ["in_nanometers", "seen", "volume_place"]


def seen(axes: Axes, view: View) -> Axes:
    """The axes of a view: in its order, and beginning where it begins."""
    found = []
    for axis in view.axes:
        if axis is None:
            found.append(Axis())
            continue
        start = view.start[axis]
        known = axes[axis]
        found.append(replace(known, offset=known.offset + start * (1.0 if known.scale is None else known.scale)))
    return tuple(found)


def in_nanometers(axes: Axes) -> tuple[float, ...]:
    """The resolution of a volume."""
    return tuple(plain((1.0 if axis.scale is None else axis.scale) * nanometers(axis.unit)) for axis in axes[:3])


def volume_place(axes: Axes, finest: Axes) -> tuple[tuple[int, ...], bool]:
    """(voxel_offset of a scale, whether it is exact). Offsets of volumes are whole numbers of voxels."""
    offset = []
    exact = True
    for axis, first in zip(axes[:3], finest[:3], strict=True):
        size = 1.0 if axis.scale is None else axis.scale
        base = 1.0 if first.scale is None else first.scale
        place = (axis.offset - (size - base) / 2) / size
        offset.append(round(place))
        exact = exact and abs(place - round(place)) < 1e-6
    return tuple(offset), exact
