"""What the attributes of data sets in HDF5 say, whichever library gives them: one with h5py's interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.images import Axis
from zvcore.images.axes import numbers

if TYPE_CHECKING:
    from zvcore.images import Axes

__all__ = ["attributes_of", "axes_of"]

# How dimension scales are stored: references, which say nothing elsewhere.
_SCALES = ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME", "DIMENSION_LABELS", "_Netcdf4Dimid")
# In micrometers, from the slowest axis on, as ilastik and others have it.
_SIZES = "element_size_um"


class Unreadable:
    """In the place of an attribute that cannot be read."""


def attributes_of(node: Any) -> dict[str, Any]:
    """The attributes of a group or a data set, with texts as texts."""
    found: dict[str, Any] = {}
    for name in node.attrs:
        if name in _SCALES:
            continue
        try:
            found[name] = _plain(node.attrs[name])
        except (OSError, TypeError, ValueError, KeyError, RuntimeError):
            found[name] = Unreadable()
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray) and value.dtype.kind in "SO":
        return [_plain(one) for one in value.tolist()] if value.ndim else _plain(value.item())
    return value


def axes_of(dataset: Any, attributes: dict[str, Any]) -> Axes:
    """The axes by their labels and by the sizes of voxels, as far as somebody said them."""
    rank = len(dataset.shape)
    try:
        names = [dataset.dims[axis].label or None for axis in range(rank)]
    except (OSError, TypeError, ValueError, AttributeError, RuntimeError):
        names = [None] * rank
    said = attributes.get(_SIZES)
    count = min(3, rank)
    sizes = numbers(said.tolist() if isinstance(said, np.ndarray) else said, count)
    if sizes is None or not all(size > 0 for size in sizes):
        return tuple(map(Axis, names))
    places = list(range(rank - count, rank))
    named = {name.lower(): axis for axis, name in enumerate(names) if name}
    if count == 3 and {"z", "y", "x"} <= named.keys():
        places = [named["z"], named["y"], named["x"]]
    axes = [Axis(name) for name in names]
    for axis, size in zip(places, sizes, strict=True):
        axes[axis] = Axis(names[axis], "micrometer", size)
    return tuple(axes)
