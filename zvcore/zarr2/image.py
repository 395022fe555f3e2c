"""What Zarr v2 data says of where voxels lie: the names that xarray gives to axes, and OME-Zarr."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.images import Axis
from zvcore.images.cosem import read_transform
from zvcore.zarr2.attributes import dimension_names

if TYPE_CHECKING:
    from zvcore.array import Array
    from zvcore.images import Axes, Image
    from zvcore.zarr2.group import Zarr2Group

__all__ = ["read_axes", "read_image"]


def read_axes(array: Array) -> Axes:
    """What an array says of its own axes."""
    names = dimension_names(array.attrs, array.ndim)
    found = (Axis(),) * array.ndim if names is None else tuple(Axis(name) for name in names)
    return read_transform(found, array.attrs.get("transform"), fastest_first=False)


def read_image(group: Zarr2Group) -> Image | None:
    """The first image that an OME-Zarr group describes; None if it describes none."""
    return None
