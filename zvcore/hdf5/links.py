"""Following the links of HDF5 within one file: none is followed that leads out of it."""

from __future__ import annotations

from typing import Any

from zvcore.borrowed.file import library
from zvcore.borrowed.hdf5_attributes import is_bare_dimension
from zvcore.errors import UnsupportedError

__all__ = ["child", "inner", "members_of"]

# Soft links on the way to one thing, as many as the library of HDF5 follows, and parts of a path.
_MOST_LINKS, _DEEPEST = 16, 64


def inner(group: Any, path: str) -> Any:
    """What lies at a path in a group or a file; None where nothing does that lies in this file."""
    here = group
    parts = [part for part in path.split("/") if part]
    for part in parts if len(parts) <= _DEEPEST else [""]:
        try:
            here = child(here, part, "") if part else None
        except UnsupportedError:
            return None
        if here is None:
            return None
    return here


def members_of(group: Any) -> tuple[list[str], list[str]]:
    """(the names of its groups and data sets, in words what else it holds).

    A link into another file has a name among the first: whoever looks it up learns why it is not followed. Soft links
    are other names of what is there, or lead in circles.
    """
    h5py = library("h5py", "hdf5", "HDF5")
    names, others = [], []
    for name in group:
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.SoftLink):
            others.append(f"the link {name!r} to {link.path!r}")
        elif isinstance(link, h5py.HardLink) and group.get(name, getclass=True) is h5py.Datatype:
            others.append(f"the named data type {name!r}")
        elif isinstance(link, h5py.HardLink) and _is_bare_dimension(group, name):
            # As an array it would be zeros, which nobody has written.
            length = group[name].shape[0]
            others.append(f"the dimension {name!r} of netCDF, which has {length} places and no values,")
        else:
            names.append(name)
    return names, others


def _is_bare_dimension(group: Any, name: str) -> bool:
    h5py = library("h5py", "hdf5", "HDF5")
    if group.get(name, getclass=True) is not h5py.Dataset:
        return False
    here = group[name]
    return len(here.shape or ()) == 1 and is_bare_dimension(here)


def child(group: Any, name: str, where: str) -> Any:
    """A member of a group, also by a soft link; None where there is none. UnsupportedError for one in another file."""
    h5py = library("h5py", "hdf5", "HDF5")
    here, parts, links = group, [name], 0
    while parts:
        part = parts.pop()
        if not isinstance(here, h5py.Group) or not here.id.links.exists(part.encode()):
            return None
        kind = here.id.links.get_info(part.encode()).type
        if kind == h5py.h5l.TYPE_HARD:
            here = _opened(here, part)
            continue
        if kind != h5py.h5l.TYPE_SOFT:
            raise UnsupportedError("a link into another file, which is not followed", key=where)
        # All that there are on the way count: each may name many others.
        path = here.get(part, getlink=True).path
        links += 1
        parts += [part for part in path.split("/") if part not in ("", ".")][::-1]
        if links > _MOST_LINKS or len(parts) > _DEEPEST:
            raise UnsupportedError("a link that leads over too many others", key=where, expected=_MOST_LINKS)
        if path.startswith("/"):
            here = here.file["/"]
    return here


def _opened(group: Any, name: str) -> Any:
    """What a hard link leads to: `group[name]` without its look at the file around it, which takes as long again."""
    h5py = library("h5py", "hdf5", "HDF5")
    found = h5py.h5o.open(group.id, name.encode())
    if isinstance(found, h5py.h5d.DatasetID):
        return h5py.Dataset(found)
    return h5py.Group(found) if isinstance(found, h5py.h5g.GroupID) else h5py.Datatype(found)
