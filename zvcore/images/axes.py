"""Axes: names, units, sizes of voxels, and where the first voxel lies.

An axis is an `Axis`, in the order in which the array at hand has its axes. An offset is where the centre of the first
voxel lies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from zvcore.documents.values import is_number, whole_if_possible
from zvcore.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Axes",
    "Axis",
    "all_named",
    "coarser",
    "comparable_sizes",
    "default_names",
    "is_length",
    "is_spatial",
    "known",
    "long_unit",
    "nanometers",
    "numbers",
    "plain",
    "refuse_beyond_floats",
    "short_unit",
    "size_of",
    "texts",
    "unit_ratio",
]


@dataclass(frozen=True)
class Axis:
    """One axis; None where nothing is known. `type`: "space", "time", "channel", or a word of its author's."""

    name: str | None = None
    unit: str | None = None
    scale: float | None = None
    offset: float = 0.0
    type: str | None = None


Axes = tuple[Axis, ...]

_NANOMETERS = {
    "angstrom": 0.1, "nm": 1.0, "nanometer": 1.0, "nanometers": 1.0, "nanometre": 1.0, "um": 1e3, "µm": 1e3, "μm": 1e3,
    "micrometer": 1e3, "micrometers": 1e3, "micrometre": 1e3, "micron": 1e3, "microns": 1e3, "mm": 1e6,
    "millimeter": 1e6, "millimetre": 1e6, "cm": 1e7, "centimeter": 1e7, "m": 1e9, "meter": 1e9, "metre": 1e9,
    "pm": 1e-3, "picometer": 1e-3,
}  # fmt: skip
_SECONDS = {
    "fs": 1e-15, "ps": 1e-12, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0,
    "nanosecond": 1e-9, "microsecond": 1e-6, "millisecond": 1e-3, "second": 1.0, "seconds": 1.0, "min": 60.0,
    "minute": 60.0, "minutes": 60.0, "h": 3600.0, "hour": 3600.0, "hours": 3600.0,
}  # fmt: skip
# Names as OME-Zarr has them (UDUNITS-2), and short ones as the N5 conventions do.
_LONG = {
    "nm": "nanometer", "um": "micrometer", "µm": "micrometer", "μm": "micrometer", "micron": "micrometer",
    "microns": "micrometer", "mm": "millimeter", "cm": "centimeter", "m": "meter", "pm": "picometer", "s": "second",
    "ms": "millisecond", "nanometers": "nanometer", "micrometers": "micrometer", "nanometre": "nanometer",
    "micrometre": "micrometer", "millimetre": "millimeter", "metre": "meter",
}  # fmt: skip
_SHORT = {
    "nanometer": "nm", "micrometer": "um", "millimeter": "mm", "centimeter": "cm", "meter": "m", "picometer": "pm",
    "second": "s", "millisecond": "ms",
}  # fmt: skip
# Parts of a voxel that are too few to be meant.
_NOISE = 1e-9
_NO_UNIT = ("", "pixel", "px", "voxel", "pixels")


def long_unit(unit: str | None) -> str | None:
    """A unit as OME-Zarr spells it; None for voxels."""
    return None if unit is None or unit.lower() in _NO_UNIT else _LONG.get(unit, unit)


def short_unit(unit: str | None) -> str:
    """A unit as the conventions of N5 spell it."""
    return "pixel" if unit is None or unit.lower() in _NO_UNIT else _SHORT.get(unit, unit)


def nanometers(unit: str | None) -> float:
    """How many nanometers a unit is; 1 for units that are not lengths."""
    return 1.0 if unit is None else _NANOMETERS.get(unit, 1.0)


def is_length(unit: str | None) -> bool:
    """Whether a unit is one of length, or says that none is known."""
    return long_unit(unit) is None or unit in _NANOMETERS


def is_spatial(axis: Axis) -> bool:
    """Whether an axis is called x, y or z."""
    return axis.name is not None and axis.name.lower() in ("x", "y", "z")


