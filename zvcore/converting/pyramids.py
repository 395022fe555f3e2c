"""Coarser levels, made while the finest is written: the source is read once.

Each level is made of the one before it: the mean, or the most frequent value, of boxes of its voxels. What one unit
writes of the finest level it carries on to as many coarser ones as fit into memory; the levels above those are made of
what has been written, which is a fraction of the whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import transfer
from zvcore.boxes import box_of, count_of
from zvcore.converting.coarse import CoarseView, Factors, downsampled
from zvcore.converting.copying import Copying, plan_copy
from zvcore.converting.outcome import store_values
from zvcore.converting.pace import UNIT_SECONDS, encoding_seconds
from zvcore.converting.parts import nbytes_of
from zvcore.converting.view import View, whole
from zvcore.report import Outcome
from zvcore.stores.request_threads import one_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.array import Array
    from zvcore.images.levels import Factors

__all__ = ["Pyramiding", "plan_levels"]

# What one unit reads at most. More would be lost when a conversion is interrupted.
_UNIT_BYTES = 512 << 20
# Fewer units leave threads without work: then a coarser level is made of the one below it when that is written.
_LEAST_UNITS = 16


@dataclass
class Pyramiding:
    """Fills an array by a copy, and coarser ones from what passes by. Picklable.

    levels    the arrays to fill, that of the copy first
    factors   between each of `levels` and the next
    ahead     whether two cells of the finest level are made at once, where that means to wait for a network
    """

    base: Copying
    levels: list[Array]
    factors: list[Factors]
    method: str
    ahead: bool = False

    spread = False

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def targets(self) -> list[Array]:
        return self.levels

    @property
    def cell(self) -> tuple[int, ...]:
        """What is written at once of each level."""
        return self.base.cell

    @property
    def view(self) -> View | CoarseView:
        return self.base.view

    @property
    def span(self) -> tuple[int, ...]:
        """What a unit covers of the view: what one cell of the coarsest level is made of."""
        return tuple(extent * math.prod(one[axis] for one in self.factors) for axis, extent in enumerate(self.cell))

    @property
    def grid(self) -> tuple[int, ...]:
        return count_of(self.levels[0].shape, self.span)

    def __len__(self) -> int:
        return 0 if 0 in self.levels[0].shape else math.prod(self.grid)

    @property
    def unit_memory(self) -> int:
        """A cell of each level, one that is made smaller, and what the copy of one takes."""
        dtype = self.levels[0].dtype
        cells = [
            nbytes_of([min(a, b) for a, b in zip(self.cell, level.shape, strict=True)], dtype) for level in self.levels
        ]
        return sum(cells) + (cells[0] + self.base.unit_memory) * (2 if self.ahead else 1)

    def run(self, unit: int, threads: int | None) -> Outcome:
        outcome = Outcome()
        place = tuple(int(i) for i in np.unravel_index(unit, self.grid))
        self._make(len(self.levels) - 1, place, threads, outcome)
        return outcome

    def _smaller(self, level: int, place: tuple[int, ...], threads: int | None, outcome: Outcome) -> npt.NDArray[Any]:
        """Make and store one cell of a level, and return what it is in the next one."""
        if level == 0:
            box = box_of(place, self.cell, self.levels[0].shape)
            return self.base.store_coarser(box, self.factors[0], self.method, threads, outcome)
        finer = self._make(level, place, threads, outcome)
        return downsampled(finer, self.factors[level], self.method, threads or 1)

    def _make(self, level: int, place: tuple[int, ...], threads: int | None, outcome: Outcome) -> npt.NDArray[Any]:
        """Make, store and return one cell of a level above the finest."""
        target = self.levels[level]
        box = box_of(place, self.cell, target.shape)
        shape = [stop - first for first, stop in box]
        values = transfer.empty(tuple(shape), target.dtype, "F" if target.order == "F" else "C")
        factors = self.factors[level - 1]
        belows = [*self._below(level, place)]

        def made(below: tuple[int, ...]) -> tuple[npt.NDArray[Any], Outcome]:
            own = Outcome()
            return self._smaller(level - 1, below, threads, own), own

        found = one_ahead(made, belows) if self.ahead and level == 1 else map(made, belows)
        for below, (small, own) in zip(belows, found, strict=True):
            outcome.include(own)
            where = tuple(
                slice(i * extent // factor - first, i * extent // factor - first + length)
                for i, extent, factor, (first, _), length in zip(
                    below, self.cell, factors, box, small.shape, strict=True
                )
            )
            values[where] = small
        store_values(target, box, values, threads, outcome)
        return values

    def _below(self, level: int, place: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The cells of the finer level that a cell is made of."""
        factors = self.factors[level - 1]
        finer = self.levels[level - 1].shape
        for step in np.ndindex(*factors):
            below = tuple(i * factor + n for i, factor, n in zip(place, factors, step, strict=True))
            if all(i * extent < bound for i, extent, bound in zip(below, self.cell, finer, strict=True)):
                yield below


def plan_levels(
    base: Copying, added: Sequence[Array], factors: Sequence[Factors], method: str, memory: int
) -> list[Copying | Pyramiding]:
    """The steps that fill the first array of a pyramid, by a copy, and those above it."""
    targets = [base.target, *added]
    steps: list[Copying | Pyramiding] = []
    at = 0
    while at < len(targets):
        if at:
            view = CoarseView(whole(targets[at - 1]), factors[at - 1], method, base.part)
            base = plan_copy(view, targets[at], base.effort, memory, f"{base.name}: coarser", needed=True)
        count = _carried(base, targets[at:], factors[at:], memory)
        made = targets[at : at + count + 1]
        if count:
            step = Pyramiding(base, made, list(factors[at : at + count]), method)
            far = replace(step, ahead=base.target.store.remote or base.view.array.store.remote)
            steps.append(far if far.unit_memory <= memory else step)
        else:
            steps.append(base)
        at += count + 1
    return steps


def _carried(base: Copying, targets: Sequence[Array], factors: Sequence[Factors], memory: int) -> int:
    """How many levels above the first a unit makes on its way."""
    if any(one.layout.scattered for one in targets):
        return 0
    cell = base.cell
    dtype = targets[0].dtype
    clipped = nbytes_of([min(a, b) for a, b in zip(cell, targets[0].shape, strict=True)], dtype)
    span = list(cell)
    # How many values are encoded for each of the finest level.
    share = 1.0 if base.way.encodes else 0.0
    count = 0
    for target, step in zip(targets[1:], factors, strict=False):
        grain = target.shards or target.chunks
        # Each cell of a level is made of whole cells of the finer one, and holds whole objects.
        if any(extent % factor for extent, factor in zip(cell, step, strict=True)):
            break
        if any(extent % one and extent < bound for extent, one, bound in zip(cell, grain, target.shape, strict=True)):
            break
        span = [extent * factor for extent, factor in zip(span, step, strict=True)]
        units = math.prod(-(-bound // one) for bound, one in zip(targets[0].shape, span, strict=True))
        if count and units < _LEAST_UNITS:
            break
        covered = nbytes_of([min(a, b) for a, b in zip(span, targets[0].shape, strict=True)], dtype)
        if covered > max(_UNIT_BYTES, 8 * clipped) or base.unit_memory + (count + 3) * clipped > memory:
            break
        share += math.prod(cell) / math.prod(span)
        if encoding_seconds(target.layout, int(share * covered)) > UNIT_SECONDS:
            break
        count += 1
    return count
