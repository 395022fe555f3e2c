"""Places that another library has opened: stores of zarr-python, Icechunk's sessions, obstore's stores, fsspec's file
systems and mappers. Of none of them the library is imported: who has such an object has imported it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from zvcore.stores.base import Store

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["is_place", "store_of"]


def is_place(given: Any) -> bool:
    """Whether this is a path, an address, a store, or what another library has for one."""
    return isinstance(given, str | os.PathLike | Store) or _opener(given) is not None


def store_of(given: Any, mode: str) -> Store | None:
    """The store over an object of another library; None for everything else."""
    opener = _opener(given)
    return None if opener is None else opener(given, mode == "r")


def _opener(given: Any) -> Callable[[Any, bool], Store] | None:
    for one in type(given).__mro__:
        opener = _OPENERS.get((one.__module__.partition(".")[0], one.__name__))
        if opener is not None:
            return opener
    return None


def _zarr_store(given: Any, read_only: bool) -> Store:
    from zvcore.stores.zarr_python import of_zarr_python

    return of_zarr_python(given, read_only)


def _zarr_path(given: Any, read_only: bool) -> Store:
    return _zarr_store(given.store, read_only).child(given.path.strip("/"))


def _zarr_group(given: Any, read_only: bool) -> Store:
    return _zarr_path(given.store_path, read_only)


def _session(given: Any, read_only: bool) -> Store:
    return _zarr_store(given.store, read_only)


def _obstore(given: Any, read_only: bool) -> Store:
    from zvcore.stores.given_stores import of_obstore

    return of_obstore(given, read_only)


def _file_system(given: Any, read_only: bool) -> Store:
    from zvcore.stores.given_stores import of_fsspec

    return of_fsspec(given, "", read_only)


def _mapper(given: Any, read_only: bool) -> Store:
    from zvcore.stores.given_stores import of_fsspec

    return of_fsspec(given.fs, given.root, read_only)


_OPENERS: dict[tuple[str, str], Callable[[Any, bool], Store]] = {
    ("zarr", "Store"): _zarr_store,
    ("zarr", "StorePath"): _zarr_path,
    ("zarr", "Group"): _zarr_group,
    ("icechunk", "Session"): _session,
    ("obstore", "ObjectStoreMethods"): _obstore,
    ("fsspec", "AbstractFileSystem"): _file_system,
    ("fsspec", "FSMap"): _mapper,
}
