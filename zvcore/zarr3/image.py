"""Arrays and groups of Zarr v3 as images: dimension names, COSEM's transform, and OME-Zarr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.images import Axis, Image, Level, ome_image
from zvcore.images.cosem import read_transform, understood
from zvcore.zarr3.metadata import DOCUMENT, read_document

if TYPE_CHECKING:
    from zvcore.array import Array
    from zvcore.images import Axes
    from zvcore.stores import Store
    from zvcore.zarr3.array import Zarr3Array
    from zvcore.zarr3.group import Zarr3Group

__all__ = ["described_places", "read_array", "read_axes", "read_image"]


def read_axes(array: Zarr3Array) -> Axes:
    """What an array says of its own axes."""
    names = array.dimension_names
    found = (Axis(),) * array.ndim if names is None else tuple(Axis(name) for name in names)
    return read_transform(found, array.attrs.get("transform"), fastest_first=False)


def read_array(array: Zarr3Array) -> Image:
    """An array alone, with the attributes that say where it lies."""
    taken, untold = understood(array.attrs, array.ndim)
    return Image("", [Level("", array, read_axes(array), taken, untold)])


def read_image(group: Zarr3Group) -> Image | None:
    """The first image that an OME-Zarr group describes; None if it describes none."""
    return ome_image.read_image(group, DOCUMENT)


def described_places(array: Array) -> tuple[Axes, Axes] | None:
    """(the axes of a level, those of the finest one) as an image around it says them."""
    return ome_image.described_places(array, _attributes_at, DOCUMENT)


def _attributes_at(store: Store) -> dict[str, Any] | None:
    attributes = (read_document(store) or {}).get("attributes")
    return attributes if isinstance(attributes, dict) else None
