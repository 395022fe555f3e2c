"""Shards within shards: how many cells each level has, and where each stands in its shard's index."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zvcore.cached import cached_property
from zvcore.errors import OutOfMemoryError
from zvcore.zarr3.shard_format import cell_order

if TYPE_CHECKING:
    from zvcore.zarr3.chain import Pipeline, Sharding
    from zvcore.zarr3.shard_format import Order
    from zvcore.zarr3.shard_index import ShardIndexForm

__all__ = ["ShardLevel", "levels_of"]

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ShardLevel:
    """One level of shards, in the array's axes.

    cells   how many of this level's cells (inner shards, at last inner chunks) lie along each axis of its shard
    extent  how many inner chunks one cell spans along each axis
    order   the axes in the order in which the index counts the cells
    """

    sharding: Sharding
    cells: tuple[int, ...]
    extent: tuple[int, ...]
    order: tuple[int, ...]
    # The codecs behind the shards of this level; a shard behind any can only be read whole.
    codecs: Pipeline

    @property
    def form(self) -> ShardIndexForm:
        """How the index of a shard of this level is stored."""
        return self.sharding.index

    @cached_property
    def strides(self) -> npt.NDArray[np.int64]:
        """What one step along each axis adds to a cell's place in the index."""
        strides = np.zeros(len(self.cells), np.int64)
        step = 1
        for axis in reversed(self.order):
            strides[axis] = step
            step *= self.cells[axis]
        return strides

    def slots(self, positions: Positions) -> Positions:
        """The place in its shard's index of the cell that holds each inner chunk."""
        if self._within is not None:
            positions = positions // self._within
        return positions % self._cells @ self.strides

    @cached_property
    def _cells(self) -> npt.NDArray[np.int64]:
        return np.array(self.cells, np.int64)

    @cached_property
    def _within(self) -> npt.NDArray[np.int64] | None:
        return np.array(self.extent, np.int64) if any(extent != 1 for extent in self.extent) else None

    def cells_of(self, slots: Positions) -> Positions:
        """Which cells of a shard these places of its index are, one row each: the inverse of `slots`."""
        return np.asarray(slots, np.int64)[:, None] // self.strides % self._cells

    def in_order(self, order: Order) -> npt.NDArray[np.int64]:
        """The places in the index of all cells along one of the orders."""
        try:
            return cell_order(tuple(self.cells[axis] for axis in self.order), order)
        except MemoryError as error:
            # numpy's own error would say nothing of shards.
            raise OutOfMemoryError(
                f"not enough memory for the index of a shard of {prod(self.cells)} chunks"
            ) from error


def levels_of(pipeline: Pipeline) -> tuple[list[ShardLevel], tuple[int, ...], tuple[int, ...]]:
    """(levels from the outermost inwards, shape of an inner chunk in the array's axes, its axes from slowest to
    fastest).
    """
    order = pipeline.axes
    shape = pipeline.shape
    found: list[tuple[Pipeline, Sharding, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = []
    while pipeline.sharding is not None:
        sharding = pipeline.sharding
        inner = [0] * len(shape)
        for i, axis in enumerate(order):
            inner[axis] = sharding.chunk_shape[i]
        cells = tuple(outer // one for outer, one in zip(shape, inner, strict=True))
        found.append((pipeline, sharding, cells, tuple(inner), order))
        shape = tuple(inner)
        pipeline = sharding.inner
        order = tuple(order[i] for i in pipeline.axes)
    levels = [
        ShardLevel(sharding, cells, tuple(one // last for one, last in zip(inner, shape, strict=True)), at, outer)
        for outer, sharding, cells, inner, at in found
    ]
    return levels, shape, order
