"""One zip archive as all stores over it in this process share it: what it holds, and what is being written to it."""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_left
from collections import OrderedDict
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from zvcore.errors import ConflictError, StoreError, UnsupportedError, ZvcoreError
from zvcore.stores.again import again
from zvcore.stores.within import Inside, Within
from zvcore.stores.zip_directory import LONGEST_END, STORED, Entry, read_directory
from zvcore.stores.zip_reading import Beginnings
from zvcore.stores.zip_writing import Writing, bytes_of, check, is_document, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from typing_extensions import Buffer

    from zvcore.stores.base import Snapshot, Stamp, Store
    from zvcore.stores.files import Watched
    from zvcore.stores.zip_reading import Ranges

__all__ = ["Archive", "Request", "archive_at"]

# How many bytes of objects that were read as a whole are kept, and of how many a document has at most that is kept.
_KEPT, _SMALL = 64 << 20, 64 << 10
# How many bytes are read at once where all that is wanted of them is their checksum.
_PIECE = 16 << 20

_open: weakref.WeakValueDictionary[Hashable, Archive] = weakref.WeakValueDictionary()
_opening = threading.Lock()


def archive_at(folder: Store, name: str) -> Archive:
    """The archive of this name in a folder: within a process, the same one for all, as it is now."""
    place = folder.object_id(name)
    with _opening:
        found = _open.get(place)
        if found is None:
            found = _open[place] = Archive(folder, name)
            return found
    found.opened_again(folder)
    return found


class Request(NamedTuple):
    """Ranges of an object, which are said when its size is known; None: all of it, whose checksum is then looked at."""

    key: str
    ranges: Callable[[int], Ranges] | None


