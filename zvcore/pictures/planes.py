"""Cuts a plane out of an array, or looks through it, in little memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import UnsupportedError
from zvcore.format import get_format

if TYPE_CHECKING:
    import numpy.typing as npt

    from zvcore.array import Array

__all__ = ["View", "plane", "view_of"]

# A projection reads no more than this at a time.
_SLAB = 64 << 20


@dataclass(frozen=True)
class View:
    """How to look at an array.

    across, down   the axes that become the picture's columns and rows; None where there are not so many
    depth          the axis along which one looks, None in two dimensions
    channel        the axis of three colours, if there is one
    others         (axis, index) of the rest
    """

    across: int
    down: int | None
    depth: int | None
    channel: int | None
    others: tuple[tuple[int, int], ...]


def view_of(array: Array, axis: str | int | None = None) -> View:
    """The view along `axis` (a name or a number); by default the one in which a chunk's rows become the picture's."""
    if array.ndim == 0:
        raise UnsupportedError("an array without axes has no picture")
    format = get_format(array.format)
    names = format.axis_names(array)
    spatial = [a for a in range(array.ndim) if names[a].lower() not in ("c", "channel", "t", "time")]
    if len(spatial) < 2:
        spatial = list(range(array.ndim))
    if format.fastest_first(array):
        spatial = spatial[::-1]
    # From slowest to fastest now, whatever the format.
    spatial = spatial[-3:]
    depth = spatial[0] if len(spatial) == 3 else None
    if axis is not None:
        wanted = _axis_number(axis, names)
        if wanted in spatial and len(spatial) == 3:
            depth = wanted
        elif len(spatial) < 3 or wanted not in spatial:
            raise ValueError(f"one cannot look along axis {axis!r} here; the axes are {', '.join(names)}")
    shown = [a for a in spatial if a != depth]
    channel = None
    others = []
    for a in range(array.ndim):
        if a in shown or a == depth:
            continue
        if channel is None and names[a].lower() in ("c", "channel") and array.shape[a] == 3 and array.dtype == np.uint8:
            channel = a
        else:
            others.append((a, 0))
    return View(shown[-1], shown[-2] if len(shown) > 1 else None, depth, channel, tuple(others))


def _axis_number(axis: str | int, names: list[str]) -> int:
    text = str(axis)
    if text in names:
        return names.index(text)
    if text.lstrip("-").isdecimal() and -len(names) <= int(text) < len(names):
        return int(text) % len(names)
    raise ValueError(f"there is no axis {axis!r}; the axes are {', '.join(names)}")


def plane(
    array: Array,
    view: View,
    *,
    index: int | None = None,
    projection: bool = False,
    labels: bool = False,
    size: int = 1024,
    window: int | None = None,
    threads: int | None = None,
) -> npt.NDArray[Any]:
    """[rows, columns] or [rows, columns, 3]: one plane of the array, or everything along the depth at once.

    index       which plane (default: the middle one); negative numbers count from the end
    projection  the largest value along the depth; of labels, the first that is not 0
    size        planes that are larger are thinned out to at most so many pixels along each side
    window      show only so many voxels around the middle
    """
    if 0 in array.shape:
        raise UnsupportedError("an empty array has no picture", key=array.layout.store.root)
    if array.dtype.kind not in "buifc":
        raise UnsupportedError(f"values of type {array.dtype} have no picture", key=array.layout.store.root)
    region: list[Any] = [slice(None)] * array.ndim
    for axis, place in view.others:
        region[axis] = place
    for a in (view.across, view.down):
        if a is not None:
            region[a] = _thinned(array.shape[a], size, window)
    if view.depth is None:
        return _upright(array.read_listed(tuple(region), threads), region, view)
    deep = array.shape[view.depth]
    if not projection:
        place = deep // 2 if index is None else index
        if not -deep <= place < deep:
            raise IndexError(f"plane {place} lies outside of the {deep} that there are")
        region[view.depth] = place
        return _upright(array.read_listed(tuple(region), threads), region, view)
    result: npt.NDArray[Any] | None = None
    for start, stop in _slabs(array, view, region):
        region[view.depth] = slice(start, stop)
        slab = _turned(array.read_listed(tuple(region), threads), region, view)
        if labels:
            found = slab[(slab != 0).argmax(0), *np.indices(slab.shape[1:])]
            result = found if result is None else np.where(result == 0, found, result)
        else:
            if slab.dtype.kind == "c":
                slab = np.abs(slab)
            peak = slab.max(0) if slab.dtype.kind != "f" else np.fmax.reduce(slab, 0)
            result = peak if result is None else np.fmax(result, peak)
    assert result is not None
    return result


def _thinned(extent: int, size: int, window: int | None) -> slice:
    start, stop = 0, extent
    if window is not None and extent > window:
        start = (extent - window) // 2
        stop = start + window
    return slice(start, stop, max(1, math.ceil((stop - start) / size)))


def _slabs(array: Array, view: View, region: list[Any]) -> list[tuple[int, int]]:
    """Ranges of planes, cut where chunks end as far as memory allows."""
    assert view.depth is not None
    pixels = 1
    for axis, item in enumerate(region):
        if axis != view.depth and isinstance(item, slice):
            pixels *= len(range(*item.indices(array.shape[axis])))
    chunk = array.chunks[view.depth]
    most = max(1, _SLAB // max(1, pixels * array.dtype.itemsize))
    step = chunk * (most // chunk) if most >= chunk else most
    return [(at, min(at + step, array.shape[view.depth])) for at in range(0, array.shape[view.depth], step)]


def _turned(values: Any, region: list[Any], view: View) -> npt.NDArray[Any]:
    """The axes that are left in the order depth, rows, columns, colours."""
    array: npt.NDArray[Any] = np.asarray(values)
    left = [axis for axis, item in enumerate(region) if isinstance(item, slice)]
    wanted = [a for a in (view.depth, view.down, view.across, view.channel) if a in left]
    return array.transpose([left.index(a) for a in wanted if a is not None])


def _upright(values: Any, region: list[Any], view: View) -> npt.NDArray[Any]:
    flat = _turned(values, region, view)
    return flat[None] if view.down is None else flat
