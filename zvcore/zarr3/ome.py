"""OME-Zarr: what the attributes of a group say of the image that its arrays are, read and written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore.documents.values import is_number
from zvcore.errors import MetadataError
from zvcore.images import Axis, default_names
from zvcore.images.axes import long_unit, plain, size_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.images import Axes

__all__ = ["MOST_AXES", "OmeSet", "ome_attributes", "read_ome"]

# OME-Zarr has images of 2 to so many axes.
MOST_AXES = 5


@dataclass(frozen=True)
class OmeSet:
    """One `multiscales` entry: paths of arrays from the finest on, and the axes of each."""

    paths: tuple[str, ...]
    axes: tuple[Axes, ...]
    name: str | None
    method: str | None


def read_ome(attrs: Mapping[str, Any], where: str) -> OmeSet | None:
    """The first image of an OME-Zarr group (0.5, or what 0.4 had among plain attributes); None if it is none."""
    ome = attrs.get("ome")
    entries = ome.get("multiscales") if isinstance(ome, dict) else attrs.get("multiscales")
    if not isinstance(entries, list) or not entries or not isinstance(entries[0], dict):
        return None
    entry = entries[0]
    datasets = entry.get("datasets")
    if not isinstance(datasets, list) or not datasets or not all(isinstance(one, dict) for one in datasets):
        raise MetadataError("multiscales names datasets", key=where, found=repr(datasets)[:80])
    named = _named_axes(entry.get("axes", []), where)
    around = _transforms(entry.get("coordinateTransformations"), len(named), where)
    paths = []
    axes = []
    for dataset in datasets:
        path = dataset.get("path")
        if not isinstance(path, str) or not path.strip("/"):
            raise MetadataError("multiscales names datasets by their path", key=where, found=repr(path))
        scale, offset = _transforms(dataset.get("coordinateTransformations"), len(named), where)
        paths.append(path.strip("/"))
        here = tuple(
            Axis(name, unit, a * b, c * a + d)
            for (name, unit), a, b, c, d in zip(named, around[0], scale, offset, around[1], strict=True)
        )
        if not all(is_number(axis.scale) and is_number(axis.offset) for axis in here):
            raise MetadataError("the transformations lead beyond what a float can hold", key=where, found=path)
        axes.append(here)
    name, method = entry.get("name"), entry.get("type")
    return OmeSet(
        tuple(paths), tuple(axes), name if isinstance(name, str) else None, method if isinstance(method, str) else None
    )


def _named_axes(given: Any, where: str) -> list[tuple[str | None, str | None]]:
    """(name, unit) of each axis: before 0.4 they were names alone."""
    pairs = [(one.get("name"), one.get("unit")) if isinstance(one, dict) else (one, None) for one in _listed(given)]
    if not isinstance(given, list) or not all(name is None or isinstance(name, str) for name, _ in pairs):
        raise MetadataError("axes is a list of axes with names", key=where, found=repr(given)[:80])
    return [(name, unit if isinstance(unit, str) else None) for name, unit in pairs]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _transforms(given: Any, rank: int, where: str) -> tuple[list[float], list[float]]:
    """(scale, offset) of a list of transformations, in the order in which they stand."""
    scale, offset = [1.0] * rank, [0.0] * rank
    for one in _listed(given):
        kind = one.get("type") if isinstance(one, dict) else None
        if kind == "identity":
            continue
        if kind not in ("scale", "translation"):
            raise MetadataError("a transformation is a scale or a translation", key=where, found=repr(one)[:80])
        numbers = one.get(kind)
        if (
            not isinstance(numbers, list)
            or len(numbers) != rank
            or not all(map(is_number, numbers))
            or (kind == "scale" and any(n <= 0 for n in numbers))
        ):
            raise MetadataError(
                f"{kind} has a number for each axis", key=where, expected=rank, found=repr(numbers)[:80]
            )
        if kind == "scale":
            scale = [a * b for a, b in zip(scale, numbers, strict=True)]
            offset = [a * b for a, b in zip(offset, numbers, strict=True)]
        else:
            offset = [a + b for a, b in zip(offset, numbers, strict=True)]
    return scale, offset


_KINDS = {"x": "space", "y": "space", "z": "space", "c": "channel", "channel": "channel", "t": "time", "time": "time"}


def ome_attributes(paths: Sequence[str], levels: Sequence[Axes], name: str, method: str | None) -> dict[str, Any]:
    """The `ome` attribute of a group, version 0.5."""
    names = default_names(len(levels[0]))
    axes: list[dict[str, str]] = []
    for axis, default in zip(levels[0], names, strict=True):
        called = axis.name or default
        said = {"name": called}
        kind = _KINDS.get(called.lower())
        if kind is not None:
            said["type"] = kind
        unit = long_unit(axis.unit)
        if unit is not None and kind != "channel":
            said["unit"] = unit
        axes.append(said)
    datasets = [
        {
            "path": path,
            "coordinateTransformations": [
                {"type": "scale", "scale": [size_of(axis) for axis in level]},
                {"type": "translation", "translation": [plain(axis.offset) for axis in level]},
            ],
        }
        for path, level in zip(paths, levels, strict=True)
    ]
    entry: dict[str, Any] = {"name": name, "axes": axes, "datasets": datasets}
    if method is not None:
        entry["type"] = method
    return {"version": "0.5", "multiscales": [entry]}
