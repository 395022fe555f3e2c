"""Where the voxels of a view lie."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from zvcore.images import Axes, Axis

if TYPE_CHECKING:
    from zvcore.converting.view import View

__all__ = ["seen"]


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
