"""The boxes into which a volume is cut: which voxels each has for itself, and what it sees of its neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zvcore.boxes import box_of, count_of

if TYPE_CHECKING:
    from zvcore.boxes import Box

__all__ = ["Grid"]


@dataclass(frozen=True)
class Grid:
    """A volume of this shape in boxes of so many voxels. They are numbered; x is the slowest."""

    shape: tuple[int, int, int]
    extent: tuple[int, int, int]

    def __len__(self) -> int:
        return math.prod(count_of(self.shape, self.extent))

    def box(self, number: int) -> Box:
        """The voxels that this box has for itself: each voxel is in one box."""
        place = [int(n) for n in np.unravel_index(number, count_of(self.shape, self.extent))]
        return box_of(place, self.extent, self.shape)

    def shared(self, number: int) -> Box:
        """The same, and the first voxels of the neighbours behind it, which these have, too."""
        return tuple(
            (first, min(stop + 1, bound)) for (first, stop), bound in zip(self.box(number), self.shape, strict=True)
        )
