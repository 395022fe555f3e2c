"""What was read and decoded once and is wanted again: the indexes of shards.

An entry is used only if the store says that the object is still the one that the entry was made from, so that nobody
has to announce changes. Whoever changes an object in this process says so all the same (`invalidate`): stamps may be
coarser than writes.
"""

from __future__ import annotations

import copy
import os
import threading
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar, cast

from zvcore.errors import ConflictError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from zvcore.stores import Snapshot, Stamp, Store

__all__ = ["IndexCache", "index_cache"]

T = TypeVar("T")

# What an entry costs besides its value: keys, stamp, bookkeeping.
_ENTRY_BYTES = 512

# How often a value is loaded anew because its object was changed while it was being read.
_ATTEMPTS = 20

_DEFAULT_BYTES = 256 * 1024 * 1024


class _Entry:
    __slots__ = ("nbytes", "stamp", "value")

    def __init__(self, stamp: Stamp, value: Any, nbytes: int) -> None:
        self.stamp = stamp
        self.value = value
        self.nbytes = nbytes


class _Flight:
    """A value being loaded by one thread while others wait for it."""

    __slots__ = ("done", "error", "loaded", "loader", "stamp", "value")

    def __init__(self, stamp: Stamp) -> None:
        self.stamp = stamp
        self.loader = threading.get_ident()
        self.done = threading.Event()
        self.loaded = False
        self.value: Any = None
        self.error: Exception | None = None


def _copied(error: Exception) -> Exception:
    return copy.copy(error) if isinstance(error, ZvcoreError) else error


