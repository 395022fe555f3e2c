"""Where voxels lie: names, units, sizes and offsets of axes, read from and written for each format.

In between, an axis is an `Axis`, in the order in which the array at hand has its axes. An offset is where the centre of
the first voxel lies. Volumes count from the corner of the first voxel of the finest scale instead; what is converted
keeps the places of voxels relative to each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zvcore.documents.values import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.array import Array
    from zvcore.converting.view import View

__all__ = ["Axes", "Axis", "as_axes", "coarser", "in_nanometers", "read_axes", "seen", "volume_place"]


@dataclass(frozen=True)
class Axis:
    """One axis; None where nothing is known."""

    name: str | None = None
    unit: str | None = None
    scale: float | None = None
    offset: float = 0.0


Axes = tuple[Axis, ...]

_METERS = {
    "angstrom": 0.1, "nm": 1.0, "nanometer": 1.0, "nanometers": 1.0, "nanometre": 1.0, "um": 1e3, "µm": 1e3, "μm": 1e3,
    "micrometer": 1e3, "micrometers": 1e3, "micrometre": 1e3, "micron": 1e3, "microns": 1e3, "mm": 1e6,
    "millimeter": 1e6, "millimetre": 1e6, "cm": 1e7, "centimeter": 1e7, "m": 1e9, "meter": 1e9, "metre": 1e9,
    "pm": 1e-3, "picometer": 1e-3,
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
_NO_UNIT = ("", "pixel", "px", "voxel", "pixels")


def long_unit(unit: str | None) -> str | None:
    return None if unit is None or unit.lower() in _NO_UNIT else _LONG.get(unit, unit)


def short_unit(unit: str | None) -> str:
    return "pixel" if unit is None or unit.lower() in _NO_UNIT else _SHORT.get(unit, unit)


def nanometers(unit: str | None) -> float:
    """How many nanometers a unit is; 1 for what is no length."""
    return 1.0 if unit is None else _METERS.get(unit, 1.0)


def plain(number: float) -> float:
    """A float that is a whole number, as one: documents look better so."""
    rounded = round(number, 9)
    return int(rounded) if float(rounded).is_integer() and abs(rounded) < 2**53 else float(rounded)


# --- reading what one array says of itself


def read_axes(array: Array) -> Axes:
    """What an array says of its axes."""
    if array.format == "precomputed":
        return _volume_axes(array)
    attrs = array.attrs
    if array.format == "n5":
        turned = array.order == "C" and array.ndim > 1
        found = _n5_axes(attrs, array.ndim)
        return found[::-1] if turned else found
    names = getattr(array, "dimension_names", None)
    found = tuple(Axis(name) for name in names) if names is not None else (Axis(),) * array.ndim
    return _with_transform(found, attrs.get("transform"), default="C", own="C")


def _volume_axes(array: Any) -> Axes:
    places = [
        Axis(name, "nm", float(size), float(offset * size))
        for name, size, offset in zip("xyz", array.resolution, array.voxel_offset, strict=True)
    ]
    return (*places, Axis("c"))


def _numbers(value: Any, count: int) -> list[float] | None:
    if not isinstance(value, list) or len(value) != count:
        return None
    if not all(map(is_number, value)):
        return None
    return [float(n) for n in value]


def _texts(value: Any, count: int) -> list[str] | None:
    if not isinstance(value, list) or len(value) != count or not all(isinstance(text, str) for text in value):
        return None
    return value


def _with_transform(axes: Axes, transform: Any, default: str, own: str) -> Axes:
    """Axes with what a COSEM `transform` says of them, whose lists stand in the order "C" unless it says "F"."""
    if not isinstance(transform, dict):
        return axes
    turn = -1 if transform.get("ordering", default) != own else 1
    count = len(axes)
    scale = _numbers(transform.get("scale"), count)
    if scale is None or any(n <= 0 for n in scale):
        return axes
    offset = _numbers(transform.get("translate"), count) or [0.0] * count
    units: Sequence[str | None] = _texts(transform.get("units"), count) or [None] * count
    names: Sequence[str | None] = _texts(transform.get("axes"), count) or [None] * count
    said = zip(axes, scale[::turn], offset[::turn], units[::turn], names[::turn], strict=True)
    return tuple(Axis(axis.name or name, unit, size, place) for axis, size, place, unit, name in said)


def _n5_axes(attrs: Mapping[str, Any], rank: int) -> Axes:
    # N5 has no names of its own, but everyone calls the first three axes so.
    names: Sequence[str | None] = _texts(attrs.get("axes"), rank) or (
        ["x", "y", "z"][:rank] if rank <= 3 else [None] * rank
    )
    axes = tuple(Axis(name) for name in names)
    if isinstance(attrs.get("transform"), dict):
        return _with_transform(axes, attrs["transform"], default="C", own="F")
    given = attrs.get("pixelResolution")
    if given is not None:
        unit = given.get("unit") if isinstance(given, dict) else None
        base = _numbers(given.get("dimensions") if isinstance(given, dict) else given, rank)
        factors = _numbers(attrs.get("downsamplingFactors"), rank) or [1.0] * rank
        if base is not None and all(n > 0 for n in base):
            return tuple(
                Axis(axis.name, unit if isinstance(unit, str) else None, size * factor, (factor - 1) / 2 * size)
                for axis, size, factor in zip(axes, base, factors, strict=True)
            )
        return axes
    sizes = _numbers(attrs.get("resolution"), rank)
    if sizes is None or any(n <= 0 for n in sizes):
        return axes
    units: Sequence[str | None] = _texts(attrs.get("units"), rank) or [None] * rank
    offset = _numbers(attrs.get("offset"), rank) or [0.0] * rank
    return tuple(
        Axis(axis.name, unit, size, place) for axis, unit, size, place in zip(axes, units, sizes, offset, strict=True)
    )


# --- from one order of axes to another


def seen(axes: Axes, view: View) -> Axes:
    """The axes of a view: in its order, and beginning where it begins."""
    found = []
    for axis in view.axes:
        if axis is None:
            found.append(Axis())
            continue
        start = view.start[axis]
        known = axes[axis]
        found.append(replace(known, offset=known.offset + start * (1.0 if known.scale is None else known.scale)))
    return tuple(found)


def coarser(axes: Axes, factors: Sequence[int]) -> Axes:
    """The axes of a level whose voxels are boxes of so many voxels."""
    found = []
    for axis, factor in zip(axes, factors, strict=True):
        size = 1.0 if axis.scale is None else axis.scale
        found.append(replace(axis, scale=size * factor, offset=axis.offset + (factor - 1) / 2 * size))
    return tuple(found)


def as_axes(names: Sequence[str | None]) -> Axes:
    return tuple(Axis(name) for name in names)


# --- for volumes


def in_nanometers(axes: Axes) -> tuple[float, ...]:
    """The resolution of a volume."""
    return tuple(plain((1.0 if axis.scale is None else axis.scale) * nanometers(axis.unit)) for axis in axes[:3])


def volume_place(axes: Axes, finest: Axes) -> tuple[tuple[int, ...], bool]:
    """(voxel_offset of a scale, whether it is exact). Offsets of volumes are whole numbers of voxels."""
    offset = []
    exact = True
    for axis, first in zip(axes[:3], finest[:3], strict=True):
        size = 1.0 if axis.scale is None else axis.scale
        base = 1.0 if first.scale is None else first.scale
        place = (axis.offset - (size - base) / 2) / size
        offset.append(round(place))
        exact = exact and abs(place - round(place)) < 1e-6
    return tuple(offset), exact
