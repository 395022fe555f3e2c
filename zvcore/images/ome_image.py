"""Groups and arrays as the images that the words of OME-Zarr describe, in whichever version of Zarr they stand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zvcore.array import Array
from zvcore.documents.surroundings import surroundings
from zvcore.errors import MetadataError, ZvcoreError
from zvcore.images.axes import long_unit, nanometers
from zvcore.images.image import Image, Level, kind_said
from zvcore.images.ome import first_entry, read_set, read_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zvcore.images.axes import Axes
    from zvcore.stores import Store

__all__ = ["described_places", "read_image", "viewer_axes"]

_SECONDS = {"second": 1.0, "millisecond": 1e-3, "microsecond": 1e-6}


def read_image(group: Any, document: str) -> Image | None:
    """The first image that the attributes of a group describe; None if they describe none. They stand in `document`."""
    where = f"{group.store.root}/{document}"
    words = read_words(group.attrs)
    found = read_set(words.members, where)
    if found is None:
        return None
    levels: list[Level] = []
    for path, axes in zip(found.paths, found.axes, strict=True):
        array = group[path]
        if not isinstance(array, Array):
            raise MetadataError("multiscales names a group where an array should be", key=where, found=path)
        if len(axes) != array.ndim:
            raise MetadataError(
                "multiscales has another number of axes than its arrays", key=f"{group.store.root}/{path}",
                expected=array.ndim, found=len(axes),
            )  # fmt: skip
        levels.append(Level(path, array, axes if found.sized else _by_shape(axes, array, levels)))
    _, others = first_entry(words.members)
    return Image(
        "", levels, group.attrs, kind_said(others, found.method, found.rest), found.name, found.method, "OME-Zarr",
        others, found.rest, words.taken, found.untold,
    )  # fmt: skip


def _by_shape(axes: Axes, array: Array, finer: Sequence[Level]) -> Axes:
    """The axes of a level of which nobody says how large its pixels are: as many times as there are fewer of them."""
    finest = finer[0].array.shape if finer else array.shape
    return tuple(
        replace(axis, scale=float(max(1, round(most / here))) if here else 1.0)
        for axis, most, here in zip(axes, finest, array.shape, strict=True)
    )


def described_places(
    array: Array, attributes_at: Callable[[Store], Mapping[str, Any] | None], document: str
) -> tuple[Axes, Axes] | None:
    """(the axes of a level, those of the finest one) as an image around it says them."""
    for store, name in surroundings(array.store, array.member):
        try:
            attributes = attributes_at(store)
            found = read_set(read_words(attributes or {}).members, f"{store.root}/{document}")
        except (ZvcoreError, OSError):
            continue  # what lies around is not at fault for what is here
        if found is not None and name in found.paths:
            axes = found.axes[found.paths.index(name)]
            return (axes, found.axes[0]) if len(axes) == array.ndim else None
    return None


def viewer_axes(image: Image) -> dict[str, tuple[float, str]] | None:
    """{name: (size, unit)} of axes with x, y, z first, where all of them have names.

    Neuroglancer puts the first axis of Zarr, usually z, where others have x, unless told otherwise. The sizes have to
    be those that it finds by itself: it does not know the attributes of single arrays.
    """
    sizes = {}
    for axis in image.axes:
        if not axis.name:
            return None
        scale, unit = (1.0, None) if image.convention is None else (axis.scale or 1.0, long_unit(axis.unit))
        if unit is None:
            sizes[axis.name] = (scale, "")
        elif unit in _SECONDS:
            sizes[axis.name] = (scale * _SECONDS[unit], "s")
        else:
            sizes[axis.name] = (scale * nanometers(unit) * 1e-9, "m")
    shown = [name for name in "xyz" if name in sizes]
    return {name: sizes[name] for name in [*shown, *sizes]} if len(shown) > 1 else None
