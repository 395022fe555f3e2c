"""Groups of HDF5 that are images with levels: those of BigDataViewer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.hdf5.links import inner
from zvcore.images import Axis, Image, Level

if TYPE_CHECKING:
    from collections.abc import Callable

    from zvcore.borrowed.array import BorrowedGroup

__all__ = ["image_of"]

_CELLS = "cells"


def image_of(group: Any) -> Callable[[BorrowedGroup], Image] | None:
    """What makes an image of a group, where it is the levels of one: `t00000/s00/0/cells`."""
    names = [name for name in group if re.fullmatch("[0-9]{1,3}", name)]
    if not names or len(names) != len(group) or not re.fullmatch(r".*/t[0-9]{5,}/s[0-9]{2,}", group.name):
        return None
    if any(inner(group, f"{name}/{_CELLS}") is None for name in names):
        return None
    factors = _factors(group)
    return lambda node: _image(node, sorted(names, key=int), factors)


def _factors(group: Any) -> Any:
    """How much coarser the levels are along x, y and z, as the setup says it."""
    found = inner(group.file, f"{group.name.rpartition('/')[2]}/resolutions")
    # Not of other types or files, and as few as there can be levels.
    if getattr(getattr(found, "dtype", None), "kind", "") not in ("i", "u", "f") or found.is_virtual or found.external:
        return None
    if found.ndim != 2 or found.shape[0] > 64 or found.shape[1] != 3:
        return None
    return np.asarray(found[...], float)


def _sound(size: Any) -> float | None:
    return float(size) if size is not None and 0 < size < np.inf else None


def _image(node: BorrowedGroup, names: list[str], factors: Any) -> Image:
    levels = []
    for number, name in enumerate(names):
        array = node[f"{name}/{_CELLS}"]
        sizes = factors[number][::-1] if factors is not None and number < len(factors) else (None,) * 3
        axes = tuple(
            Axis(
                axis,
                None,
                size,
                0.0 if size is None else (size - 1) / 2,
            )
            for axis, size in zip("zyx", map(_sound, sizes), strict=True)
        )
        levels.append(Level(f"{name}/{_CELLS}", array, axes if array.ndim == 3 else array.axes))
    return Image("", levels, node.attrs, convention="BigDataViewer")
