"""What is known of the levels of a setup, wherever their values lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from zvcore.array import Array
    from zvcore.images import Axes
    from zvcore.stores import Store

__all__ = ["Views"]


@dataclass(frozen=True)
class Views:
    """The levels of a setup.

    kind     what must be the same for setups to be channels of one image
    size     of the finest level in voxels, and
    factors  how much coarser each level is than the first, along x, y and z
    make     the array of a level with axes t, c, z, y, x, by the setups, the level's number, its axes and its place
    """

    kind: Hashable
    size: tuple[int, ...]
    factors: Sequence[tuple[float, ...]]
    make: Callable[[Sequence[int], int, Axes, Store], Array]
