"""Whether two places are the same, or one lies in the other, by whichever names and links they are reached."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from zvcore.stores.base import Store

__all__ = ["are_same", "overlap"]


def are_same(one: Store | str, other: Store | str) -> bool:
    """Whether two stores, or paths, are one place, or one file."""
    return _are_same(_address(one), _address(other))


def overlap(one: Store | str, other: Store | str) -> bool:
    """Whether they are the same, or what is written into one may lie in the other."""
    here, there = _address(one), _address(other)
    return here.startswith(f"{there}/") or there.startswith(f"{here}/") or _are_same(here, there)


def _are_same(here: str, there: str) -> bool:
    if here == there:
        return True
    if not (os.path.isabs(here) and os.path.isabs(there)):
        return False
    try:
        # Names that differ in upper and lower case alone may be one.
        return os.path.samefile(here, there)
    except OSError:
        return False


def _address(place: Store | str) -> str:
    """Where something is, without links; of a file, where all of it is."""
    if isinstance(place, str):
        root = place if "://" in place else os.path.abspath(place)
    elif isinstance(place, SingleFileStore):
        root = f"{place.folder.root.rstrip('/')}/{place.file}"
    else:
        root = place.root
    root = os.path.realpath(root).replace(os.sep, "/") if os.path.isabs(root) else root
    return root.rstrip("/")
