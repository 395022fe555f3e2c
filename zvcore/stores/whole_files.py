"""Objects that are made in a file first, by what has to go back in it while it writes."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.stores.base import Store

__all__ = ["file_for"]

_COPIED = 8 << 20


@contextmanager
def file_for(store: Store, key: str) -> Iterator[BinaryIO]:
    """An empty file without a name, whose bytes become an object when it was written; after an error, nothing does.

    It lies on the disk of a local store, else where temporary files do.
    """
    with tempfile.TemporaryFile(dir=None if store.local_root is None else os.fsdecode(store.local_root)) as made:
        file = cast("BinaryIO", made)
        yield file
        file.flush()
        file.seek(0)
        at = 0
        with store.writer(key) as out:
            while data := file.read(_COPIED):
                out.write_at(at, data)
                at += len(data)
