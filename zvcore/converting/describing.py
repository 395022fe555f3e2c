"""The attributes that describe arrays and pyramids in each format: what is carried over, and what is written anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zvcore.converting.geometry import Axis, long_unit, plain, short_unit
from zvcore.documents.values import is_number
from zvcore.errors import MetadataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["array_attributes", "carried", "default_names", "ome_attributes", "read_ome"]

Axes = tuple[Axis, ...]

# What the conventions of N5 and Zarr put among the user's attributes to say where voxels lie. It is written anew.
_GEOMETRY = {
    "zarr3": {"transform", "ome", "multiscales", "_ARRAY_DIMENSIONS"},
    "n5": {
        "axes", "units", "resolution", "offset", "transform", "pixelResolution", "downsamplingFactors", "scales",
        "multiscales", "coordinateArrays", "multiScale",
    },
}  # fmt: skip
# What N5 keeps for itself.
_RESERVED = {"dimensions", "blockSize", "dataType", "compression", "compressionType", "codecs", "n5"}


def carried(attrs: Mapping[str, Any], source: str, target: str, same_place: bool) -> tuple[dict[str, Any], list[str]]:
    """(the user's attributes that go along, the names of those that cannot).

    `same_place`: nothing changes about the voxels' places, so that within one format all attributes hold as they are.
    """
    if source == "precomputed" or target == "precomputed":
        return {}, []
    kept = dict(attrs.items())
    if source != target or not same_place:
        kept = {name: value for name, value in kept.items() if name not in _GEOMETRY[source]}
    ome = attrs.get("ome")
    if source == target == "zarr3" and isinstance(ome, dict) and not same_place:
        # How an image is to be shown, and what its labels mean, stays true.
        rest = {name: value for name, value in ome.items() if name not in ("multiscales", "version")}
        kept.update({"ome": rest} if rest else {})
    lost = sorted(_RESERVED & kept.keys()) if target == "n5" else []
    return {name: value for name, value in kept.items() if name not in lost}, lost


def default_names(rank: int) -> tuple[str, ...]:
    """What axes are called that nobody named, from the slowest to the fastest."""
    return ("t", "c", "z", "y", "x")[-rank:] if rank <= 5 else tuple(f"dim_{i}" for i in range(rank))


def _known(axes: Axes) -> bool:
    return any(axis.scale is not None for axis in axes) or any(axis.offset for axis in axes)


def _size(axis: Axis) -> float:
    return plain(1.0 if axis.scale is None else axis.scale)


def array_attributes(axes: Axes, format: str) -> dict[str, Any]:
    """What says the place of an array on its own, for Zarr and N5. Nothing where nothing is known."""
    if not _known(axes):
        return {}
    if format == "n5":
        fast = tuple(axes)
        said: dict[str, Any] = {"resolution": [_size(axis) for axis in fast]}
        said["units"] = ["" if axis.unit is None else short_unit(axis.unit) for axis in fast]
        if all(axis.name for axis in fast):
            said["axes"] = [axis.name for axis in fast]
        if any(axis.offset for axis in fast):
            said["transform"] = _transform(fast[::-1], short=True)
        return said
    return {"transform": _transform(axes, short=False)}


def _transform(axes: Axes, short: bool) -> dict[str, Any]:
    """As COSEM has it, from the slowest axis to the fastest."""
    names = default_names(len(axes))
    unit = short_unit if short else (lambda one: long_unit(one) or "")
    return {
        "axes": [axis.name or name for axis, name in zip(axes, names, strict=True)],
        "scale": [_size(axis) for axis in axes],
        "translate": [plain(axis.offset) for axis in axes],
        "units": [unit(axis.unit) for axis in axes],
    }


# --- OME-Zarr


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
                {"type": "scale", "scale": [_size(axis) for axis in level]},
                {"type": "translation", "translation": [plain(axis.offset) for axis in level]},
            ],
        }
        for path, level in zip(paths, levels, strict=True)
    ]
    entry: dict[str, Any] = {"name": name, "axes": axes, "datasets": datasets}
    if method is not None:
        entry["type"] = method
    return {"version": "0.5", "multiscales": [entry]}