class IndexCache:
    """The most recently used values, as many as fit into `max_bytes`. 0 keeps nothing.

    All methods may be called from many threads at once. After a fork the child begins with nothing.
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise ValueError(f"a cache cannot hold {max_bytes} bytes")
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._lock = threading.Lock()
        # (object, part) -> entry, the least recently used first; and the parts that each object has.
        self._entries: OrderedDict[tuple[Hashable, Hashable], _Entry] = OrderedDict()
        self._parts: dict[Hashable, set[Hashable]] = {}
        self._flights: dict[tuple[Hashable, Hashable], _Flight] = {}
        _caches.add(self)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, store: Store, key: str, load: Callable[[Stamp], tuple[T, int]], part: Hashable = None) -> T | None:
        """The value made from an object, None if there is no such object. See also `get_part`.

        `load(stamp)` makes it and says how many bytes it takes; it reads the object with `store.get(..., stamp=stamp)`,
        so that the value is surely of that version, and may keep the stamp in the value for later reads. `part` tells
        apart several values made from one object.

        Threads that want the same value wait for one of them to load it. If that fails, it fails for all of them.
        """
        name = (store.object_id(key), part)
        for attempt in range(_ATTEMPTS):
            stamp = store.stamp(key)
            with self._lock:
                entry = self._entries.get(name)
                if entry is not None:
                    if entry.stamp == stamp:
                        self._entries.move_to_end(name)
                        return cast("T", entry.value)
                    self._drop(name)
                if stamp is None:
                    return None
                flight = self._flights.get(name)
                waiting = flight is not None and flight.stamp == stamp
                if not waiting:
                    flight = self._flights[name] = _Flight(stamp)
            assert flight is not None
            if waiting:
                if flight.loader == threading.get_ident():
                    raise RuntimeError(f"{key}: loading this index needs this index")
                flight.done.wait()
                if flight.loaded:
                    return cast("T", flight.value)
                if flight.error is not None:
                    raise _copied(flight.error)
                continue
            try:
                return self._load(store, name, flight, load)
            except ConflictError:
                if attempt == _ATTEMPTS - 1 or store.stamp(key) == stamp:
                    raise
        raise ConflictError("the object changes faster than its index can be read", key=key)

    def get_part(
        self,
        store: Store,
        key: str,
        span: tuple[int, int | None],
        load: Callable[[Snapshot], tuple[T, int]],
        part: Hashable = None,
        *,
        unchecked: bool = False,
    ) -> T | None:
        """`get` for values that are made from one part of an object: `span` is what `store.snapshot` takes.

        Remote stores are asked once. With `unchecked`, a value that is here already is not compared with the object of
        a remote store as it is now: for who reads the object with the value's stamp next, and learns of changes then.
        """
        if not store.remote:

            def from_stamp(stamp: Stamp) -> tuple[T, int]:
                found = store.snapshot(key, *span, stamp=stamp)
                if found is None:
                    raise ConflictError("the object went away while it was read", key=key)
                return load(found)

            return self.get(store, key, from_stamp, part)
        name = (store.object_id(key), part)
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None:
                self._entries.move_to_end(name)
        if entry is not None and (unchecked or store.stamp(key) == entry.stamp):
            return cast("T", entry.value)
        with self._lock:
            if entry is not None and self._entries.get(name) is entry:
                self._drop(name)
            flight = self._flights.get(name)
            # Only who may be given what is not the newest waits for what others have begun to load before.
            waiting = unchecked and flight is not None and flight.loader != threading.get_ident()
            if not waiting:
                flight = self._flights[name] = _Flight(None)
        assert flight is not None
        if waiting:
            flight.done.wait()
            if flight.loaded:
                return cast("T | None", flight.value)
            if flight.error is not None:
                raise _copied(flight.error)
            return self.get_part(store, key, span, load, part, unchecked=unchecked)
        return self._fly(store, key, span, load, name, flight)

    def known(self, store: Store, key: str, part: Hashable = None) -> Any:
        """What `get_part` with `unchecked` gives without asking a remote store, None if it would have to ask."""
        name = (store.object_id(key), part)
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                return None
            self._entries.move_to_end(name)
            return entry.value

    def _fly(
        self,
        store: Store,
        key: str,
        span: tuple[int, int | None],
        load: Callable[[Snapshot], tuple[T, int]],
        name: tuple[Hashable, Hashable],
        flight: _Flight,
    ) -> T | None:
        new: _Entry | None = None
        try:
            found = store.snapshot(key, *span)
            if found is not None:
                value, nbytes = load(found)
                flight.value = value
                new = _Entry(found.stamp, value, nbytes + _ENTRY_BYTES)
            flight.loaded = True
        except ConflictError:
            raise  # the others look for themselves
        except Exception as error:
            flight.error = _copied(error)
            raise
        finally:
            with self._lock:
                if self._flights.get(name) is flight:
                    del self._flights[name]
                    if new is not None:
                        self._insert(name, new)
            flight.done.set()
        return cast("T | None", flight.value)

    def _load(
        self, store: Store, name: tuple[Hashable, Hashable], flight: _Flight, load: Callable[[Stamp], tuple[T, int]]
    ) -> T:
        try:
            lasting = store.settled(flight.stamp)
            value, nbytes = load(flight.stamp)
            flight.value = value
            flight.loaded = True
        except ConflictError:
            raise  # the others look for themselves
        except Exception as error:
            # Ours goes on to who asked, and they add to it where it happened to them.
            flight.error = _copied(error)
            raise
        finally:
            with self._lock:
                # Another flight, or none: the object has changed since.
                current = self._flights.get(name) is flight
                if current:
                    del self._flights[name]
                    if flight.loaded and lasting:
                        self._insert(name, _Entry(flight.stamp, value, nbytes + _ENTRY_BYTES))
            flight.done.set()
        return value

    def resize(self, store: Store, key: str, value: Any, nbytes: int, part: Hashable = None) -> None:
        """Say that a value which fills as it is used takes this many bytes by now."""
        name = (store.object_id(key), part)
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None and entry.value is value:
                self._insert(name, _Entry(entry.stamp, value, nbytes + _ENTRY_BYTES))

    def invalidate(self, store: Store, key: str) -> None:
        """Forget all values made from this object, also those that are being loaded."""
        object_id = store.object_id(key)
        with self._lock:
            for part in [*self._parts.get(object_id, ())]:
                self._drop((object_id, part))
            for name in [name for name in self._flights if name[0] == object_id]:
                del self._flights[name]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._parts.clear()
            self._flights.clear()
            self.nbytes = 0

    # --- under the lock

    def _insert(self, name: tuple[Hashable, Hashable], entry: _Entry) -> None:
        if name in self._entries:
            self._drop(name)
        if entry.nbytes > self.max_bytes:
            return
        self._entries[name] = entry
        self._parts.setdefault(name[0], set()).add(name[1])
        self.nbytes += entry.nbytes
        while self.nbytes > self.max_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, name: tuple[Hashable, Hashable]) -> None:
        self.nbytes -= self._entries.pop(name).nbytes
        parts = self._parts[name[0]]
        parts.discard(name[1])
        if not parts:
            del self._parts[name[0]]

    # --- forks

    def _after_fork(self) -> None:
        # Some other thread may have been in the middle of a change, and those that were loading are not here.
        self._lock = threading.Lock()
        self._entries = OrderedDict()
        self._parts = {}
        self._flights = {}
        self.nbytes = 0


_caches: weakref.WeakSet[IndexCache] = weakref.WeakSet()
_default: IndexCache | None = None
_making = threading.Lock()


def index_cache() -> IndexCache:
    """The cache of this process. `ZVCORE_INDEX_CACHE_BYTES` bounds it (256 MiB unless told); 0 turns it off."""
    global _default
    if _default is None:
        with _making:
            if _default is None:
                text = os.environ.get("ZVCORE_INDEX_CACHE_BYTES", "")
                if text and not (text.isascii() and text.isdigit()):
                    raise ValueError(f"ZVCORE_INDEX_CACHE_BYTES is a number of bytes, not {text!r}")
                _default = IndexCache(int(text) if text else _DEFAULT_BYTES)
    return _default


def _after_fork() -> None:
    global _making
    _making = threading.Lock()
    for cache in [*_caches]:
        cache._after_fork()


os.register_at_fork(after_in_child=_after_fork)
