"""Which attributes the conventions of pyramids use, and what of them is understood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.images.cosem import KNOWN
from zvcore.images.remainder import remainder

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PIXEL_RESOLUTION", "name_of", "taken_of_group", "taken_of_level"]

PIXEL_RESOLUTION: dict[str, Any] = {"unit": True, "dimensions": True}
_COSEM = [{"name": True, "datasets": [{"path": True, "transform": KNOWN}], "path": True, "transform": KNOWN}]
# For each convention: attributes of the group, and of its levels, with what is understood of each.
_TABLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "n5-viewer": (
        {"scales": True, "downsamplingFactors": True, "pixelResolution": PIXEL_RESOLUTION, "affineTransform": True},
        {"downsamplingFactors": True, "pixelResolution": PIXEL_RESOLUTION, "affineTransform": True},
    ),
    "bdv": (
        {"downsamplingFactors": True, "resolution": True, "offset": True, "unit": True, "multiScale": True},
        {"downsamplingFactors": True},
    ),
    "paintera": (
        {"resolution": True, "offset": True, "unit": True, "multiScale": True, "downsamplingFactors": True},
        {"downsamplingFactors": True},
    ),
    "cosem": ({"multiscales": _COSEM}, {"transform": KNOWN}),
    "neuroglancer": (
        {"axes": True, "units": True, "resolution": True, "downsamplingFactors": True, "scales": True},
        {"downsamplingFactors": True},
    ),
}  # fmt: skip


def taken_of_group(convention: str, attrs: Mapping[str, Any]) -> tuple[frozenset[str], tuple[str, ...]]:
    """(the attributes of a group that say where its levels lie, what in them is not understood)."""
    return _taken(_TABLES[convention][0], attrs)


def taken_of_level(convention: str, attrs: Mapping[str, Any]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The same of a level."""
    return _taken(_TABLES[convention][1], attrs)


def _taken(table: Mapping[str, Any], attrs: Mapping[str, Any]) -> tuple[frozenset[str], tuple[str, ...]]:
    found = {name: attrs[name] for name in table if name in attrs}
    untold = [path for name, value in found.items() for path in _beyond(name, value, table[name])]
    return frozenset(found), tuple(untold)


def _beyond(name: str, value: Any, table: Any) -> list[str]:
    return [f"{name}{'' if path.startswith('[') else '.'}{path}" for path in remainder(value, table)]


def name_of(convention: str, attrs: Mapping[str, Any]) -> str | None:
    """What COSEM's convention calls the image."""
    entries = attrs.get("multiscales") if convention == "cosem" else None
    named = entries[0].get("name") if isinstance(entries, list) and entries and isinstance(entries[0], dict) else None
    return named if isinstance(named, str) and named else None
