"""Arrays and groups of Zarr v2 as images: the names that xarray gives to axes, COSEM's transform, and OME-Zarr."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zvcore import documents
from zvcore.images import Axis, Image, Level, ome_image
from zvcore.images.cosem import read_transform, understood
from zvcore.zarr2.attributes import DIMENSIONS, dimension_names
from zvcore.zarr2.metadata import ATTRIBUTES

if TYPE_CHECKING:
    from zvcore.array import Array
    from zvcore.images import Axes
    from zvcore.stores import Store
    from zvcore.zarr2.group import Zarr2Group

__all__ = ["described_places", "read_array", "read_axes", "read_image"]


def read_axes(array: Array) -> Axes:
    """What an array says of its own axes."""
    names = dimension_names(array.attrs, array.ndim)
    found = (Axis(),) * array.ndim if names is None else tuple(Axis(name) for name in names)
    return read_transform(found, array.attrs.get("transform"), fastest_first=False)


def read_array(array: Array) -> Image:
    """An array alone, with the attributes that say where it lies."""
    taken, untold = understood(array.attrs, array.ndim)
    if dimension_names(array.attrs, array.ndim) is not None:
        taken = taken.union({DIMENSIONS})
    return Image("", [Level("", array, read_axes(array), taken, untold)])


def read_image(group: Zarr2Group) -> Image | None:
    """The first image that an OME-Zarr group describes; None if it describes none."""
    found = ome_image.read_image(group, ATTRIBUTES)
    if found is not None:
        found.levels = [replace(level, taken=_names_taken(level)) for level in found.levels]
    return found


def _names_taken(level: Level) -> frozenset[str]:
    """The names that xarray gives to the axes of a level are told again where OME-Zarr has the same."""
    names = dimension_names(level.array.attrs, level.array.ndim)
    same = names is not None and [*names] == [axis.name for axis in level.axes]
    return frozenset({DIMENSIONS}) if same else frozenset()


def described_places(array: Array) -> tuple[Axes, Axes] | None:
    """(the axes of a level, those of the finest one) as an image around it says them."""
    return ome_image.described_places(array, _attributes_at, ATTRIBUTES)


def _attributes_at(store: Store) -> dict[str, Any] | None:
    return documents.read(store, ATTRIBUTES)
