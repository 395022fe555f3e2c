"""Cutting triangles along the planes of a grid, so that each lies within one cell.

Vertices are whole numbers. Wherever two triangles share an edge they are cut at the same points of it, whatever else
each of them crosses, so closed surfaces stay closed: an edge is always halved first at that of its planes whose number
has most trailing zeros, and its ends are always taken in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

__all__ = ["Planes", "cut"]


@dataclass(frozen=True)
class Planes:
    """Where an axis is cut: at multiples of `step`, and with `half` also there behind each of them."""

    step: int
    half: int | None = None

    def upto(self, places: Numbers) -> Numbers:
        """The number of the last plane at each place or before it."""
        cells: Numbers = np.floor(places / self.step)
        if self.half is None:
            return cells
        behind: npt.NDArray[np.bool_] = places - cells * self.step >= self.half
        numbers: Numbers = 2 * cells + behind
        return numbers

    def places(self, numbers: Numbers) -> Numbers:
        if self.half is None:
            return numbers * self.step
        cells: Numbers = np.floor(numbers / 2)
        found: Numbers = cells * self.step + (numbers - 2 * cells) * self.half
        return found


def cut(corners: Numbers, planes: Planes) -> Numbers:
    """Triangles [n, corner, axis] of whole numbers, cut along the planes of each axis."""
    for axis in range(3):
        done = []
        while len(corners):
            low, high = corners[:, :, axis].min(1), corners[:, :, axis].max(1)
            first, last = planes.upto(low) + 1, planes.upto(high - 1)
            crossing = first <= last
            done.append(corners[~crossing])
            if not crossing.any():
                break
            number = _roundest(first[crossing], last[crossing])
            corners = _halved(corners[crossing], axis, planes.places(number))
        corners = np.concatenate(done) if done else corners
    return corners


def _roundest(first: Numbers, last: Numbers) -> Numbers:
    """Of the whole numbers from `first` (at least 1) to `last`, that with most trailing zeros."""
    low, high = first.astype(np.int64) - 1, last.astype(np.int64)
    _, bits = np.frexp((low ^ high).astype(np.float64))
    shift = bits.astype(np.int64) - 1
    return ((high >> shift) << shift).astype(np.float64)


def _halved(corners: Numbers, axis: int, plane: Numbers) -> Numbers:
    """Triangles that cross their plane, each cut along it into two or three."""
    side = np.sign(corners[:, :, axis] - plane[:, None])
    touching = (side == 0).any(1)
    # That corner first which lies on the plane, or else alone on its side.
    alone = np.where(touching, np.argmin(np.abs(side), 1), np.argmax(side * -side.sum(1, keepdims=True), 1))
    turned = corners[np.arange(len(corners))[:, None], (alone[:, None] + np.arange(3)) % 3]
    pieces = []
    a, b, c = (turned[touching, i] for i in range(3))
    middle = _crossing(b, c, axis, plane[touching])
    pieces += [np.stack([a, b, middle], 1), np.stack([a, middle, c], 1)]
    a, b, c = (turned[~touching, i] for i in range(3))
    ab, ac = _crossing(a, b, axis, plane[~touching]), _crossing(a, c, axis, plane[~touching])
    pieces += [np.stack([a, ab, ac], 1), np.stack([ab, b, c], 1), np.stack([ab, c, ac], 1)]
    return np.concatenate(pieces)


def _crossing(one: Numbers, other: Numbers, axis: int, plane: Numbers) -> Numbers:
    """Where the edges between these corners cross their planes."""
    swapped = (one[:, axis] > other[:, axis])[:, None]
    low, high = np.where(swapped, other, one), np.where(swapped, one, other)
    part = (plane - low[:, axis]) / (high[:, axis] - low[:, axis])
    found: Numbers = np.rint(low + (high - low) * part[:, None])
    found[:, axis] = plane
    return found
