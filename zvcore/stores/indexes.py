"""A cache of what was read and decoded once and is wanted again: the indexes of shards.

A value is used only if the store says that the object is still the one that it was made from, so that no caller has to
announce changes. Stamps may be coarser than writes, so `Store.edit` has the values of what it changed forgotten.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from zvcore.errors import ConflictError, ZvcoreError
from zvcore.stores import process_caches
from zvcore.stores.again import BEING_REPLACED, again, changed
from zvcore.stores.process_caches import ProcessCache, bytes_from_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from zvcore.stores.base import Snapshot, Span, Stamp, Store

__all__ = ["IndexCache", "Indexes", "index_cache"]

T = TypeVar("T")
Name: TypeAlias = "tuple[Hashable, Hashable]"

# What an entry costs besides its value: keys, stamp, bookkeeping.
_ENTRY_BYTES = 512

_DEFAULT_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class Indexes(Generic[T]):
    """What `read` makes of one part of each object of a store, kept in the cache of this process.

    span  the part that is read, as `Store.snapshot` takes it
    read  (key, what was read) -> (value, how many bytes it takes)
    part  tells apart several values that are made from one object
    """

    store: Store
    span: Span
    read: Callable[[str, Snapshot], tuple[T, int]]
    part: Hashable = None

    def of(self, key: str, fresh: bool = True) -> T | None:
        """The value of an object; None if there is no such object.

        With `fresh`, of the object as it is now. Without, a remote object is not asked whether it is still the same:
        for callers that read it with the value's stamp next, and so notice a change.
        """
        return index_cache().get(self, key, fresh)

    def known(self, key: str) -> T | None:
        """What `of` gives without asking the store; None if it would have to ask."""
        return index_cache().known(self, key)

    def note(self, key: str, stamp: Stamp, value: T, nbytes: int) -> None:
        """Say what the value is of the version that has this stamp, which no later one can have."""
        index_cache().note((self.store.object_id(key), self.part), stamp, value, nbytes)


class _Entry:
    __slots__ = ("nbytes", "stamp", "value")

    def __init__(self, stamp: Stamp, value: Any, nbytes: int) -> None:
        self.stamp = stamp
        self.value = value
        self.nbytes = nbytes


class _Flight:
    """A value being read by one thread while others wait for it; of the version `stamp`, None: whichever is there."""

    __slots__ = ("done", "error", "loaded", "reader", "stamp", "value")

    def __init__(self, stamp: Stamp | None) -> None:
        self.stamp = stamp
        self.reader = threading.get_ident()
        self.done = threading.Event()
        self.loaded = False
        self.value: Any = None
        self.error: Exception | None = None

    def result(self, key: str) -> Any:
        """Wait for the value. A reading that fails fails for all that wait, unless the object was changed under it."""
        if self.reader == threading.get_ident():
            raise RuntimeError(f"{key}: reading this index needs this index")
        self.done.wait()
        if self.error is not None:
            raise _copied(self.error)
        if not self.loaded:
            raise changed(key, "")
        return self.value


def _copied(error: Exception) -> Exception:
    return copy.copy(error) if isinstance(error, ZvcoreError) else error


class IndexCache(ProcessCache):
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
        self._entries: OrderedDict[Name, _Entry] = OrderedDict()
        self._parts: dict[Hashable, set[Hashable]] = {}
        self._flights: dict[Name, _Flight] = {}
        super().__init__()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, indexes: Indexes[T], key: str, fresh: bool = True) -> T | None:
        """`Indexes.of`. Threads that want the same value wait for one of them to read it."""
        store = indexes.store
        name = (store.object_id(key), indexes.part)
        value: Any = None
        for attempt in again(key, BEING_REPLACED):
            # Where asking is a request, what is here is trusted unless it must be fresh, and reading tells the stamp.
            asking = not store.remote or (fresh and name in self._entries)
            stamp = store.stamp(key) if asking else None
            with self._lock:
                entry = self._entries.get(name)
                if entry is not None:
                    if entry.stamp == stamp if asking else not fresh:
                        self._entries.move_to_end(name)
                        return cast("T", entry.value)
                    self._drop(name)
                if asking and stamp is None:
                    break
                flight = self._flights.get(name)
                ours = flight is None or not (flight.stamp == stamp if asking else not fresh)
                if ours:
                    flight = self._flights[name] = _Flight(stamp)
            assert flight is not None
            with attempt:
                value = self._read(indexes, key, name, flight) if ours else flight.result(key)
            if attempt.error is not None and ours and asking and store.stamp(key) == stamp:
                raise attempt.error  # it has nothing to do with this object
        if value is None:
            store.refuse_other(key)
        return cast("T | None", value)

    def known(self, indexes: Indexes[T], key: str) -> T | None:
        """`Indexes.known`."""
        if not indexes.store.remote:
            return None
        name = (indexes.store.object_id(key), indexes.part)
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                return None
            self._entries.move_to_end(name)
            return cast("T", entry.value)

    def _read(self, indexes: Indexes[T], key: str, name: Name, flight: _Flight) -> T | None:
        store = indexes.store
        new: _Entry | None = None
        try:
            lasting = flight.stamp is not None and store.settled(flight.stamp)
            found = store.snapshot(key, *indexes.span, stamp=flight.stamp)
            if found is not None:
                # Of one that was not known before, the stamp came with the bytes.
                lasting = lasting or (flight.stamp is None and store.settled(found.stamp))
                flight.value, nbytes = indexes.read(key, found)
                new = _Entry(found.stamp, flight.value, nbytes + _ENTRY_BYTES) if lasting else None
            flight.loaded = True
        except ConflictError:
            raise  # the others look for themselves
        except Exception as error:
            # The caller keeps this one and adds its own place to it; those that wait get copies.
            flight.error = _copied(error)
            raise
        finally:
            with self._lock:
                # Another flight, or none: the object has changed since.
                if self._flights.get(name) is flight:
                    del self._flights[name]
                    if new is not None:
                        self._insert(name, new)
            flight.done.set()
        return cast("T | None", flight.value)

    def resize(self, store: Store, key: str, value: Any, nbytes: int, part: Hashable = None) -> None:
        """Say that a value which fills as it is used takes this many bytes by now."""
        name = (store.object_id(key), part)
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None and entry.value is value:
                self._insert(name, _Entry(entry.stamp, value, nbytes + _ENTRY_BYTES))

    def note(self, name: Name, stamp: Stamp, value: Any, nbytes: int) -> None:
        """`Indexes.note`."""
        with self._lock:
            self._insert(name, _Entry(stamp, value, nbytes + _ENTRY_BYTES))

    def invalidate(self, store: Store, key: str) -> None:
        """Forget all values made from this object, also those that are being read."""
        with self._lock:
            # What somebody begins to read from now on is of the object as it is now.
            if not self._parts and not self._flights:
                return
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

    def _insert(self, name: Name, entry: _Entry) -> None:
        if name in self._entries:
            self._drop(name)
        if entry.nbytes > self.max_bytes:
            return
        self._entries[name] = entry
        self._parts.setdefault(name[0], set()).add(name[1])
        self.nbytes += entry.nbytes
        while self.nbytes > self.max_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, name: Name) -> None:
        self.nbytes -= self._entries.pop(name).nbytes
        parts = self._parts[name[0]]
        parts.discard(name[1])
        if not parts:
            del self._parts[name[0]]

    # --- forks

    def after_fork(self) -> None:
        # Threads that were reading are not here.
        self._lock = threading.Lock()
        self._entries = OrderedDict()
        self._parts = {}
        self._flights = {}
        self.nbytes = 0


_default: IndexCache | None = None


def index_cache() -> IndexCache:
    """The cache of this process. `ZVCORE_INDEX_CACHE_BYTES` bounds it (256 MiB by default); 0 turns it off."""
    global _default
    if _default is None:
        with process_caches.making:
            if _default is None:
                _default = IndexCache(bytes_from_environment("ZVCORE_INDEX_CACHE_BYTES", _DEFAULT_BYTES))
    return _default
