"""Groups and datasets of N5 as images, by whichever convention describes them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zvcore.array import Array
from zvcore.documents.surroundings import surroundings
from zvcore.errors import MetadataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.images import Axis, Image, Level, kind_said
from zvcore.images.axes import known, numbers, texts
from zvcore.images.cosem import read_transform, understood
from zvcore.images.ome import first_entry, read_about, read_axes_told, read_words, with_types
from zvcore.images.remainder import remainder
from zvcore.n5.conventions import PIXEL_RESOLUTION, name_of, taken_of_group, taken_of_level
from zvcore.n5.documents import read_document
from zvcore.n5.metadata import is_dataset
from zvcore.n5.multiscale import read_multiscale

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zvcore.images import Axes
    from zvcore.n5.group import N5Group
    from zvcore.n5.multiscale import Level as Scale

__all__ = ["described_places", "fastest_first", "read_array", "read_axes", "read_image"]


def fastest_first(array: Array) -> bool:
    """A dataset that was opened with `order="C"` is seen the other way round."""
    return array.order == "F" or array.ndim < 2


def read_axes(array: Array) -> Axes:
    """What a dataset's own attributes say of its axes."""
    return read_array(array).axes


def read_array(array: Array) -> Image:
    """A dataset alone, with the attributes that say where it lies."""
    axes, taken, untold = _axes(array.attrs, array.ndim)
    return Image("", [Level("", array, axes if fastest_first(array) else axes[::-1], taken, untold)])


def _axes(attrs: Mapping[str, Any], rank: int) -> tuple[Axes, frozenset[str], tuple[str, ...]]:
    """(axes, the attributes that say them, what in these is not understood)."""
    # N5 has no names of its own, but everyone calls the first three axes so.
    said = texts(attrs.get("axes"), rank)
    taken = {"axes"} if said else set()
    names: Sequence[str | None] = said or (["x", "y", "z"][:rank] if rank <= 3 else [None] * rank)
    axes = tuple(Axis(name) for name in names)
    by_transform, untold = understood(attrs, rank)
    if by_transform:
        # They say the same, or nothing that anybody would believe.
        return read_transform(axes, attrs["transform"], fastest_first=True), by_transform | taken | _same(attrs), untold
    given = attrs.get("pixelResolution")
    if given is not None:
        unit = given.get("unit") if isinstance(given, dict) else None
        base = numbers(given.get("dimensions") if isinstance(given, dict) else given, rank)
        factors = numbers(attrs.get("downsamplingFactors"), rank)
        if base is None or any(n <= 0 for n in base):
            return axes, frozenset(taken), ()
        taken |= {"pixelResolution"} | ({"downsamplingFactors"} if factors else set())
        axes = tuple(
            Axis(axis.name, unit if isinstance(unit, str) else None, size * factor, (factor - 1) / 2 * size)
            for axis, size, factor in zip(axes, base, factors or [1.0] * rank, strict=True)
        )
        return axes, frozenset(taken), tuple(f"pixelResolution.{path}" for path in remainder(given, PIXEL_RESOLUTION))
    sizes = numbers(attrs.get("resolution"), rank)
    if sizes is None or any(n <= 0 for n in sizes):
        return axes, frozenset(taken), ()
    units, offset = texts(attrs.get("units"), rank), numbers(attrs.get("offset"), rank)
    taken |= {"resolution"} | ({"units"} if units else set()) | ({"offset"} if offset else set())
    spelled: Sequence[str | None] = units or [None] * rank
    axes = tuple(
        Axis(axis.name, unit, size, place)
        for axis, unit, size, place in zip(axes, spelled, sizes, offset or [0.0] * rank, strict=True)
    )
    return axes, frozenset(taken), ()


def _same(attrs: Mapping[str, Any]) -> frozenset[str]:
    """What we write beside a transform."""
    return frozenset({"resolution", "units"} & set(attrs))


# Members of a group's attributes by which conventions describe what lies in it.
_DESCRIBING = frozenset(
    ("multiscales", "multiScale", "scales", "downsamplingFactors", "painteraData", "pixelResolution", "resolution")
)


def described_places(array: Array) -> tuple[Axes, Axes] | None:
    """(the axes of a level, those of the finest one) as a group around it says them."""
    for store, name in surroundings(array.store, array.member):
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
    axes, _, _ = _axes(array.attrs, array.ndim)
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
    words = read_words(group.attrs, flat=False)
    entry, others = first_entry(words.members)
    told = read_axes_told(entry)
    levels = []
    for level in scales.levels:
        array = group[level.path]
        if not isinstance(array, Array):
            return None
        axes = with_types(axes_of(level), told)
        taken, untold = taken_of_level(scales.convention, array.attrs)
        levels.append(Level(level.path, array, axes if fastest_first(array) else axes[::-1], taken, untold))
    if not levels:
        return None
    name, method, rest = read_about(entry)
    taken, untold = taken_of_group(scales.convention, group.attrs)
    kind = kind_said(others, method, rest)
    if kind is None and {"isLabelMultiset", "maxId"} & set(group.attrs):
        kind = "segmentation"
    return Image(
        "", levels, group.attrs, kind, name or name_of(scales.convention, group.attrs), method, scales.convention,
        others, rest, taken | words.taken, untold,
    )  # fmt: skip
