"""How the work of filling one array is cut into units, each of which writes whole objects."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.boxes import box_of, count_of
from zvcore.cached import cached_property

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.array import Array
    from zvcore.boxes import Box

__all__ = ["Boxes", "ScatteredShards"]

# Up to so many chunks, shards that are no boxes are counted one by one.
_COUNTED = 1 << 20


class Boxes:
    """Units that are boxes of a grid. Nothing is kept of any of them."""

    scattered = False

    def __init__(self, target: Array, cell: tuple[int, ...]) -> None:
        self.shape = target.shape
        self.cell = cell

    @property
    def grid(self) -> tuple[int, ...]:
        return count_of(self.shape, self.cell)

    def __len__(self) -> int:
        return 0 if 0 in self.shape else math.prod(self.grid)

    def box(self, unit: int) -> Box:
        place = np.unravel_index(unit, self.grid) if self.grid else ()
        return box_of([int(i) for i in place], self.cell, self.shape)

    def boxes(self, unit: int) -> Iterator[Box]:
        yield self.box(unit)


class ScatteredShards:
    """Units that are shards whose chunks make up no box: hashed ones.

    Which chunks each has is found out when the first unit runs; until then there may be fewer shards than units.
    """

    scattered = True

    def __init__(self, target: Array) -> None:
        self.target = target
        self.grid = count_of(target.shape, target.chunks)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_shards"}

    def __len__(self) -> int:
        chunks = 0 if 0 in self.target.shape else math.prod(self.grid)
        if chunks <= _COUNTED:
            return len(self._shards)
        return min(chunks, self.target.layout.placement.most_objects or chunks)

    def _positions(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.stack(np.unravel_index(numbers, self.grid), axis=1).astype(np.int64)

    @cached_property
    def _shards(self) -> list[npt.NDArray[np.int64]]:
        """The numbers of the chunks of each shard, in the order of their keys."""
        if 0 in self.target.shape:
            return []
        found: dict[str, list[npt.NDArray[np.int64]]] = defaultdict(list)
        placement = self.target.layout.placement
        for first in range(0, math.prod(self.grid), _COUNTED):
            numbers = np.arange(first, min(first + _COUNTED, math.prod(self.grid)), dtype=np.int64)
            for group in placement.groups(self._positions(numbers)):
                found[group.key].append(numbers[group.rows])
        return [np.concatenate(found[key]) for key in sorted(found)]

    def boxes(self, unit: int) -> Iterator[Box]:
        """The chunks of a shard, in the order in which it stores them."""
        if unit >= len(self._shards):
            return
        positions = self._positions(np.sort(self._shards[unit]))
        for group in self.target.layout.placement.groups(positions):
            for position in positions[group.rows].tolist():
                yield box_of(position, self.target.chunks, self.target.shape)
