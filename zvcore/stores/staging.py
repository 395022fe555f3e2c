"""New folders made beside the old and put in their place at once, so that a kill leaves the one or the other, whole.

Everything is made below `.zvstage` in the store's root, which no reader looks into.
"""

from __future__ import annotations

import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from zvcore.errors import InvalidKeyError, ReadOnlyError, UnsupportedError
from zvcore.stores.file_writes import exchange
from zvcore.stores.files import encode_key
from zvcore.stores.folders import sync
from zvcore.stores.local import LocalStore
from zvcore.stores.lock_names import LOCK
from zvcore.stores.presence import is_there, mode_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.stores import Store

__all__ = ["Staging", "staging"]

FOLDER = ".zvstage"
_TAKEN = b"taken"
_LONGEST_PATH = 4096


def _noted_place(store: LocalStore, name: bytes) -> bytes | None:
    """Where a folder below `.zvstage` belongs. The note may be anybody's: a pipe, or a way out of the store."""
    try:
        note = store.get(f"{FOLDER}/{os.fsdecode(name)}/place", 0, _LONGEST_PATH)
        return None if note is None else os.path.join(store.local_root, encode_key(os.fsdecode(bytes(note))))
    except InvalidKeyError:
        return None


def _is_folder(path: bytes) -> bool:
    mode = mode_of(path)
    return mode is not None and stat.S_ISDIR(mode)


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
        if not _is_folder(self.folder):
            return
        self.put_back()
        shutil.rmtree(self.folder, ignore_errors=True)

    def put_back(self) -> None:
        """Give its place again to what was moved away for something that has not come."""
        for name in os.listdir(self.folder):
            place = None if name == _TAKEN else _noted_place(self.store, name)
            old = os.path.join(self.folder, name, b"old")
            if place is not None and _is_folder(old) and not is_there(place):
                os.rename(old, place)
        self._put_taken_back()

    def _put_taken_back(self) -> None:
        taken = os.path.join(self.folder, _TAKEN)
        names = os.listdir(taken) if _is_folder(taken) else []
        documents = [name for name in names if not _is_folder(os.path.join(taken, name))]
        # The new store's documents come last, and the old one's go first.
        if not documents or any(is_there(os.path.join(self.root, name)) for name in documents):
            return
        for name in sorted(names, key=documents.__contains__):
            place = os.path.join(self.root, name)
            if is_there(place):
                unfinished = os.path.join(self.folder, b"unfinished." + name)
                shutil.rmtree(unfinished, ignore_errors=True)
                os.rename(place, unfinished)
            os.rename(os.path.join(taken, name), place)

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
                sync(name)
        if not is_there(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.rename(new, place)
        elif not exchange(new, place):
            # Two steps; `recover` undoes the first if the second never comes.
            os.rename(place, os.path.join(folder, b"old"))
            os.rename(new, place)
        if self.store.fsync:
            sync(os.path.dirname(place))
        self.store.close()
        # What was replaced may be a million files: they go while the next array is being made.
        self._remover.submit(shutil.rmtree, folder, ignore_errors=True)

    def take_away(self) -> None:
        """Empty the store of everything else: it is renamed, which takes no time, and goes with this place; unless the
        block fails, which puts it back.
        """
        self.store.close()
        taken = os.path.join(self.folder, _TAKEN)
        os.makedirs(taken, exist_ok=True)
        names = [name for name in os.listdir(self.root) if name != FOLDER.encode() and not name.endswith(LOCK)]
        # Documents go first: without them, what is left of a store is nothing, and not data with holes.
        for name in sorted(names, key=lambda name: os.path.isdir(os.path.join(self.root, name))):
            os.rename(os.path.join(self.root, name), os.path.join(taken, name))

    def close(self, failed: bool = False) -> None:
        """Remove everything that is still here; `failed`: after what has no other place any more was put back."""
        self._remover.shutdown()
        if failed and _is_folder(self.folder):
            self.put_back()
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
        except BaseException as error:
            try:
                place.close(failed=True)
            except OSError as second:
                error.add_note(
                    f"{place.store.root}: what was there could not be put back; the next writer will: {second}"
                )
            raise
        place.close()
