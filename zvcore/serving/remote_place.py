"""A place behind an address that is served: an object store, a web server, whatever `zvcore.open` opens."""

from __future__ import annotations

import hashlib
import io
import threading
import time
from typing import IO, TYPE_CHECKING, TypeVar

from zvcore.converting.note import unfinished_around
from zvcore.errors import ConflictError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.format import formats, marks
from zvcore.serving.limits import LARGEST_READ
from zvcore.serving.paths import is_shown, may_be_read, told
from zvcore.serving.place import Found, Place, Seen, Want
from zvcore.stores.clients import Version
from zvcore.stores.fenced import FencedStore

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from typing import Any

    from zvcore.stores.base import Stamp, Store

__all__ = ["RemotePlace"]

T = TypeVar("T")
R = TypeVar("R")

# So much of a file is fetched at once, and sent before the next is.
_PIECE = 16 << 20
# A file of which nothing is known is asked for together with so many of its bytes: chunks are seldom larger.
_AHEAD = 1 << 20
# For so many seconds, what was seen of a document is believed: many requests in a row ask about the same data set.
_BELIEVED = 3.0
_MOST_BELIEVED = 4096


class RemoteFound(Found):
    """An object of a store, or one of its folders."""

    def __init__(self, store: Store, key: str, stamp: Stamp, size: int, ahead: bytes | memoryview = b"") -> None:
        self._store = store
        self._key = key
        self._stamp = stamp
        self.size = size
        # What was fetched already: where it begins, and the bytes.
        self._piece = (0, memoryview(ahead))
        self.changed = stamp.modified if isinstance(stamp, Version) else None
        self.tag = _tag(store, stamp)

    def _bytes(self, start: int, stop: int) -> memoryview:
        """As many of these bytes as one piece holds."""
        first, piece = self._piece
        if not first <= start < first + len(piece):
            stop = min(stop, start + _PIECE)
            stamp = None if self._store.blind else self._stamp
            found = self._store.get_ranges(self._key, [(start, stop - start)], stamp=stamp)
            if found is None:
                raise ConflictError("the object has been removed since", key=self._key)
            first, piece = self._piece = (start, found[0])
        return piece[start - first : stop - first]

    def begin(self, start: int, stop: int) -> None:
        if start < stop:
            self._bytes(start, stop)

    def send(self, connection: socket.socket, start: int, stop: int) -> int:
        at = start
        while at < stop:
            try:
                piece = self._bytes(at, stop)
            except ZvcoreError:
                break  # what has been promised cannot be taken back
            connection.sendall(piece)
            at += len(piece)
        return at - start

    def file(self) -> IO[bytes]:
        return io.BufferedReader(_Reading(self), 1 << 20)

    def entries(self, most: int) -> list[tuple[bytes, bool]]:
        return []

    def close(self) -> None: ...


class _Reading(io.RawIOBase):
    """An object as a file that is read from its beginning to its end."""

    def __init__(self, found: RemoteFound) -> None:
        self._found = found
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        stop = min(self._at + len(buffer), self._found.size)
        if self._at >= stop:
            return 0
        piece = self._found._bytes(self._at, stop)[: len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


class RemoteFolder(RemoteFound):
    """A folder of a store."""

    is_folder = True

    def __init__(self, store: Store, key: str, folders: Sequence[str], objects: Sequence[str]) -> None:
        super().__init__(store, key, None, 0)
        self._entries = [*((name, True) for name in folders), *((name, False) for name in objects)]

    def entries(self, most: int) -> list[tuple[bytes, bool]]:
        named = [(_bytes(name), is_folder) for name, is_folder in self._entries]
        return sorted(entry for entry in named if is_shown(entry[0]))[:most]


class RemotePlace(Place):
    """Whatever lies at an address, with the credentials that open it: clients never learn them.

    Names are held to the same rules as those of files, and so are amounts. What lies above the address is not read,
    but for the note of an unfinished conversion.
    """

    far = True

    def __init__(self, store: Store) -> None:
        """`store` is the place's own from now on."""
        self._around = store
        self._around.largest = LARGEST_READ
        self._all = FencedStore(self._around, may_be_read, LARGEST_READ)
        self._lock = threading.Lock()
        self._believed: dict[str, tuple[Seen | None, float]] = {}
        self._refuse_if_nothing_is_here()

    def _refuse_if_nothing_is_here(self) -> None:
        documents = [name for some in marks(formats().values()) for name in some if is_shown(name.encode())]
        if any(self._all.each(self._all.exists, documents)):
            return
        try:
            folders, objects = self._all.list_dir()
        except UnsupportedError:  # what cannot be listed
            folders, objects = [], []
        if not folders and not objects:
            raise NotFoundError("there is nothing here to be served", key=self._all.root)

    def close(self) -> None:
        self._around.close()

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        return self._around.each(function, items)

    def store(self, names: Sequence[bytes]) -> FencedStore:
        return self._all.child("/".join(map(_text, names)))

    def look(self, names: Sequence[bytes]) -> Seen | None:
        key = _key(names)
        if key is None:
            return None
        with self._lock:
            known = self._believed.get(key)
        if known is not None and time.monotonic() - known[1] < _BELIEVED:
            return known[0]
        stamp = self._all.stamp(key)
        found = None if stamp is None else Seen(False, stamp)
        with self._lock:
            if len(self._believed) >= _MOST_BELIEVED:
                self._believed.clear()
            self._believed[key] = found, time.monotonic()
        return found

    def open(self, names: Sequence[bytes], want: Want) -> RemoteFound | None:
        key = _key(names)
        if key is None:
            return None
        if want.folder:
            return self._open_folder(key)
        if want.whole:
            found = self._all.snapshot(key, 0, _AHEAD)
            return None if found is None else RemoteFound(self._all, key, found.stamp, found.size, found.data)
        seen = self.look(names)
        if seen is None:
            return None
        stamp = seen.version
        size = stamp.size if isinstance(stamp, Version) else self._all.size(key)
        return None if size is None else RemoteFound(self._all, key, stamp, size)

    def _open_folder(self, key: str) -> RemoteFolder | None:
        try:
            folders, objects = self._all.list_dir(key)
        except UnsupportedError:  # what cannot be listed
            return None
        return RemoteFolder(self._all, key, folders, objects) if folders or objects else None

    def forget(self, names: Sequence[bytes]) -> None:
        with self._lock:
            self._believed.pop(_key(names) or "", None)

    def listing(self, names: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
        folders, objects = self._all.list_dir("/".join(map(_text, names)))
        return [_bytes(name) for name in folders], [_bytes(name) for name in objects]

    def stored_size(self, names: Sequence[bytes], seconds: float) -> None:
        return None

    def unfinished(self) -> str | None:
        return told(unfinished_around(self._around))


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _key(names: Sequence[bytes]) -> str | None:
    """The key that these names are; None for what no object is called."""
    try:
        return "/".join(name.decode() for name in names) if all(map(is_shown, names)) else None
    except UnicodeDecodeError:
        return None


def _tag(store: Store, stamp: Stamp) -> str | None:
    """An entity tag of this version. It says nothing of how the store tells versions apart."""
    if store.blind or stamp is None:
        return None
    if isinstance(stamp, Version) and stamp.e_tag is None and stamp.number is None and stamp.modified is None:
        return None
    return hashlib.blake2b(repr(stamp).encode(), digest_size=12).hexdigest()
