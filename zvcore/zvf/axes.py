"""Axes of a store: what coordinates are called, and what they are measured in, as OME-Zarr has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zvcore.documents import as_json
from zvcore.images.axes import Axis, is_length, long_unit, unit_ratio

if TYPE_CHECKING:
    from zvcore.zvf.vector_store import VectorStore

__all__ = ["MILLIMETER", "NANOMETER", "axes_document", "axes_of", "dimensions_of", "in_nanometers"]

NANOMETER, MILLIMETER = "nanometer", "millimeter"
_NAMES = ("x", "y", "z", "t")
_OF_NEW = ("x", "y", "z", "w")


def axes_of(source: VectorStore) -> list[Axis]:
    """What a store says of each coordinate, as far as it does."""
    scales = source.node.attrs.get("multiscales")
    first = scales[0] if isinstance(scales, list) and scales else None
    said = first.get("axes") if isinstance(first, dict) else None
    said = said if isinstance(said, list) and len(said) == source.ndim else [None] * source.ndim
    return [Axis(_text(one, "name"), long_unit(_text(one, "unit"))) for one in said]


def _text(said: Any, name: str) -> str | None:
    found = said.get(name) if isinstance(said, dict) else None
    return found if isinstance(found, str) else None


def in_nanometers(axes: Sequence[Axis], otherwise: str = NANOMETER) -> tuple[list[float], list[str]]:
    """(how many nanometers the unit of each axis has, the units that are no lengths, in words).

    `otherwise`: the unit of an axis that has none.
    """
    untold = [
        f"the unit {axis.unit!r:.60} of the axis {axis.name!r:.60} is no length" for axis in axes if not _is_known(axis)
    ]
    return [float(unit_ratio(axis.unit or otherwise, "nm") or 1) for axis in axes], untold


def _is_known(axis: Axis) -> bool:
    return axis.unit is None or is_length(axis.unit)


def dimensions_of(axes: Sequence[Axis]) -> tuple[dict[str, tuple[float, str]], list[str]]:
    """({name: (scale, unit)} as annotations have it, what the axes do not say, in words)."""
    names = [axis.name or "" for axis in axes]
    if not all(names) or len(set(names)) < len(names):
        names = [_NAMES[number] if number < len(_NAMES) else f"d{number}" for number in range(len(axes))]
    found: dict[str, tuple[float, str]] = {}
    losses = []
    for name, axis in zip(names, axes, strict=True):
        unit = axis.unit or NANOMETER
        base, ratio = next(((base, ratio) for base in ("m", "s") if (ratio := unit_ratio(unit, base))), ("m", None))
        if ratio is None:
            losses.append(
                f"the unit {unit!r:.60} of the coordinate {name!r:.60} is not known, and is taken for nanometers"
            )
        found[name] = (1e-9 if ratio is None else float(ratio), base)
    if any(axis.unit is None for axis in axes):
        losses.append("coordinates are taken to be nanometers; give dimensions= for others")
    return found, losses


def axes_document(given: Sequence[Mapping[str, str]] | None, ndim: int) -> list[dict[str, str]]:
    """Axes as a new store declares them; `given`: {"name": "x", "unit": "micrometer"} of each, of which both may be
    missing.
    """
    own = _OF_NEW[:ndim] if ndim <= len(_OF_NEW) else [f"d{axis}" for axis in range(ndim)]
    said = [{}] * ndim if given is None else [*given]
    if len(said) != ndim or not all(isinstance(one, Mapping) and not one.keys() - {"name", "unit"} for one in said):
        raise ValueError(f"axes are {ndim} times a name and a unit, not {given!r}")
    names = [one.get("name", name) for one, name in zip(said, own, strict=True)]
    units = [one.get("unit") for one in said]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < ndim:
        raise ValueError(f"axes have different names, not {names}")
    if not all(unit is None or (isinstance(unit, str) and unit) for unit in units):
        raise ValueError(f"units of axes are words, not {units}")
    found: list[dict[str, str]] = as_json(
        [
            {"name": name, "type": "space", **({} if unit is None else {"unit": unit})}
            for name, unit in zip(names, units, strict=True)
        ],
        "axes",
    )
    return found
