"""Coarser levels, made while the finest is written: the source is read once.

Each level is made of the one before it: the mean, or the most frequent value, of boxes of its voxels. What one unit
writes of the finest level it carries on to as many coarser ones as fit into memory; the levels above those are made of
what has been written, which is a fraction of the whole.
"""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.converting.steps import Copying, Outcome, nbytes_of, parts_of, plan_copy, store_values
from zvcore.converting.view import Box, View, whole
from zvcore.errors import UnsupportedError
from zvcore.kernels.downsample import downsample_mean, downsample_mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.array import Array
    from zvcore.images.levels import Factors

__all__ = ["CoarseView", "Pyramiding", "downsampled", "plan_levels"]

# What one unit reads at most. More would be lost when a conversion is interrupted.
_UNIT_BYTES = 2 << 30
# Fewer units leave threads without work: then a coarser level is made of the one below it when that is written.
_LEAST_UNITS = 16
# Slices of at least this many bytes are worth a thread.
_SLICE_BYTES = 1 << 20


def downsampled(values: npt.NDArray[Any], factors: Factors, method: str, threads: int = 1) -> npt.NDArray[Any]:
    """A coarser version of an array. Boxes at its end are smaller where a factor does not divide its length."""
    if math.prod(factors) == 1:
        return values
    dtype = values.dtype
    if dtype.kind not in "iubf" or (method == "mode" and dtype.kind == "f"):
        raise UnsupportedError(f"no {method} is made of values of {dtype}")
    if dtype.kind == "b":
        method = "mode"
    order = "F" if values.flags.f_contiguous and not values.flags.c_contiguous else "C"
    if order == "F":
        return downsampled(values.T, factors[::-1], method, threads).T
    moved = [axis for axis, factor in enumerate(factors) if factor > 1]
    if len(moved) > 3:
        raise UnsupportedError("a level is coarser along three axes at most", found=factors)
    rest = [axis for axis in range(values.ndim) if axis not in moved]
    # Axes beside those that are made coarser: behind the others where they are the slowest already.
    while len(moved) < 3 and rest:
        moved.insert(0, rest.pop())
    moved.sort()
    order_of_axes = [*rest, *moved]
    turned = np.ascontiguousarray(values.transpose(order_of_axes))
    steps = [factors[axis] for axis in moved]
    lead = turned.shape[: len(rest)]
    block = (math.prod(lead), *[1] * (3 - len(moved)), *turned.shape[len(rest) :])
    steps = [*[1] * (3 - len(moved)), *steps]
    source = turned.reshape(block)
    small = dtype.kind == "f" and dtype.itemsize not in (4, 8)
    if small:
        source = source.astype(np.float32 if dtype.itemsize < 4 else np.float64)
    out = np.empty((block[0], *(-(-n // f) for n, f in zip(block[1:], steps, strict=True))), source.dtype)
    kernel = downsample_mean if method == "mean" else downsample_mode
    _in_slices(kernel, source, out, steps, threads)
    result = out.astype(dtype) if small else out
    shape = [*lead, *result.shape[4 - len(moved) :]]
    return np.ascontiguousarray(result.reshape(shape).transpose(np.argsort(order_of_axes)))


def _in_slices(
    kernel: Any, source: npt.NDArray[Any], out: npt.NDArray[Any], steps: Sequence[int], threads: int
) -> None:
    count = min(threads, out.shape[1], max(1, source.nbytes // _SLICE_BYTES))
    if count <= 1 or out.shape[0] != 1:
        kernel(source, out, steps)
        return
    bounds = [i * out.shape[1] // count for i in range(count + 1)]
    with ThreadPoolExecutor(count) as pool:
        futures = [
            pool.submit(kernel, source[:, a * steps[0] : b * steps[0]], out[:, a:b], steps)
            for a, b in itertools.pairwise(bounds)
        ]
        for future in futures:
            future.result()


@dataclass(frozen=True)
class CoarseView:
    """A coarser level of a view, made when it is read. What it is read for sees a `View`.

    part    how many bytes of the finer level are read at once
    """

    finer: View
    factors: Factors
    method: str
    part: int

    @property
    def array(self) -> Array:
        return self.finer.array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(-(-n // f) for n, f in zip(self.finer.shape, self.factors, strict=True))

    @property
    def axes(self) -> tuple[int | None, ...]:
        return self.finer.axes

    @property
    def dtype(self) -> np.dtype[Any] | None:
        return self.finer.dtype

    @property
    def value_dtype(self) -> np.dtype[Any]:
        return self.finer.value_dtype

    def read(self, box: Box, threads: int | None = None) -> tuple[npt.NDArray[Any], int]:
        shape = [stop - first for first, stop in box]
        values = np.empty(shape, self.value_dtype, order="F" if self.finer.order == "F" else "C")
        total = 0
        itemsize = math.prod(self.factors) * self.value_dtype.itemsize
        # Boundaries of chunks are where it costs least to cut.
        grain = [
            max(1, (1 if axis is None else self.array.chunks[axis]) // factor)
            for axis, factor in zip(self.axes, self.factors, strict=True)
        ]
        for part in parts_of(box, grain, itemsize, self.part, self.finer.order):
            fine = tuple(
                (first * factor, min(stop * factor, bound))
                for (first, stop), factor, bound in zip(part, self.factors, self.finer.shape, strict=True)
            )
            given, nbytes = self.finer.read(fine, threads)
            total += nbytes
            where = tuple(slice(a - first, b - first) for (a, b), (first, _) in zip(part, box, strict=True))
            values[where] = downsampled(given, self.factors, self.method, threads or 1)
        return values, total


@dataclass
class Pyramiding:
    """Fills an array by a copy, and coarser ones from what passes by. Picklable.

    levels    the arrays to fill, that of the copy first
    factors   between each of `levels` and the next
    """

    base: Copying
    levels: list[Array]
    factors: list[Factors]
    method: str

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
    def grid(self) -> tuple[int, ...]:
        """Units: each covers what one cell of the coarsest level is made of."""
        span = [extent * math.prod(one[axis] for one in self.factors) for axis, extent in enumerate(self.cell)]
        return tuple(-(-bound // extent) for bound, extent in zip(self.levels[0].shape, span, strict=True))

    def __len__(self) -> int:
        return 0 if 0 in self.levels[0].shape else math.prod(self.grid)

    @property
    def unit_memory(self) -> int:
        """A cell of each level, one that is made smaller, and what the copy of one takes."""
        dtype = self.levels[0].dtype
        cells = [
            nbytes_of([min(a, b) for a, b in zip(self.cell, level.shape, strict=True)], dtype) for level in self.levels
        ]
        return sum(cells) + cells[0] + self.base.unit_memory

    def run(self, unit: int, threads: int | None) -> Outcome:
        outcome = Outcome()
        place = tuple(int(i) for i in np.unravel_index(unit, self.grid))
        self._make(len(self.levels) - 1, place, threads, outcome)
        return outcome

    def _make(self, level: int, place: tuple[int, ...], threads: int | None, outcome: Outcome) -> npt.NDArray[Any]:
        """Make, store and return one cell of a level."""
        target = self.levels[level]
        box = tuple(
            (i * extent, min((i + 1) * extent, bound))
            for i, extent, bound in zip(place, self.cell, target.shape, strict=True)
        )
        if level == 0:
            return self.base.store(box, threads, outcome)
        shape = [stop - first for first, stop in box]
        values: npt.NDArray[Any] = np.empty(shape, target.dtype, order="F" if target.order == "F" else "C")
        factors = self.factors[level - 1]
        for below in self._below(level, place):
            finer = self._make(level - 1, below, threads, outcome)
            small = downsampled(finer, factors, self.method, threads or 1)
            del finer
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
        steps.append(Pyramiding(base, made, list(factors[at : at + count]), method) if count else base)
        at += count + 1
    return steps


def _carried(base: Copying, targets: Sequence[Array], factors: Sequence[Factors], memory: int) -> int:
    """How many levels above the first a unit makes on its way."""
    if any(one.layout.sharded and one.shards is None for one in targets):
        return 0
    cell = base.cell
    dtype = targets[0].dtype
    clipped = nbytes_of([min(a, b) for a, b in zip(cell, targets[0].shape, strict=True)], dtype)
    span = list(cell)
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
        count += 1
    return count
