"""Objects that are made in a file first, by what has to go back in it while it writes."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.stores.base import Store

__all__ = ["file_for"]

_COPIED = 8 << 20


def _folder_of(store: Store) -> str | None:
    """The folder of the store, which need not be there yet; None: it is not on this machine."""
    place = store.folder.local_root if isinstance(store, SingleFileStore) else store.local_root
    return None if place is None else os.fsdecode(place)


@contextmanager
def file_for(store: Store, key: str) -> Iterator[BinaryIO]:
    """An empty file, whose bytes become an object when it was written; after an error, nothing does.

    In a folder of this machine it is the one that gets the object's name in the end. Else it lies on the disk that the
    folder will be on, or where temporary files do, and is copied.
    """
    folder = _folder_of(store)
    if folder is not None and os.path.isdir(folder):
        with store.writer(key) as out, out.file() as file:
            yield file
        return
    while folder is not None and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    with tempfile.TemporaryFile(dir=folder) as made:
        file = cast("BinaryIO", made)
        yield file
        file.flush()
        file.seek(0)
        at = 0
        with store.writer(key) as out:
            while data := file.read(_COPIED):
                out.write_at(at, data)
                at += len(data)
