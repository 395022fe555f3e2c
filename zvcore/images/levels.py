"""How much coarser each level of a pyramid is than the one before it: one rule for all that makes levels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from zvcore.boxes import count_of
from zvcore.images.axes import coarser, comparable_sizes, is_spatial

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.images.axes import Axes

__all__ = ["Factors", "level_shapes", "spatial_axes", "usual_factors"]

Factors = tuple[int, ...]


def level_shapes(
    shape: Sequence[int], axes: Axes, levels: int, *, spatial: Sequence[int], factors: Factors | None = None
) -> list[tuple[tuple[int, ...], Factors]]:
    """(shape, factors from the level before) of each coarser level, until there is nothing left to make smaller.

    axes      of the level that the first is made from
    spatial   which of them become coarser, unless `factors` says how much each does
    """
    found = []
    last = tuple(shape)
    for _ in range(levels):
        wanted = usual_factors(last, axes, spatial) if factors is None else factors
        here = tuple(1 if n == 1 else factor for n, factor in zip(last, wanted, strict=True))
        if math.prod(here) == 1:
            break
        last = count_of(last, here)
        axes = coarser(axes, here)
        found.append((last, here))
    return found


def usual_factors(shape: Sequence[int], axes: Axes, spatial: Sequence[int]) -> Factors:
    """2 along the spatial axes whose voxels are less than twice as long as the shortest, so that voxels become cubes.

    Voxels of 8 x 8 x 40 nm become 16 x 16 x 40, 32 x 32 x 40, and then 64 x 64 x 80. Axes of length 1 stay as they are
    and are not compared. Where sizes are unknown, or their units cannot be compared, it is 2 along all.
    """
    moving = [axis for axis in spatial if shape[axis] > 1]
    sizes = comparable_sizes([axes[axis] for axis in moving])
    if sizes is not None:
        # A size that went through arithmetic may be a little less than twice another.
        moving = [axis for axis, size in zip(moving, sizes, strict=True) if size < 1.999999 * min(sizes)]
    return tuple(2 if axis in moving else 1 for axis in range(len(shape)))


def spatial_axes(axes: Axes, *, fastest_first: bool) -> tuple[int, ...]:
    """Which axes become coarser: x, y and z where all axes have names and one is called so, else the fastest three."""
    rank = len(axes)
    if all(axis.name is not None for axis in axes):
        named = tuple(i for i, axis in enumerate(axes) if is_spatial(axis))
        if named:
            return named
    return tuple(range(rank))[:3] if fastest_first else tuple(range(rank))[-3:]
