"""`array.at`: an array in the coordinates of what it shows, in voxels or in units of length and time.

A voxel begins where the format says that it lies, and ends where the next one begins. OME-Zarr and N5 say where the
*centres* of voxels lie: there a voxel of the finest level at 0 begins at 0, as in a volume that the image would be
converted to, and coarser voxels begin where the first of the finer ones does that they are made of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, overload

from zvcore.images.axes import default_names, long_unit, short_unit, unit_ratio
from zvcore.images.coordinate_texts import Bound, Extent, parse_extent
from zvcore.typed import Item

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from zvcore.array import Array
    from zvcore.images.axes import Axes
    from zvcore.typed import Box, Spot

__all__ = ["Coordinates", "Span", "spans_of"]

# What documents say in decimals is off by so many voxels at most, or by so much of a large number; it is taken for the
# whole number that was meant.
_NOISE = Fraction(1, 10**6)
_NOISE_OF_LARGE = Fraction(1, 10**12)


@dataclass(frozen=True)
class Span:
    """Where one axis lies.

    first   the coordinate of its first voxel, counted in voxels; a fraction where images say such a thing
    count   how many voxels there are
    size    of a voxel, in `unit`; None where nothing says it
    """

    name: str
    first: Fraction
    count: int
    size: Fraction | None = None
    unit: str | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """(first, end) in whole voxels."""
        if self.first.denominator != 1:
            unit = self.unit or "nm"
            raise IndexError(
                f"{self.name}: the first voxel lies at {float(self.first):.6g} voxels, which is not a whole number: "
                f"say places in units such as {unit}, or use a[...]"
            )
        return int(self.first), int(self.first) + self.count

    def __str__(self) -> str:
        first, end = self.first, self.first + self.count
        text = f"{self.name} {_text(first)}:{_text(end)}"
        return (
            text if self.size is None else f"{text} ({_text(first * self.size)}:{_text(end * self.size)} {self.unit})"
        )


def _text(number: Fraction) -> str:
    return str(int(number)) if number.denominator == 1 else f"{float(number):.9g}"


def spans_of(shape: Sequence[int], axes: Axes, finest: Axes) -> tuple[Span, ...]:
    """Where an array with these axes lies; `finest` are those of the finest level of its image."""
    found = []
    for count, axis, first, name in zip(shape, axes, finest, default_names(len(axes)), strict=True):
        size, base = _exact(axis.scale) or Fraction(1), _exact(first.scale) or Fraction(1)
        begin = ((_exact(axis.offset) or Fraction(0)) - (size - base) / 2) / size
        unit = None if axis.scale is None or long_unit(axis.unit) is None else short_unit(axis.unit)
        found.append(Span(axis.name or name, _cleaned(begin), count, None if unit is None else size, unit))
    return tuple(found)


def _exact(number: float | None) -> Fraction | None:
    """A number of a document as its decimals say it."""
    return None if number is None or not math.isfinite(number) else Fraction(repr(float(number)))


def _cleaned(number: Fraction) -> Fraction:
    whole = round(number)
    return Fraction(whole) if abs(number - whole) <= max(_NOISE, _NOISE_OF_LARGE * abs(whole)) else number


class Coordinates(Generic[Item]):
    """`array.at`: `a.at[x0:x1, y]` in voxels, `a.at["1030:1040nm", ...]` in units; what lies outside is an error.

    A range in units has to begin and end where voxels do; `a.at.touching[...]` takes every voxel that a range touches.
    A place in units is the voxel in which it lies.
    """

    def __init__(self, array: Array[Item], spans: Sequence[Span], touching: bool = False) -> None:
        self._array = array
        self.spans = tuple(spans)
        self._touching = touching

    def __repr__(self) -> str:
        return f"<coordinates {', '.join(map(str, self.spans))}>"

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """(first, end) along each axis, in voxels."""
        return tuple(span.bounds for span in self.spans)

    @property
    def touching(self) -> Coordinates[Item]:
        """The same, for ranges in units that begin or end within a voxel: these are taken whole."""
        return Coordinates(self._array, self.spans, True)

    @overload
    def __getitem__(self, key: Spot) -> Any: ...
    @overload
    def __getitem__(self, key: Box) -> npt.NDArray[Item]: ...
    def __getitem__(self, key: Any) -> Any:
        return self._array[self.region(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._array[self.region(key)] = value

    def region(self, key: Any) -> tuple[Any, ...]:
        """What to put into the brackets of `array[...]` for these coordinates: integers and slices from zero on."""
        return tuple(_within(extent, span, self._touching) for extent, span in self._extents(key))

    def widened(self, key: Any) -> list[str]:
        """What `touching` takes beyond what was asked for, one line for each axis."""
        found = []
        for extent, span in self._extents(key):
            part = _within(extent, span, True)
            if isinstance(part, slice) and extent.has_unit and not _fits(extent, span):
                begin, end = span.first + part.start, span.first + part.stop
                assert span.size is not None
                found.append(
                    f"{span.name}: {extent} cuts voxels of {_text(span.size)} {span.unit}; taken: "
                    f"{_text(begin * span.size)}:{_text(end * span.size)} {span.unit}"
                )
        return found

    def _extents(self, key: Any) -> list[tuple[Extent, Span]]:
        keys = [part.strip() for part in key.strip().strip("[]").split(",")] if isinstance(key, str) else key
        keys = list(keys) if isinstance(keys, tuple) or isinstance(key, str) else [keys]
        keys = [... if isinstance(one, str) and one.strip() == "..." else one for one in keys]
        if sum(one is Ellipsis for one in keys) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        rank = len(self.spans)
        given = sum(one is not Ellipsis for one in keys)
        if given > rank:
            raise IndexError(f"too many indices: the array has {rank} dimensions, {given} were given")
        place = next((i for i, one in enumerate(keys) if one is Ellipsis), len(keys))
        keys[place : place + 1] = [slice(None)] * (rank - given)
        return [(parse_extent(one, span.name), span) for one, span in zip(keys, self.spans, strict=True)]


def _within(extent: Extent, span: Span, touching: bool) -> Any:
    """A coordinate or range as one that counts from zero. What lies outside is an error, not cut."""
    if extent.stop is None and extent.single:
        assert extent.start is not None
        place = _cleaned(_voxels(extent.start, span))
        index = math.floor(place)
        if not 0 <= index < span.count:
            raise IndexError(f"{span.name}: {extent} does not lie within {_range(extent, span)}")
        return index
    start = Fraction(0) if extent.start is None else _voxels(extent.start, span)
    stop = Fraction(span.count) if extent.stop is None else _voxels(extent.stop, span)
    start, stop = _cleaned(start), _cleaned(stop)
    if not 0 <= start <= stop <= span.count:
        raise IndexError(f"{span.name}: {extent} does not lie within {_range(extent, span)}")
    if not touching and (start.denominator != 1 or stop.denominator != 1):
        raise IndexError(_cut(extent, span, math.floor(start), math.ceil(stop)))
    return slice(math.floor(start), math.ceil(stop), extent.step)


def _fits(extent: Extent, span: Span) -> bool:
    ends = [_cleaned(_voxels(bound, span)) for bound in (extent.start, extent.stop) if bound is not None]
    return all(end.denominator == 1 for end in ends)


def _voxels(bound: Bound, span: Span) -> Fraction:
    """How many voxels behind the first one a coordinate lies."""
    if bound.unit is None:
        return bound.number - span.bounds[0]
    if span.size is None:
        raise IndexError(
            f"{span.name}: {bound} cannot be found, as nothing says how large a voxel is along {span.name}"
        )
    ratio = unit_ratio(bound.unit, span.unit)
    if ratio is None:
        raise IndexError(f"{span.name}: {bound} is not a place along an axis in {span.unit}")
    return bound.number * ratio / span.size - span.first


def _range(extent: Extent, span: Span) -> str:
    """What there is along an axis, in the unit in which it was asked for."""
    if not extent.has_unit:
        first, end = span.bounds
        return f"{first}:{end}"
    assert span.size is not None
    return f"{_text(span.first * span.size)}:{_text((span.first + span.count) * span.size)} {span.unit}"


def _cut(extent: Extent, span: Span, start: int, stop: int) -> str:
    assert span.size is not None
    begin, end = (_text((span.first + n) * span.size) for n in (start, stop))
    return (
        f"{span.name}: {extent} begins or ends within a voxel, which has {_text(span.size)} {span.unit}; the voxels "
        f"that it touches are {begin}:{end} {span.unit} (`touching` takes these)"
    )
