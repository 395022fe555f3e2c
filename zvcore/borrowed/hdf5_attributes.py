"""What the attributes of data sets in HDF5 say, whichever library gives them: one with h5py's interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zvcore.images import Axis
from zvcore.images.axes import numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.images import Axes

__all__ = ["Said", "attributes_of", "is_bare_dimension", "said_of"]

# How dimension scales are stored: references, which say nothing elsewhere.
_LABELS = "DIMENSION_LABELS"
_SCALES = ("DIMENSION_LIST", "REFERENCE_LIST", _LABELS, "_Netcdf4Dimid")
# What is said of a scale itself. Without that class, these are attributes like others.
_CLASS, _SCALE_CLASS, _NAME = "CLASS", "DIMENSION_SCALE", "NAME"
# The name that netCDF gives to scales without values.
_NAMELESS = "This is a netCDF dimension but not a netCDF variable"
_ERRORS = (OSError, TypeError, ValueError, KeyError, RuntimeError, AttributeError)
# In micrometers, from the slowest axis on, as ilastik and others have it.
_SIZES = "element_size_um"


# Groups of more are not searched for the names of scales: each axis of each data set asks for its own.
_MOST_LINKS = 1000


class Said(NamedTuple):
    """What is said of a data set: its attributes, its axes, and in words what is neither."""

    attributes: dict[str, Any]
    axes: Axes
    untold: tuple[str, ...]


class Unreadable:
    """In the place of an attribute that cannot be read."""


def said_of(dataset: Any, rank: int) -> Said:
    # Names and scales of axes are attributes, too, for each of which the library would look.
    if len(dataset.attrs):
        named, attributes = _named(dataset), attributes_of(dataset)
    else:
        named, attributes = [("", list[str]())] * rank, {}
    return Said(attributes, _axes(named, attributes), _untold(dataset, named))


def attributes_of(node: Any) -> dict[str, Any]:
    """The attributes of a group or a data set, with texts as texts."""
    found: dict[str, Any] = {}
    for name in node.attrs:
        if name in _SCALES:
            continue
        try:
            found[name] = _plain(node.attrs[name])
        except _ERRORS:
            found[name] = Unreadable()
    if found.get(_CLASS) == _SCALE_CLASS:
        found = {name: value for name, value in found.items() if name not in (_CLASS, _NAME)}
    return found


def _plain(value: Any) -> Any:
    """Bytes as the text that they are (a ValueError if they are none), records with the names of their fields."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, np.void) and value.dtype.names:
        return {name: _plain(value[name]) for name in value.dtype.names}
    if isinstance(value, np.ndarray) and value.dtype.names:
        return [_plain(one) for one in value] if value.ndim else _plain(value[()])
    if isinstance(value, np.ndarray) and value.dtype.kind in "SO":
        return [_plain(one) for one in value.tolist()] if value.ndim else _plain(value.item())
    return value


def _untold(dataset: Any, named: Sequence[tuple[str, list[str]]]) -> tuple[str, ...]:
    """What a data set says besides its attributes and axes, in words."""
    found = []
    for axis, (label, scales) in enumerate(named):
        name = _name(label, scales)
        found += [f"the scale {scale!r} of axis {axis}" for scale in scales if scale not in ("", name)]
        if "" in scales:
            found.append(f"a scale without a name of axis {axis}")
    kind = dataset.dtype
    fields = {name: kind[name] for name in kind.names or ()}
    for name, one in fields.items() or [("", kind)]:
        if (one.metadata or {}).get("enum"):
            found.append(f"what the values of an enumeration{' in ' + name if name else ''} are called")
    return tuple(found)


def _named(dataset: Any) -> list[tuple[str, list[str]]]:
    """(label, names of scales) of each axis, "" for none. A scale's only axis is called as it is itself.

    Names are what scales say, else those of their links nearby: the library would search all of a file for one.
    """
    found = []
    for axis, label in enumerate(_labels(dataset)):
        try:
            scales = [str(name) for name in dataset.dims[axis].keys()]  # noqa: SIM118
        except _ERRORS:
            scales = []
        named = ["" if name.startswith(_NAMELESS) else name for name in scales]
        found.append((label, [name or _link_of(dataset, axis, at) for at, name in enumerate(named)]))
    if len(found) == 1 and not found[0][1] and _is_scale(dataset):
        own = str(dataset.name or "").rpartition("/")[2]
        try:
            said = _plain(dataset.attrs.get(_NAME, b""))
        except _ERRORS:
            said = ""
        if not isinstance(said, str) or not said.startswith(_NAMELESS):
            found[0] = found[0][0], [said if isinstance(said, str) and said else own]
    return found


def _labels(dataset: Any) -> list[str]:
    """What each axis is called, "" for none. Where they are damaged, HDF5's own function for it ends the process."""
    rank = len(dataset.shape)
    try:
        given = _plain(dataset.attrs.get(_LABELS))
    except _ERRORS:
        given = None
    given = given if isinstance(given, list) and len(given) == rank else [""] * rank
    return [label if isinstance(label, str) else "" for label in given]


def _link_of(dataset: Any, axis: int, at: int) -> str:
    """What the scale of an axis is called in the data set's own group or one around it; "" where it is in none."""
    from h5py import h5l, h5o

    try:
        address = h5o.get_info(dataset.dims[axis][at].id).addr
        group = dataset
        while group.name != "/":
            group = group.parent
            if len(group) > _MOST_LINKS:
                continue
            for name in group:
                link = group.id.links.get_info(name.encode())
                if link.type == h5l.TYPE_HARD and link.u == address:
                    return str(name)
    except _ERRORS:
        pass
    return ""


def _is_scale(dataset: Any) -> bool:
    try:
        return bool(_plain(dataset.attrs.get(_CLASS, b"")) == _SCALE_CLASS)
    except _ERRORS:
        return False


def is_bare_dimension(dataset: Any) -> bool:
    """Whether this is no more than a dimension of netCDF: a name and a length, for which no values were ever stored."""
    try:
        said = _plain(dataset.attrs.get(_NAME, b""))
        named = isinstance(said, str) and said.startswith(_NAMELESS)
        return named and _is_scale(dataset) and dataset.id.get_storage_size() == 0
    except _ERRORS:
        return False


def _name(label: str, scales: list[str]) -> str | None:
    """What an axis is called: as its label says, or its first scale."""
    return label or (scales[0] if scales else None) or None


def _axes(named: Sequence[tuple[str, list[str]]], attributes: dict[str, Any]) -> Axes:
    """The axes by their labels, or scales, and by the sizes of voxels, as far as somebody said them."""
    rank = len(named)
    names = [_name(label, scales) for label, scales in named]
    said = attributes.get(_SIZES)
    count = min(3, rank)
    sizes = numbers(said.tolist() if isinstance(said, np.ndarray) else said, count)
    if sizes is None or not all(size > 0 for size in sizes):
        return tuple(map(Axis, names))
    places = list(range(rank - count, rank))
    called = {name.lower(): axis for axis, name in enumerate(names) if name}
    if count == 3 and {"z", "y", "x"} <= called.keys():
        places = [called["z"], called["y"], called["x"]]
    axes = [Axis(name) for name in names]
    for axis, size in zip(places, sizes, strict=True):
        axes[axis] = Axis(names[axis], "micrometer", size)
    return tuple(axes)
