"""New folders made beside the old and put in their place at once, so that a kill leaves the one or the other, whole.

Everything is made below `.zvstage` in the store's root, which no reader looks into.
"""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zvcore.errors import InvalidKeyError, ReadOnlyError, UnsupportedError
from zvcore.stores.file_writes import exchange
from zvcore.stores.files import encode_key
from zvcore.stores.local import LocalStore, sync_folder
from zvcore.stores.lock_names import LOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.stores import Store

__all__ = ["Staging", "staging"]

FOLDER = ".zvstage"
_LONGEST_PATH = 4096


def _noted_place(store: LocalStore, name: bytes) -> bytes | None:
    """Where a folder below `.zvstage` belongs. The note may be anybody's: a pipe, or a way out of the store."""
    try:
        note = store.get(f"{FOLDER}/{os.fsdecode(name)}/place", 0, _LONGEST_PATH)
        return None if note is None else os.path.join(store.local_root, encode_key(os.fsdecode(bytes(note))))
    except InvalidKeyError:
        return None


class Staging:
    """A place to make folders of a local store before they take the place of others."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        self.root = os.fsencode(store.root)
        self.folder = os.path.join(self.root, FOLDER.encode())
        self._count = 0
        self._remover = ThreadPoolExecutor(1)

    def recover(self) -> None:
        """Finish what a process that died here began: put back what had only been moved away, drop the rest."""
        if not os.path.isdir(self.folder):
            return
        for name in os.listdir(self.folder):
            place = _noted_place(self.store, name)
            old = os.path.join(self.folder, name, b"old")
            if place is not None and os.path.isdir(old) and not os.path.lexists(place):
                os.rename(old, place)
        shutil.rmtree(self.folder, ignore_errors=True)

    def make(self, path: str) -> LocalStore:
        """A store in an empty folder that `replace` will put at `path`. It is as durable as the one that it is for."""
        self._count += 1
        folder = os.path.join(self.folder, str(self._count).encode())
        os.makedirs(os.path.join(folder, b"new"))
        with open(os.path.join(folder, b"place"), "wb") as file:
            file.write(os.fsencode(path))
        return LocalStore(os.fsdecode(os.path.join(folder, b"new")), durability=self.store.durability)

    def replace(self, made: LocalStore) -> None:
        """Put the folder of a store that `make` gave in its place. What was there goes."""
        made.close()
        new = os.fsencode(made.root)
        folder = os.path.dirname(new)
        with open(os.path.join(folder, b"place"), "rb") as file:
            place = os.path.join(self.root, file.read())
        if self.store.fsync:
            # What is behind the note is put back from it should the machine stop between two renames.
            for name in (os.path.join(folder, b"place"), new, folder, self.folder):
                sync_folder(name)
        if not os.path.exists(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.rename(new, place)
        elif not exchange(new, place):
            # Two steps; `recover` undoes the first if the second never comes.
            os.rename(place, os.path.join(folder, b"old"))
            os.rename(new, place)
        if self.store.fsync:
            sync_folder(os.path.dirname(place))
        self.store.close()
        # What was replaced may be a million files: they go while the next array is being made.
        self._remover.submit(shutil.rmtree, folder, ignore_errors=True)

    def take_away(self) -> None:
        """Empty the store of everything else: it is renamed, which takes no time, and goes with this place."""
        self.store.close()
        taken = os.path.join(self.folder, b"taken")
        os.makedirs(taken, exist_ok=True)
        names = [name for name in os.listdir(self.root) if name != FOLDER.encode() and not name.endswith(LOCK)]
        # Documents go first: without them, what is left of a store is nothing, and not data with holes.
        for name in sorted(names, key=lambda name: os.path.isdir(os.path.join(self.root, name))):
            os.rename(os.path.join(self.root, name), os.path.join(taken, name))

    def close(self) -> None:
        """Remove everything that is still here."""
        self._remover.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def staging(store: Store) -> Iterator[Staging]:
    """The store's staging place, for one process at a time; others wait."""
    if not isinstance(store, LocalStore):
        raise UnsupportedError(f"{store.root}: whole arrays and levels can be replaced in local folders only")
    if store.read_only:
        raise ReadOnlyError(f"{store.root} was opened for reading")
    with store.lock("zarr.json.conversion"):
        place = Staging(store)
        place.recover()
        try:
            yield place
        finally:
            place.close()
