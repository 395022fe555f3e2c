"""Which annotations meet a box: points, boxes, ellipsoids and lines against boxes with their borders, in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["bounds_of", "meet_box"]

F64 = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def bounds_of(type: str, columns: Mapping[str, Any]) -> tuple[F64, F64]:
    """The lowest and the highest corner of each annotation."""
    if type == "point":
        at = columns["point"].astype(np.float64)
        return at, at
    if type == "ellipsoid":
        center, radii = columns["center"].astype(np.float64), np.abs(columns["radii"].astype(np.float64))
        return center - radii, center + radii
    if type == "polyline":
        points = columns["points"]
        return _reduced(np.minimum, points, np.inf), _reduced(np.maximum, points, -np.inf)
    a, b = columns["point_a"].astype(np.float64), columns["point_b"].astype(np.float64)
    return np.minimum(a, b), np.maximum(a, b)


def _reduced(function: Any, points: Any, nothing: float) -> F64:
    """One row for each line; of a line without points, what meets no box."""
    found = np.full((len(points), points.values.shape[1]), nothing)
    some = np.flatnonzero(points.lengths)
    if len(some):
        found[some] = function.reduceat(points.values.astype(np.float64), points.offsets[some], axis=0)
    return found


def meet_box(type: str, columns: Mapping[str, Any], low: F64, high: F64) -> Flags:
    """Which of the annotations have a point in common with their box: low..high, or row by row low[i]..high[i]."""
    lowest, highest = bounds_of(type, columns)
    near: Flags = np.all((lowest <= high) & (highest >= low), axis=1)
    if type in ("point", "axis_aligned_bounding_box"):
        return near
    # What only its own box meets is looked at more closely.
    rows = np.flatnonzero(near)
    if low.ndim == 2:
        low, high = low[rows], high[rows]
    if type == "ellipsoid":
        near[rows] = _ellipsoids(columns["center"][rows], columns["radii"][rows], low, high)
    elif type == "line":
        near[rows] = _segments(columns["point_a"][rows], columns["point_b"][rows], low, high)
    else:
        near[rows] = _lines(columns["points"].take(rows), low, high)
    return near


def _ellipsoids(center: Any, radii: Any, low: F64, high: F64) -> Flags:
    """The point of the box that is nearest to the centre lies in the ellipsoid; axis by axis, radii may be 0."""
    center, radii = center.astype(np.float64), np.abs(radii.astype(np.float64))
    away = np.abs(np.clip(center, low, high) - center)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(away == 0, 0.0, away / radii)
    found: Flags = (parts**2).sum(axis=1) <= 1
    return found


def _segments(a: Any, b: Any, low: F64, high: F64) -> Flags:
    """Where on its way from a to b each segment is between low and high along every axis at once."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    way = b - a
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (low - a) / way, (high - a) / way
    still = way == 0
    inside = (a >= low) & (a <= high)
    enter = np.where(still, np.where(inside, 0.0, np.inf), np.minimum(one, other)).max(axis=1, initial=0)
    leave = np.where(still, np.where(inside, 1.0, -np.inf), np.maximum(one, other)).min(axis=1, initial=1)
    # Rounding must not lose a segment that touches a corner.
    found: Flags = enter <= leave + 1e-9
    return found


def _lines(points: Any, low: F64, high: F64) -> Flags:
    """Whether any of the segments does, or the only point."""
    values, offsets = points.values, points.offsets
    found = np.zeros(len(points), np.bool_)
    owner = np.repeat(np.arange(len(points)), points.lengths)
    if not len(values):
        return found
    last = np.zeros(len(values), np.bool_)
    last[offsets[1:][points.lengths > 0] - 1] = True
    alone = points.lengths[owner] == 1
    begins = np.flatnonzero(~last | alone)
    ends = np.where(alone[begins], begins, begins + 1)
    of = owner[begins]
    boxes = (low[of], high[of]) if low.ndim == 2 else (low, high)
    np.logical_or.at(found, of, _segments(values[begins], values[ends], *boxes))
    return found
