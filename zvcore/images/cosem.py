"""The attribute `transform` as COSEM has it, by which arrays of N5 and of Zarr say where they lie on their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.images.axes import Axes, Axis, all_named, long_unit, numbers, plain, short_unit, size_of, texts
from zvcore.images.remainder import remainder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["KNOWN", "read_transform", "transform", "understood"]

# What is understood of a transform.
KNOWN = {"axes": True, "ordering": True, "scale": True, "translate": True, "units": True}


def understood(attrs: Mapping[str, Any], rank: int) -> tuple[frozenset[str], tuple[str, ...]]:
    """(the attributes by which an array of this many axes says where it lies, what in them is not understood)."""
    found = attrs.get("transform")
    nothing = (Axis(),) * rank
    if not isinstance(found, dict) or read_transform(nothing, found, fastest_first=False) is nothing:
        return frozenset(), ()
    return frozenset({"transform"}), tuple(f"transform.{path}" for path in remainder(found, KNOWN))


def read_transform(axes: Axes, found: Any, *, fastest_first: bool) -> Axes:
    """Axes with what a `transform` says of them. Its lists stand from the slowest axis on unless `ordering` is "F"."""
    if not isinstance(found, dict):
        return axes
    turn = -1 if (found.get("ordering", "C") == "C") == fastest_first else 1
    count = len(axes)
    scale = numbers(found.get("scale"), count)
    if scale is None or any(n <= 0 for n in scale):
        return axes
    offset = numbers(found.get("translate"), count) or [0.0] * count
    units: Sequence[str | None] = texts(found.get("units"), count) or [None] * count
    names: Sequence[str | None] = texts(found.get("axes"), count) or [None] * count
    said = zip(axes, scale[::turn], offset[::turn], units[::turn], names[::turn], strict=True)
    return tuple(Axis(axis.name or name, unit, size, place, axis.type) for axis, size, place, unit, name in said)


def transform(axes: Axes, *, short: bool) -> dict[str, Any]:
    """The attribute for axes from the slowest on; `short`: units as the conventions of N5 spell them."""
    unit = short_unit if short else (lambda one: long_unit(one) or "")
    return {
        "axes": [axis.name for axis in all_named(axes)],
        "scale": [size_of(axis) for axis in axes],
        "translate": [plain(axis.offset, size_of(axis)) for axis in axes],
        "units": [unit(axis.unit) for axis in axes],
    }
