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


def _folder_for(store: Store) -> str | None:
    """A folder on the disk that the store is on, or will be on once its own is made; None: on none of this machine."""
    place = store.folder.local_root if isinstance(store, SingleFileStore) else store.local_root
    if place is None:
        return None
    folder = os.fsdecode(place)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


@contextmanager
def file_for(store: Store, key: str) -> Iterator[BinaryIO]:
    """An empty file without a name, whose bytes become an object when it was written; after an error, nothing does.

    It lies on the disk of a local store, else where temporary files do.
    """
    with tempfile.TemporaryFile(dir=_folder_for(store)) as made:
        file = cast("BinaryIO", made)
        yield file
        file.flush()
        file.seek(0)
        at = 0
        with store.writer(key) as out:
            while data := file.read(_COPIED):
                out.write_at(at, data)
                at += len(data)
