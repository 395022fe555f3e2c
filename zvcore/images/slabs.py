"""Regions of arrays piece by piece, for files that are written from the beginning to the end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Watch = Callable[[int], None]

__all__ = ["SLAB", "as_slice", "slabs", "whole_region"]

# What is read at once, in bytes.
SLAB = 32 << 20


def slabs(
    array: Any,
    region: tuple[Any, ...],
    threads: int | None,
    axis: int | None = None,
    watch: Watch | None = None,
) -> Iterator[Any]:
    """The region's values, in pieces that fit into memory, along an axis (the first that is a range).

    `watch` is told how many more have been read.
    """
    for values in _slabs(array, region, threads, axis):
        if watch is not None:
            watch(values.size)
        yield values


def _slabs(array: Any, region: tuple[Any, ...], threads: int | None, axis: int | None) -> Iterator[Any]:
    import numpy as np

    full = whole_region(region, array.ndim)
    if axis is None:
        axis = next((i for i, part in enumerate(full) if isinstance(part, slice)), None)
    if axis is None:
        yield np.asarray(array.read(tuple(full), threads=threads))
        return
    span = range(array.shape[axis])[full[axis]]
    others = [
        len(range(n)[part])
        for i, (n, part) in enumerate(zip(array.shape, full, strict=True))
        if i != axis and isinstance(part, slice)
    ]
    row = max(1, math.prod(others) * array.dtype.itemsize)
    # Whole chunks where they fit: each is decoded once then.
    step = max(1, SLAB // row)
    if step > array.chunks[axis]:
        step -= step % array.chunks[axis]
    for first in range(0, len(span), step):
        full[axis] = as_slice(span[first : first + step])
        yield np.asarray(array.read(tuple(full), threads=threads))


def as_slice(part: range) -> slice:
    """Of indices from zero up; a slice that ends below zero would count from the end."""
    return slice(part.start, part.stop if part.stop >= 0 else None, part.step)


def whole_region(region: tuple[Any, ...], ndim: int) -> list[Any]:
    """A region with an entry for each axis."""
    full = list(region)
    if ... in full:
        place = full.index(...)
        full[place : place + 1] = [slice(None)] * (ndim - len(full) + 1)
    return full + [slice(None)] * (ndim - len(full))
