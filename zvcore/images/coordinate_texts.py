"""What people write for a place along an axis: 110, 1030:1040, "1030:1040nm", (1030, 1040, "nm")."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

__all__ = ["Bound", "Extent", "parse_extent"]

_NUMBER = re.compile(r"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?)\s*([^\W\d_]*)")


@dataclass(frozen=True)
class Bound:
    """A number of voxels, or of units."""

    number: Fraction
    unit: str | None = None

    def __str__(self) -> str:
        text = str(self.number) if self.number.denominator == 1 else f"{float(self.number):.12g}"
        return text + (self.unit or "")


@dataclass(frozen=True)
class Extent:
    """A place, where `single`, or a range of which the ends may be left open."""

    start: Bound | None
    stop: Bound | None = None
    step: int | None = None
    single: bool = False

    @property
    def has_unit(self) -> bool:
        return any(bound is not None and bound.unit is not None for bound in (self.start, self.stop))

    def __str__(self) -> str:
        if self.single:
            return str(self.start)
        unit = self.stop.unit if self.stop is not None else None
        start = "" if self.start is None else str(Bound(self.start.number) if self.start.unit == unit else self.start)
        return f"{start}:{'' if self.stop is None else self.stop}"


def parse_extent(item: Any, name: str) -> Extent:
    """What was given for the axis of this name. IndexError where it makes no sense."""
    if isinstance(item, str):
        return _of_text(item, name)
    if isinstance(item, slice):
        return _of_slice(item.start, item.stop, item.step, name)
    if isinstance(item, tuple):
        return _of_tuple(item, name)
    return Extent(Bound(Fraction(_whole(item, name))), single=True)


def _of_text(text: str, name: str) -> Extent:
    parts = [part.strip() for part in text.split(":")]
    if len(parts) == 1:
        place = Extent(_bound(parts[0], name), single=True)
        _check_fractions(place, name)
        return place
    if len(parts) > 3:
        raise IndexError(f"{name}: {text!r} is neither a place nor start:stop")
    step: Any = None
    if len(parts) == 3 and parts[2]:
        step = _whole(int(parts[2]) if parts[2].isascii() and parts[2].isdigit() else parts[2], name)
    return _of_slice(parts[0] or None, parts[1] or None, step, name)


def _of_slice(start: Any, stop: Any, step: Any, name: str) -> Extent:
    first, end = _bound(start, name), _bound(stop, name)
    if isinstance(start, str) and first is not None and end is not None and first.unit is None:
        first = Bound(first.number, end.unit)
    if first is not None and end is not None and (first.unit is None) != (end.unit is None):
        raise IndexError(f"{name}: {first}:{end} has a unit at one end only")
    if step is not None:
        step = _whole(step, name)
        if step < 1:
            raise IndexError(f"{name}: slices of coordinates go forwards, not in steps of {step}")
    extent = Extent(first, end, step)
    if extent.has_unit and step not in (None, 1):
        raise IndexError(f"{name}: a range in units has no steps")
    _check_fractions(extent, name)
    return extent


def _of_tuple(item: Any, name: str) -> Extent:
    """(place, unit) or (start, stop, unit)."""
    if len(item) not in (2, 3) or not isinstance(item[-1], str):
        raise IndexError(f"{name}: {item!r} is neither (place, unit) nor (start, stop, unit)")
    bounds = [None if number is None else _bound(f"{number}{item[-1]}", name) for number in item[:-1]]
    if len(bounds) == 1:
        if bounds[0] is None:
            raise IndexError(f"{name}: {item!r} names no place")
        return Extent(bounds[0], single=True)
    return Extent(bounds[0], bounds[1])


def _bound(value: Any, name: str) -> Bound | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return Bound(Fraction(_whole(value, name)))
    match = _NUMBER.fullmatch(value.strip())
    if match is None:
        raise IndexError(f"{name}: {value!r} is no place such as 110 or 1030nm")
    return Bound(Fraction(match[1]), match[2] or None)


def _check_fractions(extent: Extent, name: str) -> None:
    for bound in (extent.start, extent.stop):
        if bound is not None and bound.unit is None and bound.number.denominator != 1:
            raise IndexError(f"{name}: {bound} is not a whole number of voxels, and has no unit")


def _whole(value: Any, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise IndexError(
            f"{name}: coordinates are whole numbers of voxels, slices, or texts such as '5um', not {value!r}"
        ) from None
