"""From the path in a URL to an open file, and never to one outside of the folder that is served."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import IO, TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from zvcore.converting.note import unfinished_around
from zvcore.errors import InvalidKeyError, StoreError
from zvcore.serving.limits import LARGEST_READ
from zvcore.serving.place import Found, Place, Seen, Want
from zvcore.stores.confined import ABSENT, ConfinedStore, Confinement, Kind, NoFileError
from zvcore.stores.others import unreadable

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Sequence

    from zvcore.converting.note import UnfinishedConversion

__all__ = ["Root", "is_shown", "may_be_asked_for", "may_be_read", "split_path", "told"]

# Names that begin with a dot are not served, except the metadata of Zarr v2.
_SHOWN = (b".zarray", b".zgroup", b".zattrs", b".zmetadata")
_MOST_PARTS = 64
# To send so many bytes together with what stands before them costs less than to have the system copy them.
_FEW = 1 << 18
# The server has no more files to open: that says nothing of the one that is asked for.
_TOO_MANY = (errno.EMFILE, errno.ENFILE)
# Nor does this: the folder that is served is no longer there.
_SAYING_NOTHING = (*_TOO_MANY, errno.ESTALE)
# Any byte but those that control terminals or separate names.
_NAME = re.compile(rb"[^\x00-\x1f/\\]{0,255}")


def split_path(path: str) -> list[bytes] | None:
    """The names in a URL's path, decoded once; None if it is not a path that may be requested."""
    names = [name for name in unquote_to_bytes(path.split("?", 1)[0]).split(b"/") if name]
    return names if len(names) <= _MOST_PARTS and all(map(is_shown, names)) else None


def may_be_read(name: bytes) -> bool:
    """Whether zvcore may read a file or folder of this name for what it shows: notes about unfinished work too."""
    return is_shown(name) or name.startswith(b".zvcore-") or (name.startswith(b".") and name.endswith(b".zvlock"))


@lru_cache(4096)
def is_shown(name: bytes) -> bool:
    """Whether a file or folder of this name may be seen at all."""
    return may_be_asked_for(name) and (not name.startswith(b".") or name in _SHOWN)


def may_be_asked_for(name: bytes) -> bool:
    """Whether requests may have such a name in them."""
    return _NAME.fullmatch(name) is not None


def told(found: UnfinishedConversion | None) -> str | None:
    """What clients learn of an unfinished conversion: not why it failed, which may name what lies elsewhere."""
    return None if found is None else str(replace(found, failed=None))


class LocalFound(Found):
    """A file or folder of this machine."""

    def __init__(self, root: Root, names: Sequence[bytes], descriptor: int, kind: Kind) -> None:
        self._root = root
        self._names = names
        self._descriptor = descriptor
        self.is_folder = stat.S_ISDIR(kind.mode)
        self.size = kind.size
        self.tag = f"{kind.inode:x}-{kind.size:x}-{kind.modified:x}"
        self.changed = kind.modified / 1e9
        # All of a small file, once something of it was wanted.
        self._all: bytes | None = None

    def begin(self, start: int, stop: int) -> None: ...

    def first(self, count: int) -> bytes:
        return self._part(0, min(count, self.size))

    def few(self, start: int, stop: int) -> bytes | None:
        return self._part(start, stop) if stop - start <= _FEW else None

    def _part(self, start: int, stop: int) -> bytes:
        if self.size > _FEW:
            return os.pread(self._descriptor, stop - start, start)
        if self._all is None:
            self._all = os.pread(self._descriptor, self.size, 0)
        return self._all[start:stop]

    def send(self, connection: socket.socket, start: int, stop: int) -> int:
        with open(self._descriptor, "rb", closefd=False, buffering=0) as file:
            return connection.sendfile(file, start, stop - start)

    def file(self) -> IO[bytes]:
        # Parts of it may be read one after the other, each time from the beginning.
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return os.fdopen(self._descriptor, "rb", closefd=False)

    def entries(self, most: int) -> list[tuple[bytes, bool]]:
        entries = []
        with os.scandir(self._descriptor) as listing:
            for entry in listing:
                # The entries of an open folder have their names as text.
                name = os.fsencode(entry.name)
                seen = self._root.look([*self._names, name]) if is_shown(name) else None
                if seen is not None:
                    entries.append((name, seen.is_folder))
                if len(entries) >= most:
                    break
        return sorted(entries)

    def close(self) -> None:
        os.close(self._descriptor)


class Root(Place):
    """A folder of this machine: its files and folders by name, and the stores in it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._folder = Confinement(path)
        self.path = self._folder.path

    def close(self) -> None:
        self._folder.close()

    def store(self, names: Sequence[bytes]) -> ConfinedStore:
        return ConfinedStore(self._folder, names, may_be_read, LARGEST_READ)

    def look(self, names: Sequence[bytes]) -> Seen | None:
        try:
            found = self._folder.look(names, is_shown)
        except InvalidKeyError:
            return None
        except OSError as error:
            if error.errno in _SAYING_NOTHING:
                raise
            return None
        return Seen(stat.S_ISDIR(found.st_mode), (found.st_ino, found.st_size, found.st_mtime_ns))

    def open(self, names: Sequence[bytes], want: Want) -> LocalFound | None:
        """StoreError for what is there and cannot be read: clients take what is not there for fill values."""
        if not all(map(is_shown, names)):
            return None
        key = os.fsdecode(b"/".join(names))
        try:
            return LocalFound(self, names, *self._folder.open(names, is_shown))
        except InvalidKeyError as error:
            raise error.located(key=key)
        except NoFileError as error:
            raise unreadable(error.other, key) from None
        except OSError as error:
            if error.errno in _TOO_MANY:
                raise
            if error.errno in ABSENT:
                return None
            raise StoreError(f"this cannot be read: {error.strerror}", key=key) from error

    def listing(self, names: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
        folders: list[bytes] = []
        files: list[bytes] = []
        if not names:
            self._folder.refuse_if_gone()
        for entry in self._entries(names):
            (folders if entry.is_dir(follow_symlinks=False) else files).append(os.fsencode(entry.name))
        return folders, files

    def _entries(self, names: Sequence[bytes]) -> Iterator[os.DirEntry[str]]:
        """The entries of a folder itself, not reached through links; OSError if there is no such folder."""
        descriptor, _ = self._folder.open_here(names)
        try:
            with os.scandir(descriptor) as listing:
                yield from listing
        finally:
            os.close(descriptor)

    def stored_size(self, names: Sequence[bytes], seconds: float) -> tuple[int, int, bool]:
        deadline = time.monotonic() + seconds
        size = count = 0
        try:
            here = self._folder.look(names, is_shown)
        except (OSError, InvalidKeyError):
            here = None
        if here is not None and stat.S_ISREG(here.st_mode):
            return here.st_size, 1, True
        pending = [names]
        while pending:
            folder = pending.pop()
            try:
                for place, entry in enumerate(self._entries(folder)):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append([*folder, os.fsencode(entry.name)])
                    else:
                        with suppress(FileNotFoundError):
                            size += entry.stat(follow_symlinks=False).st_size
                            count += 1
                    if place % 1000 == 999 and time.monotonic() > deadline:
                        return size, count, False
            except OSError:
                continue
            if pending and time.monotonic() > deadline:
                return size, count, False
        return size, count, True

    def unfinished(self) -> str | None:
        return told(unfinished_around(os.fsdecode(self.path)))
