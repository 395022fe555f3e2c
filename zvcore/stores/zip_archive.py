"""One zip archive as all stores over it in this process share it: what it holds, and what is being written to it."""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_left
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from zvcore.errors import ConflictError, UnsupportedError
from zvcore.stores.again import again
from zvcore.stores.zip_directory import STORED, Entry, data_offset, read_directory, size_of_header
from zvcore.stores.zip_writing import Writing, bytes_of, check, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from typing_extensions import Buffer

    from zvcore.stores.base import Stamp, Store

__all__ = ["Archive", "Ranges", "archive_at"]

# (offset, length) of each.
Ranges: TypeAlias = "Sequence[tuple[int, int]]"

# How many bytes of entries that had to be unpacked as a whole are kept.
_UNPACKED = 64 << 20
# How many bytes are read at once where all that is wanted of them is their checksum.
_PIECE = 16 << 20

_open: weakref.WeakValueDictionary[Hashable, Archive] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def archive_at(folder: Store, name: str) -> Archive:
    """The archive of this name in a folder: within a process, the same one for all."""
    place = folder.object_id(name)
    with _opening:
        found = _open.get(place)
        if found is None:
            found = _open[place] = Archive(folder, name)
        return found


class Archive:
    """The objects of one archive by their names."""

    def __init__(self, folder: Store, name: str) -> None:
        self.folder = folder
        self.name = name
        self.root = f"{folder.root.rstrip('/')}/{name}"
        self.guard = threading.RLock()
        self._locks: dict[str, threading.RLock] = {}
        self._stamp: Stamp | None = None
        self._loaded = False
        self._entries: dict[str, Entry] = {}
        self._sorted: list[str] | None = None
        self._offsets: dict[str, int] = {}
        self._unpacked: OrderedDict[str, bytes] = OrderedDict()
        self._unpacked_bytes = 0
        self._writing: Writing | None = None
        self._finalizer: weakref.finalize[[Writing], Archive] | None = None

    def after_fork(self) -> None:
        """Another thread may have held a lock in the parent, in the middle of a change."""
        self.guard = threading.RLock()
        self._locks = {}
        self._sorted = None
        self._offsets = {}
        self._unpacked = OrderedDict()
        self._unpacked_bytes = 0

    @property
    def is_begun(self) -> bool:
        """Whether something was written that is not in the file."""
        return self._writing is not None

    def lock_of(self, key: str) -> threading.RLock:
        with self.guard:
            return self._locks.setdefault(key, threading.RLock())

    # --- what is there

    def entries(self) -> dict[str, Entry]:
        """The directory of the file as it is now."""
        with self.guard:
            if not self._loaded:
                self._load()
            return self._entries

    def _load(self) -> None:
        for attempt in again(self.name):
            with attempt:
                stamp = self.folder.stamp(self.name)
                size = None if stamp is None else self.folder.size(self.name)
                entries: dict[str, Entry] = {}
                if size is not None:
                    entries, _ = read_directory(partial(self._bytes, stamp=stamp), size, self.root)
                self._entries, self._stamp = entries, stamp
                self._loaded = True
                self._sorted = None
                self._offsets.clear()
                self._unpacked.clear()
                self._unpacked_bytes = 0

    def look_again(self) -> None:
        """Forget the directory where the file is another one by now."""
        with self.guard:
            if self._writing is None and self.folder.stamp(self.name) != self._stamp:
                self._loaded = False

    def _bytes(self, at: int, length: int, stamp: Stamp | None) -> bytes:
        return bytes(bytes_of(self.folder, self.name, at, length, stamp))

    def find(self, key: str) -> Entry | bytes | None:
        """A document that waits to be written, or the entry of another object."""
        with self.guard:
            if self._writing is not None:
                if key in self._writing.documents:
                    return self._writing.documents[key]
                if key in self._writing.entries:
                    return self._writing.entries[key]
                if key in self._writing.gone:
                    return None
            return self.entries().get(key)

    def names(self) -> list[str]:
        """All of them, in order."""
        with self.guard:
            if self._sorted is None:
                names = {*self.entries()}
                if self._writing is not None:
                    names = (names - self._writing.gone) | self._writing.entries.keys() | self._writing.documents.keys()
                self._sorted = sorted(names)
            return self._sorted

    def below(self, folder: str) -> Iterator[str]:
        """The names below a folder, which ends with a slash or is empty, in order."""
        names = self.names()
        for number in range(bisect_left(names, folder), len(names)):
            if not names[number].startswith(folder):
                return
            yield names[number]

    def size(self, key: str) -> int | None:
        found = self.find(key)
        return None if found is None else found.size if isinstance(found, Entry) else len(found)

    def stamp(self, key: str) -> Stamp | None:
        """What is written once stays as it is, in its place."""
        with self.guard:
            self.look_again()
            found = self.find(key)
            if found is None:
                return None
            return (self._stamp, found) if isinstance(found, Entry) and not self._is_new(key) else ("new", found)

    def _is_new(self, key: str) -> bool:
        return self._writing is not None and key in self._writing.entries

    # --- reading

    def read(self, key: str, ranges: Callable[[int], Ranges] | None) -> list[memoryview] | None:
        """Ranges of an object, which lie within its size, or all of it, whose checksum is then looked at."""
        with self.guard:
            found = self.find(key)
            stamp = self._stamp
            if found is None:
                return None
            size = found.size if isinstance(found, Entry) else len(found)
            wanted = [(0, size)] if ranges is None else ranges(size)
            # Under the guard, so that nobody closes the file meanwhile.
            parts = self._new_parts(key, wanted)
        if parts is None:
            assert isinstance(found, Entry)
            parts = self._old_parts(key, found, wanted, stamp)
        if ranges is None and isinstance(found, Entry) and found.method == STORED:
            check(parts, found, self._path(key))
        return parts

    def check(self, key: str) -> None:
        """Look at the checksum of an object, of which a piece at a time is read."""
        found = self.find(key)
        if not isinstance(found, Entry) or found.method != STORED:
            self.read(key, None)
            return
        check((part for at in range(0, found.size, _PIECE) for part in self._piece(key, at)), found, self._path(key))

    def _piece(self, key: str, at: int) -> list[memoryview]:
        return self.read(key, lambda size: [(min(at, size), max(0, min(_PIECE, size - at)))]) or []

    def _new_parts(self, key: str, wanted: Ranges) -> list[memoryview] | None:
        """Of an object that waits to be in the archive; None: it is in there."""
        if self._writing is None:
            return None
        if key in self._writing.documents:
            data = memoryview(self._writing.documents[key])
            return [data[at : at + length] for at, length in wanted]
        if key in self._writing.entries:
            begin = self._writing.entries[key].at
            return [self._writing.bytes_at(begin + at, length) for at, length in wanted]
        return None

    def _old_parts(self, key: str, entry: Entry, wanted: Ranges, stamp: Stamp | None) -> list[memoryview]:
        if entry.method != STORED:
            data = memoryview(self._whole(key, entry, stamp))
            return [data[at : at + length] for at, length in wanted]
        begin = self._begin(key, entry, stamp)
        parts = self.folder.get_ranges(self.name, [(begin + at, length) for at, length in wanted], stamp=stamp)
        if parts is None:
            raise ConflictError("the archive is gone", key=self.root)
        return parts

    def _begin(self, key: str, entry: Entry, stamp: Stamp | None) -> int:
        """Where an object's bytes begin: only the header in front of them tells."""
        found = self._offsets.get(key)
        if found is None:
            found = data_offset(self._bytes(entry.at, size_of_header(key, entry), stamp), key, entry, self.root)
            with self.guard:
                if stamp == self._stamp:
                    self._offsets[key] = found
        return found

    def _whole(self, key: str, entry: Entry, stamp: Stamp | None) -> bytes:
        """An object that somebody has compressed."""
        with self.guard:
            kept = self._unpacked.get(key)
        if kept is not None:
            return kept
        packed = self._bytes(self._begin(key, entry, stamp), entry.stored, stamp)
        data = unpacked(packed, entry, self._path(key))
        check([data], entry, self._path(key))
        with self.guard:
            if stamp == self._stamp and len(data) <= _UNPACKED:
                self._unpacked_bytes += len(data) - len(self._unpacked.pop(key, b""))
                self._unpacked[key] = data
                while self._unpacked_bytes > _UNPACKED:
                    self._unpacked_bytes -= len(self._unpacked.popitem(last=False)[1])
        return data

    def _path(self, key: str) -> str:
        return f"{self.root}/{key}"

    # --- writing

    def put(self, key: str, parts: Sequence[Buffer]) -> None:
        with self.guard:
            self._sorted = None
            self._begun().put(key, parts)

    def delete(self, key: str) -> bool:
        with self.guard:
            if self.find(key) is None:
                return False
            self._sorted = None
            self._begun().forget(key)
            return True

    def _begun(self) -> Writing:
        if self._writing is not None and self._writing.process != os.getpid():
            what = "the process that this one was forked from is writing the archive"
            raise UnsupportedError(what, key=self.root)
        if self._writing is None:
            self.look_again()
            old = self.entries()
            self._writing = Writing(self.folder, self.name, self._stamp, old)
            # What nobody finishes is finished when nobody can reach it any more.
            self._finalizer = weakref.finalize(self, Writing.finish_unasked, self._writing)
        return self._writing

    def finish(self) -> None:
        """Make the archive that others see of what was written."""
        with self.guard:
            writing, self._writing = self._writing, None
            if writing is not None:
                assert self._finalizer is not None
                self._finalizer.detach()
                self._loaded = False
                self._sorted = None
                writing.finish()


def _after_fork() -> None:
    global _opening
    _opening = threading.Lock()
    for archive in [*_open.values()]:
        archive.after_fork()


os.register_at_fork(after_in_child=_after_fork)