def comparable_sizes(axes: Sequence[Axis]) -> list[float] | None:
    """The sizes of voxels along axes in one unit; None where they are unknown or have no unit in common."""
    units = [long_unit(axis.unit) for axis in axes]
    alike = len(set(units)) == 1
    if not alike and not all(axis.unit in _NANOMETERS for axis in axes):
        return None
    sizes = [axis.scale for axis in axes]
    if not all(size is not None and 0 < size < math.inf for size in sizes):
        return None
    found = [size * (1.0 if alike else nanometers(axis.unit)) for size, axis in zip(sizes, axes, strict=True) if size]
    return found if all(map(math.isfinite, found)) else None


def unit_ratio(unit: str, other: str | None) -> Fraction | None:
    """How many of the other unit this one is, exactly; None where they measure different things."""
    if other is not None and (unit == other or long_unit(unit) == long_unit(other) is not None):
        return Fraction(1)
    for known_units in (_NANOMETERS, _SECONDS):
        if unit in known_units and other in known_units:
            return Fraction(repr(known_units[unit])) / Fraction(repr(known_units[other]))
    return None


def plain(number: float, size: float = 0.0) -> float:
    """A size or place as documents have it: without the noise of arithmetic.

    Noise makes long numbers of short ones, whatever the unit: voxels of 4.5e-9 m are as good as those of 4.5 nm. Of a
    place, `size` is that of a voxel: what sums and differences leave beside it is nothing.
    """
    if abs(number) < _NOISE * size:
        return 0
    short = float(f"{number:.14g}")
    return whole_if_possible(short if len(repr(short)) + 5 <= len(repr(float(number))) else number)


def size_of(axis: Axis) -> float:
    """The size of a voxel, 1 where it is not given."""
    return plain(1.0 if axis.scale is None else axis.scale)


def known(axes: Axes) -> bool:
    """Whether anything is known of where voxels lie."""
    return any(axis.scale is not None for axis in axes) or any(axis.offset for axis in axes)


def coarser(axes: Axes, factors: Sequence[int]) -> Axes:
    """The axes of a level whose voxels are boxes of so many voxels."""
    found = []
    for axis, factor in zip(axes, factors, strict=True):
        size = 1.0 if axis.scale is None else axis.scale
        larger, offset = size * factor, axis.offset + (factor - 1) / 2 * size
        refuse_beyond_floats(larger, offset)
        found.append(replace(axis, scale=larger, offset=offset))
    return tuple(found)


def refuse_beyond_floats(*numbers: float) -> None:
    """Of sizes that documents may have, larger ones and those in other units may be infinite, and of places with them
    nothing is left.
    """
    for number in numbers:
        if not math.isfinite(number):
            raise UnsupportedError("sizes or places of voxels beyond what a float can hold", found=number)


def default_names(rank: int) -> tuple[str, ...]:
    """What axes without names are called, from the slowest to the fastest."""
    return ("t", "c", "z", "y", "x")[-rank:] if 0 < rank <= 5 else tuple(f"dim_{i}" for i in range(rank))


def all_named(axes: Axes) -> Axes:
    """The same axes; those that have no name have the one that documents give them then, or another that is free."""
    taken = {axis.name for axis in axes}
    names = default_names(len(axes))
    free = iter([*(name for name in names if name not in taken), *(f"dim_{i}" for i in range(len(axes) * 2))])
    found = []
    for axis, usual in zip(axes, names, strict=True):
        name = axis.name or (usual if usual not in taken else next(one for one in free if one not in taken))
        taken.add(name)
        found.append(replace(axis, name=name))
    return tuple(found)


# --- values of documents


def numbers(value: Any, count: int) -> list[float] | None:
    """A list of so many finite numbers as floats; None if it is something else."""
    if not isinstance(value, list) or len(value) != count or not all(map(is_number, value)):
        return None
    return [float(n) for n in value]


def texts(value: Any, count: int) -> list[str] | None:
    """A list of so many texts; None if it is something else."""
    if not isinstance(value, list) or len(value) != count or not all(isinstance(text, str) for text in value):
        return None
    return value