class _Reading(NamedTuple):
    """What a request turned out to be: `parts` are there if the object waits to be in the archive."""

    key: str
    entry: Entry | bytes
    wanted: Ranges
    parts: list[memoryview] | None


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
        self._entries: Mapping[str, Entry] = {}
        self._sorted: list[str] | None = None
        self._beginnings = Beginnings(self.root)
        self._whole: OrderedDict[str, bytes] = OrderedDict()
        self._whole_bytes = 0
        self._writing: Writing | None = None
        self._finalizer: weakref.finalize[[Writing], Archive] | None = None

    def sync_writes(self) -> None:
        """From now on, the archive that is written is on the disk, and its place in its folder, before it is seen."""
        with self.guard:
            self.folder = self.folder.durable(True)
            if self._writing is not None:
                self._writing.folder = self.folder

    def opened_again(self, folder: Store) -> None:
        """Somebody else opens it, who may write where those before could only read, and expects what is there now."""
        with self.guard:
            if self.folder.read_only and not folder.read_only:
                self.folder = folder.durable(self.folder.fsync or folder.fsync)
            self.look_again()

    def after_fork(self) -> None:
        """Another thread may have held a lock in the parent, in the middle of a change."""
        self.guard = threading.RLock()
        self._locks = {}
        self._sorted = None
        self._beginnings = Beginnings(self.root)
        self._whole = OrderedDict()
        self._whole_bytes = 0

    @property
    def is_begun(self) -> bool:
        """Whether something was written that is not in the file."""
        return self._writing is not None

    def was_there(self) -> bool:
        """Whether it was when it was last looked at. Far away it is read at once: to look first is a request more."""
        if self.folder.remote and not self._loaded:
            with suppress(ZvcoreError):  # whoever wants what is in it is told
                self.entries()
        return self._loaded and self._stamp is not None

    def lock_of(self, key: str) -> threading.RLock:
        with self.guard:
            return self._locks.setdefault(key, threading.RLock())

    # --- what is there

    def entries(self) -> Mapping[str, Entry]:
        """The directory of the file as it is now."""
        with self.guard:
            if not self._loaded:
                self._load()
            return self._entries

    def _load(self) -> None:
        for attempt in again(self.name):
            with attempt:
                end = self._end()
                entries: Mapping[str, Entry] = {}
                if end is not None:
                    entries, _ = read_directory(partial(self._bytes, end), end.size, self.root)
                self._entries, self._stamp = entries, None if end is None else end.stamp
                self._loaded = True
                self._sorted = None
                self._beginnings = Beginnings(self.root)
                self._whole.clear()
                self._whole_bytes = 0

    def look_again(self) -> None:
        """Forget the directory where the file is another one by now."""
        # Most often it is not, which is found out without the guard: others would wait for the system's answer.
        if not self._loaded or self._writing is not None or self.folder.stamp(self.name) == self._stamp:
            return
        with self.guard:
            if self._loaded and self._writing is None and self.folder.stamp(self.name) != self._stamp:
                self._loaded = False
                self._sorted = None

    def _end(self) -> Snapshot | None:
        """The bytes that say where the directory lies."""
        try:
            return self.folder.snapshot(self.name, -LONGEST_END)
        except StoreError:
            # Some web servers count from the beginning alone, or get it wrong where the file is shorter.
            size, stamp = self.folder.size(self.name), self.folder.stamp(self.name)
            if size is None:
                return None
            return self.folder.snapshot(self.name, max(0, size - LONGEST_END), stamp=stamp)

    def _bytes(self, end: Snapshot, at: int, length: int) -> bytes:
        """Bytes of the archive whose end was read: the directory often lies in that already."""
        begin = at - (end.size - len(end.data))
        if begin >= 0:
            return bytes(end.data[begin : begin + length])
        return bytes(bytes_of(self.folder, self.name, at, length, end.stamp))

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
            found = self.entries().get(key)
            if found is None:
                # Reads of what is there notice a new version; what others have added would read as the fill value.
                self.look_if_near()
                found = self.entries().get(key)
            return found

    def look_if_near(self) -> None:
        """`look_again`, unless that is a request over a network."""
        if not self.folder.remote:
            self.look_again()

    def names(self) -> list[str]:
        """All of them, in order."""
        self.look_if_near()
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

    def stamp(self, key: str, asking: bool = True) -> Stamp | None:
        """What is written once stays as it is, in its place.

        Without `asking`, of the archive as it was when it was last looked at: for whoever reads what is stored as it
        is, and so learns whether it still is that archive.
        """
        if asking or not self._is_stored(key):
            self.look_again()
        with self.guard:
            found = self.find(key)
            if found is None:
                return None
            return (self._stamp, found) if isinstance(found, Entry) and not self._is_new(key) else ("new", found)

    def watched(self) -> Watched | None:
        return self.folder.watched(self.name)

    def _is_stored(self, key: str) -> bool:
        found = self.find(key)
        return isinstance(found, Entry) and found.method == STORED

    def _is_new(self, key: str) -> bool:
        return self._writing is not None and key in self._writing.entries

    # --- reading

    def whole(self, key: str) -> bytes | memoryview | None:
        """All bytes of an object. Small documents are kept: who opens something looks at them several times."""
        with self.guard:
            found = self.find(key)
            stamp, beginnings = self._stamp, self._beginnings
            if not isinstance(found, Entry) or found.method != STORED or self._is_new(key):
                parts = self.read([Request(key, None)])[0]
                return None if parts is None else parts[0]
            data: bytes | memoryview | None = self._whole.get(key)
        if data is None:
            data = beginnings.whole(key, found, partial(self._ranges, stamp=stamp))
            check([data], found, self._path(key))
            if len(data) <= _SMALL and is_document(key):
                self._keep(key, bytes(data), stamp)
        return data

    def read(self, requests: Sequence[Request]) -> list[list[memoryview] | None]:
        """What each asks for, all of one version of the archive; None where there is no such object."""
        with self.guard:
            self.entries()
            stamp, beginnings = self._stamp, self._beginnings
            # Under the guard, so that nobody closes the file that is being written meanwhile.
            readings = [self._planned(request) for request in requests]
        old = [reading for reading in readings if reading is not None and reading.parts is None]
        found = iter(self._old_parts(old, stamp, beginnings))
        results: list[list[memoryview] | None] = []
        for request, reading in zip(requests, readings, strict=True):
            parts = None if reading is None else next(found) if reading.parts is None else reading.parts
            results.append(parts)
            if parts is not None and request.ranges is None:
                assert reading is not None
                if isinstance(reading.entry, Entry) and reading.entry.method == STORED:
                    check(parts, reading.entry, self._path(request.key))
        return results

    def _planned(self, request: Request) -> _Reading | None:
        found = self.find(request.key)
        if found is None:
            return None
        size = found.size if isinstance(found, Entry) else len(found)
        wanted = [(0, size)] if request.ranges is None else request.ranges(size)
        return _Reading(request.key, found, wanted, self._new_parts(request.key, wanted))

    def check(self, key: str) -> None:
        """Look at the checksum of an object, of which a piece at a time is read."""
        found = self.find(key)
        if not isinstance(found, Entry) or found.method != STORED:
            self.read([Request(key, None)])
            return
        check((part for at in range(0, found.size, _PIECE) for part in self._piece(key, at)), found, self._path(key))

    def _piece(self, key: str, at: int) -> list[memoryview]:
        return self.read([Request(key, lambda size: [(min(at, size), max(0, min(_PIECE, size - at)))])])[0] or []

    def is_in_file(self, stamp: Stamp | None) -> bool:
        return self._writing is None and self._loaded and self._stamp == stamp

    def in_file(self, keys: Sequence[str], stamps: Sequence[Stamp | None] | None) -> Within | None:
        """See `Store.in_file`: all of these objects must be stored in the file as they are."""
        folder = self.folder.local_root
        self.look_if_near()
        with self.guard:
            directory, stamp, beginnings = self.entries(), self._stamp, self._beginnings
            if folder is None or stamp is None or self._writing is not None:
                return None
        places = beginnings.places
        objects = [places.get(key) for key in keys]
        if None in objects:
            entries = [directory.get(key) for key in keys]
            if any(entry is not None and entry.method != STORED for entry in entries):
                return None
            begins = beginnings.of(keys, entries, partial(self._ranges, stamp=stamp))
            for place, (key, begin, entry) in enumerate(zip(keys, begins, entries, strict=True)):
                if entry is not None:
                    objects[place] = places[key] = Inside(begin, entry.size, entry.crc)
        if stamps is not None and any(
            known is not None and known != (stamp, directory.get(key)) for key, known in zip(keys, stamps, strict=True)
        ):
            return None
        return Within(folder, self.name, stamp, objects)

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

    def _old_parts(
        self, readings: Sequence[_Reading], stamp: Stamp | None, beginnings: Beginnings
    ) -> list[list[memoryview]]:
        """Of objects that are in the archive. Those that somebody has compressed are unpacked as a whole, and kept."""
        kept: dict[str, bytes] = {}
        asked = []
        with self.guard:
            for key, entry, wanted, _ in readings:
                assert isinstance(entry, Entry)
                if (data := self._whole.get(key)) is not None:
                    kept[key] = data
                else:
                    asked.append((key, entry, wanted if entry.method == STORED else [(0, entry.stored)]))
        found = iter(beginnings.read(asked, partial(self._ranges, stamp=stamp)) if asked else ())
        results = []
        for key, entry, wanted, _ in readings:
            assert isinstance(entry, Entry)
            if key in kept:
                results.append([memoryview(kept[key])[at : at + length] for at, length in wanted])
                continue
            parts = next(found)
            if entry.method != STORED:
                data = self._unpacked(key, entry, parts[0], stamp)
                parts = [memoryview(data)[at : at + length] for at, length in wanted]
            results.append(parts)
        return results

    def _ranges(self, ranges: Ranges, stamp: Stamp | None) -> list[memoryview]:
        parts = self.folder.get_ranges(self.name, ranges, stamp=stamp)
        if parts is None:
            raise ConflictError("the archive is gone", key=self.root)
        return parts

    def _unpacked(self, key: str, entry: Entry, packed: memoryview, stamp: Stamp | None) -> bytes:
        """An object that somebody has compressed."""
        data = unpacked(packed, entry, self._path(key))
        check([data], entry, self._path(key))
        self._keep(key, data, stamp)
        return data

    def _keep(self, key: str, data: bytes, stamp: Stamp | None) -> None:
        with self.guard:
            if stamp == self._stamp and len(data) <= _KEPT:
                self._whole_bytes += len(data) - len(self._whole.pop(key, b""))
                self._whole[key] = data
                while self._whole_bytes > _KEPT:
                    self._whole_bytes -= len(self._whole.popitem(last=False)[1])

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
