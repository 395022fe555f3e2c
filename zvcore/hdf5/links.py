"""Following the links of HDF5 within one file: none is followed that leads out of it."""

from __future__ import annotations

from typing import Any

from zvcore.borrowed.file import library
from zvcore.errors import UnsupportedError

__all__ = ["child", "inner"]

# Soft links that lead to soft links, and parts of a path.
_MOST_LINKS, _DEEPEST = 8, 64


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


def child(group: Any, name: str, where: str, links: int = 0) -> Any:
    """A member of a group, also by a soft link; None where there is none. UnsupportedError for one in another file."""
    h5py = library("h5py", "hdf5", "HDF5")
    link = group.get(name, getlink=True) if isinstance(group, h5py.Group) else None
    if link is None:
        return None
    if isinstance(link, h5py.HardLink):
        return group[name]
    if not isinstance(link, h5py.SoftLink) or links == _MOST_LINKS:
        raise UnsupportedError("a link into another file, which is not followed", key=where)
    here = group.file["/"] if link.path.startswith("/") else group
    parts = [part for part in link.path.split("/") if part not in ("", ".")]
    for part in parts[:_DEEPEST]:
        here = child(here, part, where, links + 1)
        if here is None:
            return None
    return here if len(parts) <= _DEEPEST else None
