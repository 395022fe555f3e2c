"""Boxes of an array, and the grids that cut it into boxes: of chunks, of shards, of units of work."""

from __future__ import annotations

import math
import operator
from contextlib import suppress
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias

from zvcore.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "CHUNK_BYTES",
    "Box",
    "box_of",
    "count_of",
    "default_chunks",
    "given_lengths",
    "grid_position",
    "integers",
    "lengths_of",
    "slices",
    "whole_number",
    "without",
]

# Where a part of an array begins and ends along each axis.
Box: TypeAlias = tuple[tuple[int, int], ...]
# The size of a chunk by default.
CHUNK_BYTES = 1 << 20


def count_of(shape: Sequence[int], extents: Sequence[int]) -> tuple[int, ...]:
    """How many boxes of these extents there are along each axis."""
    return tuple(-(-bound // extent) for bound, extent in zip(shape, extents, strict=True))


def box_of(place: Sequence[int], extents: Sequence[int], shape: Sequence[int]) -> Box:
    """The box at a place of a grid, cut at the end of the array."""
    return tuple(
        (int(i) * extent, min((int(i) + 1) * extent, bound))
        for i, extent, bound in zip(place, extents, shape, strict=True)
    )


def default_chunks(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Chunks of about a megabyte, as close to cubes as the array allows."""
    chunks = [max(1, n) for n in shape]
    while math.prod(chunks) * itemsize > CHUNK_BYTES and max(chunks) > 1:
        axis = max(range(len(chunks)), key=lambda i: chunks[i])
        chunks[axis] = -(-chunks[axis] // 2)
    return tuple(chunks)


def given_lengths(given: Any, what: str) -> tuple[Any, ...]:
    """What a caller gave as the lengths along the axes of an array: of one with a single axis, also a bare number."""
    if isinstance(given, Integral) and not isinstance(given, bool):
        return (int(given),)
    try:
        return tuple(given)
    except TypeError:
        raise MetadataError(f"{what} has a length for each axis", expected="integers", found=repr(given)) from None


def lengths_of(given: Any, what: str) -> tuple[int, ...]:
    """The lengths that a caller gave, as integers."""
    return tuple(whole_number(one, what) for one in given_lengths(given, what))


def grid_position(position: Any, grid: tuple[int, ...]) -> tuple[int, ...]:
    """What a caller gave as the position of a chunk in a grid of so many chunks along each axis."""
    import numpy as np  # which not everybody needs who has boxes

    given = position if isinstance(position, (tuple, list, np.ndarray)) else (position,)
    place = integers(given, f"a grid position has whole numbers, not {position!r}")
    if len(place) != len(grid):
        raise IndexError(f"a grid position has {len(grid)} numbers here, not {len(place)}")
    for axis, (i, count) in enumerate(zip(place, grid, strict=True)):
        if not 0 <= i < count:
            raise IndexError(f"grid position {place} is outside the grid of {grid} chunks (axis {axis})")
    return place


def whole_number(given: Any, what: str) -> int:
    """What a caller gave as a number of things: 2.0 is 2, but to make 2 of 2.5 would be to make something else."""
    if type(given) is int:
        return given
    with suppress(TypeError, ValueError, OverflowError):
        number = int(given)
        if not isinstance(given, (bool, str, bytes)) and number == given:
            return number
    raise MetadataError(f"{what} has whole numbers", expected="integers", found=repr(given))


def integers(given: Iterable[Any], otherwise: str) -> tuple[int, ...]:
    """Integers that a caller gave. Truth values, which Python takes for 0 and 1, are none: a TypeError says what is."""
    numbers = tuple(given)
    with suppress(TypeError):
        if not any(isinstance(one, bool) for one in numbers):
            return tuple(operator.index(one) for one in numbers)
    raise TypeError(otherwise)


def slices(box: Box, frame: Box | None = None) -> tuple[slice, ...]:
    """A box as slices of the array, or of the values of the box `frame` around it."""
    if frame is None:
        return tuple(slice(start, stop) for start, stop in box)
    return tuple(slice(start - base, stop - base) for (start, stop), (base, _) in zip(box, frame, strict=True))


def without(box: Box, taken: Box) -> list[Box]:
    """What is left of a box when another is taken out of it, as boxes that do not overlap."""
    if any(max(a, c) >= min(b, d) for (a, b), (c, d) in zip(box, taken, strict=True)):
        return [box]
    left = []
    rest = list(box)
    for axis, ((a, b), (c, d)) in enumerate(zip(box, taken, strict=True)):
        if a < c:
            left.append((*rest[:axis], (a, c), *rest[axis + 1 :]))
        if d < b:
            left.append((*rest[:axis], (d, b), *rest[axis + 1 :]))
        rest[axis] = (max(a, c), min(b, d))
    return [one for one in left if math.prod(stop - start for start, stop in one)]
