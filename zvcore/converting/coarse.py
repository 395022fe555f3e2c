"""Coarser levels of arrays, made when they are read."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import transfer
from zvcore.boxes import count_of
from zvcore.converting.parts import parts_of
from zvcore.errors import UnsupportedError
from zvcore.kernels.downsample import MOST_OF_A_PLACE, downsample_mean, downsample_mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.array import Array
    from zvcore.boxes import Box
    from zvcore.converting.view import View

__all__ = ["CoarseView", "Factors", "check_downsampling", "coarser_values", "downsampled"]

Factors = tuple[int, ...]

# Slices of at least this many bytes are worth a thread.
_SLICE_BYTES = 1 << 20


def check_downsampling(dtype: np.dtype[Any], factors: Factors, method: str) -> None:
    """Refuse levels that cannot be made, which is asked before anything is written."""
    if dtype.kind not in "iubf" or (method == "mode" and dtype.kind == "f"):
        raise UnsupportedError(f"no {method} is made of values of {dtype}")
    if sum(factor > 1 for factor in factors) > 3:
        raise UnsupportedError("a level is coarser along three axes at most", found=factors)


def downsampled(values: npt.NDArray[Any], factors: Factors, method: str, threads: int = 1) -> npt.NDArray[Any]:
    """A coarser version of an array. Boxes at its end are smaller where a factor does not divide its length."""
    if math.prod(factors) == 1:
        return values
    dtype = values.dtype
    check_downsampling(dtype, factors, method)
    if dtype.kind == "b":
        method = "mode"
        if values.size and values.view(np.uint8).max() > 1:
            # Other programs may have stored any byte but 0 for what is true: as the most frequent value it is one.
            values = values.view(np.uint8) != 0
    order = "F" if values.flags.f_contiguous and not values.flags.c_contiguous else "C"
    if order == "F":
        return downsampled(values.T, factors[::-1], method, threads).T
    moved = [axis for axis, factor in enumerate(factors) if factor > 1]
    # What stays as it is behind all others is several values at each place.
    last = moved[-1] + 1
    few = math.prod(values.shape[last:]) * factors[moved[-1]] <= MOST_OF_A_PLACE
    if method == "mode" or not few or (dtype.kind in "iu" and dtype.itemsize == 8):
        last = values.ndim
    behind = values.shape[last:]
    lanes = math.prod(behind)
    rest = [axis for axis in range(last) if axis not in moved]
    # Axes beside those that are made coarser: behind the others where they are the slowest already.
    while len(moved) < 3 and rest:
        moved.insert(0, rest.pop())
    moved.sort()
    order_of_axes = [*rest, *moved, *range(last, values.ndim)]
    turned = np.ascontiguousarray(values.transpose(order_of_axes))
    lead = turned.shape[: len(rest)]
    missing = [1] * (3 - len(moved))
    steps = [*missing, *(factors[axis] for axis in moved)]
    block = [math.prod(lead), *missing, *turned.shape[len(rest) : last]]
    source = turned.reshape(*block[:-1], block[-1] * lanes)
    small = dtype.kind == "f" and dtype.itemsize not in (4, 8)
    if small:
        source = source.astype(np.float32 if dtype.itemsize < 4 else np.float64)
    places = [-(-n // f) for n, f in zip(block[1:], steps, strict=True)]
    out = transfer.empty((block[0], *places[:-1], places[-1] * lanes), source.dtype)
    kernel = downsample_mode if method == "mode" else partial(downsample_mean, lanes=lanes)
    _in_slices(kernel, source, out, steps, threads)
    result = out.astype(dtype) if small else out
    shape = [*lead, *places[len(missing) :], *behind]
    return np.ascontiguousarray(result.reshape(shape).transpose(np.argsort(order_of_axes)))


def _in_slices(
    kernel: Any, source: npt.NDArray[Any], out: npt.NDArray[Any], steps: Sequence[int], threads: int
) -> None:
    count = min(threads, out.shape[1], max(1, source.nbytes // _SLICE_BYTES))
    if count <= 1 or out.shape[0] != 1:
        kernel(source, out, steps)
        return
    bounds = [i * out.shape[1] // count for i in range(count + 1)]

    def make(number: int) -> None:
        a, b = bounds[number : number + 2]
        kernel(source[:, a * steps[0] : b * steps[0]], out[:, a:b], steps)

    with ThreadPoolExecutor(count - 1) as pool:
        futures = [pool.submit(make, number) for number in range(1, count)]
        make(0)
        for future in futures:
            future.result()


def coarser_values(
    view: View, box: Box, factors: Factors, method: str, threads: int | None
) -> tuple[npt.NDArray[Any], int]:
    """(what becomes of a box of a view, how many stored bytes that was)."""
    found = view.read_coarser(box, factors, method == "mode", threads)
    if found is None:
        values, nbytes = view.read(box, threads)
        found = downsampled(values, factors, method, threads or 1), nbytes
    return found


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
        return count_of(self.finer.shape, self.factors)

    @property
    def axes(self) -> tuple[int | None, ...]:
        return self.finer.axes

    @property
    def dtype(self) -> np.dtype[Any] | None:
        return self.finer.dtype

    @property
    def clip(self) -> bool:
        return self.finer.clip

    @property
    def value_dtype(self) -> np.dtype[Any]:
        return self.finer.value_dtype

    def _fine(self, box: Box) -> Box:
        """What a box is made of."""
        return tuple(
            (first * factor, min(stop * factor, bound))
            for (first, stop), factor, bound in zip(box, self.factors, self.finer.shape, strict=True)
        )

    def is_empty(self, box: Box) -> bool:
        """As of a `View`."""
        return self.finer.is_empty(self._fine(box))

    def read(self, box: Box, threads: int | None = None) -> tuple[npt.NDArray[Any], int]:
        made = self.finer.read_coarser(self._fine(box), self.factors, self.method == "mode", threads)
        if made is not None:
            return made
        shape = [stop - first for first, stop in box]
        values = transfer.empty(tuple(shape), self.value_dtype, "F" if self.finer.order == "F" else "C")
        total = 0
        itemsize = math.prod(self.factors) * self.value_dtype.itemsize
        # Boundaries of chunks are where it costs least to cut.
        grain = [
            max(1, (1 if axis is None else self.array.chunks[axis]) // factor)
            for axis, factor in zip(self.axes, self.factors, strict=True)
        ]
        for part in parts_of(box, grain, itemsize, self.part, self.finer.order):
            given, nbytes = self.finer.read(self._fine(part), threads)
            total += nbytes
            where = tuple(slice(a - first, b - first) for (a, b), (first, _) in zip(part, box, strict=True))
            if not nbytes and self.value_dtype.kind in "biu" and (given == (first := given.flat[0])).all():
                # Nothing is stored here: the mean of what is the same everywhere is the same, and so is the mode.
                values[where] = first
                continue
            values[where] = downsampled(given, self.factors, self.method, threads or 1)
        return values, total
