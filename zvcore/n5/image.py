"""Groups and datasets of N5 as images, by whichever convention describes them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zvcore.array import Array
from zvcore.errors import MetadataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.images import Axis, Image, Level
from zvcore.images.axes import known, numbers, texts
from zvcore.images.cosem import read_transform
from zvcore.n5.documents import read_document
from zvcore.n5.metadata import is_dataset
from zvcore.n5.multiscale import read_multiscale

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.images import Axes
    from zvcore.n5.group import N5Group
    from zvcore.n5.multiscale import Level as Scale

__all__ = ["described_places", "fastest_first", "read_axes", "read_image"]


def fastest_first(array: Array) -> bool:
    """A dataset that was opened with `order="C"` is seen the other way round."""
    return array.order == "F" or array.ndim < 2


def read_axes(array: Array) -> Axes:
    """What a dataset's own attributes say of its axes."""
    found = _axes(array.attrs, array.ndim)
    return found if fastest_first(array) else found[::-1]


def _axes(attrs: Mapping[str, Any], rank: int) -> Axes:
    # N5 has no names of its own, but everyone calls the first three axes so.
    names: Sequence[str | None] = texts(attrs.get("axes"), rank) or (
        ["x", "y", "z"][:rank] if rank <= 3 else [None] * rank
    )
    axes = tuple(Axis(name) for name in names)
    if isinstance(attrs.get("transform"), dict):
        return read_transform(axes, attrs["transform"], fastest_first=True)
    given = attrs.get("pixelResolution")
    if given is not None:
        unit = given.get("unit") if isinstance(given, dict) else None
        base = numbers(given.get("dimensions") if isinstance(given, dict) else given, rank)
        factors = numbers(attrs.get("downsamplingFactors"), rank) or [1.0] * rank
        if base is not None and all(n > 0 for n in base):
            return tuple(
                Axis(axis.name, unit if isinstance(unit, str) else None, size * factor, (factor - 1) / 2 * size)
                for axis, size, factor in zip(axes, base, factors, strict=True)
            )
        return axes
    sizes = numbers(attrs.get("resolution"), rank)
    if sizes is None or any(n <= 0 for n in sizes):
        return axes
    units: Sequence[str | None] = texts(attrs.get("units"), rank) or [None] * rank
    offset = numbers(attrs.get("offset"), rank) or [0.0] * rank
    return tuple(
        Axis(axis.name, unit, size, place) for axis, unit, size, place in zip(axes, units, sizes, offset, strict=True)
    )


# Members of a group's attributes by which conventions describe what lies in it.
_DESCRIBING = frozenset(
    ("multiscales", "multiScale", "scales", "downsamplingFactors", "painteraData", "pixelResolution", "resolution")
)


def described_places(array: Array) -> tuple[Axes, Axes] | None:
    """(the axes of a level, those of the finest one) as a group around it says them."""
    for store, name in array.surroundings():
        try:
            document = read_document(store)
            if not document or is_dataset(document) or not _DESCRIBING.intersection(document):
                continue
            scales = read_multiscale(store, document)
        except (ZvcoreError, OSError):
            continue  # what lies around is not at fault for what is here
        for level in scales.levels:
            if level.path == name and len(level.axes) == array.ndim:
                found = axes_of(level), axes_of(scales.levels[0])
                return found if fastest_first(array) else (found[0][::-1], found[1][::-1])
    return _own_places(array)


def _own_places(array: Array) -> tuple[Axes, Axes] | None:
    """What a level says by itself, where it also says how much coarser it is than the finest."""
    factors = numbers(array.attrs.get("downsamplingFactors"), array.ndim)
    axes = _axes(array.attrs, array.ndim)
    if factors is None or "pixelResolution" not in array.attrs or not known(axes) or any(n <= 0 for n in factors):
        return None
    finest = tuple(
        replace(axis, scale=None if axis.scale is None else axis.scale / factor, offset=0.0)
        for axis, factor in zip(axes, factors, strict=True)
    )
    return (axes, finest) if fastest_first(array) else (axes[::-1], finest[::-1])


def axes_of(level: Scale) -> Axes:
    """The axes of a level that a convention describes, the fastest first."""
    return tuple(
        Axis(name, unit, float(size), float(place))
        for name, unit, size, place in zip(level.axes, level.units, level.resolution, level.offset, strict=True)
    )


def read_image(group: N5Group) -> Image | None:
    """The levels in a group; None where no convention that is known describes them."""
    try:
        scales = group.multiscale()
    except (NotFoundError, UnsupportedError, MetadataError):
        # What some other program calls its pyramid: its datasets are arrays then.
        return None
    levels = []
    for level in scales.levels:
        array = group[level.path]
        if not isinstance(array, Array):
            return None
        axes = axes_of(level)
        levels.append(Level(level.path, array, axes if fastest_first(array) else axes[::-1]))
    kind = "segmentation" if {"isLabelMultiset", "maxId"} & set(group.attrs) else None
    return Image("", levels, group.attrs, kind, convention=scales.convention) if levels else None
