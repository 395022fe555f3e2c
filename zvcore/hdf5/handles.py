"""Files of HDF5 as h5py opens them, each as it is now."""

from __future__ import annotations

import atexit
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from zvcore.borrowed.file import library, readable, reading, stream
from zvcore.stores.single_file import another_by_now

if TYPE_CHECKING:
    from zvcore.stores.base import Stamp
    from zvcore.stores.single_file import SingleFileStore

__all__ = ["opened"]

# Which version of its file each of the library's own handles has begun with, by the library's number of it. Numbers are
# not given twice, so those that are closed are harmless; of very many, the oldest are forgotten.
_began_with: dict[int, Stamp | None] = {}
_MOST = 4096

# Files that h5py reads through a store. What is still open when the process ends, HDF5 closes after Python is gone, and
# h5py, which wants to tell Python of it, crashes.
_through_stores: WeakSet[Any] = WeakSet()


@atexit.register
def _close_all() -> None:
    for file in [*_through_stores]:
        with suppress(Exception):
            file.close()


def opened(store: SingleFileStore, title: str) -> Any:
    """The file of a store, open to read.

    The library opens no file twice: while somebody in this process has it open, it answers from what it has kept of it,
    whatever others have written since. Then the file is read through a handle of its own.
    """
    h5py = library("h5py", "hdf5", title)
    with reading(store.root, title):
        place = readable(store)
        stamp = store.stamp(store.file)
        if store.opened is not None and stamp != store.opened.stamp:
            raise another_by_now(store.file)
        file = h5py.File(place, "r")
        if isinstance(place, str):
            if not _is_outdated(h5py, file, stamp):
                return file
            file.close()
            file = h5py.File(stream(store), "r")
        _through_stores.add(file)
        return file


def _is_outdated(h5py: Any, file: Any, stamp: Stamp | None) -> bool:
    if file.id.get_intent() != h5py.h5f.ACC_RDONLY:
        return False  # this process writes it itself, through the same handle
    number = h5py.h5o.get_info(file.id).fileno
    if len(_began_with) >= _MOST:
        for old in sorted(_began_with)[: _MOST // 2]:
            _began_with.pop(old, None)
    return bool(_began_with.setdefault(number, stamp) != stamp)
