"""What all views of one store of zarr-python have in common in this process."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zarr.abc.store import Store as Given

__all__ = ["Place", "Version", "place_of"]

# What is known of objects, by their paths.
Known = dict[str, "bytes | memoryview | None"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Version(NamedTuple):
    """How often this process has changed the object through zvcore, its size, and of which snapshot it is."""

    changes: int
    size: int
    snapshot: str | None


class Place:
    """Locks, how often objects were changed, and notes.

    given     the store that was given first for it
    name      what this place is called by those who may outlive it: `id` is given to another one afterwards
    notes     what zvcore has noted and the store cannot hold
    snapshot  of what never changes, which state of it this is
    """

    def __init__(self, given: Given) -> None:
        self.given = given
        self.name = object()
        self.notes: dict[str, bytes] = {}
        self.snapshot: str | None = None
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._changes: dict[str, int] = {}
        # Thread -> what it has asked for, within `looking`.
        self._looked: dict[int, Known] = {}

    def changes(self, path: str) -> int:
        """How often this process has changed the object."""
        return self._changes.get(path, 0)

    def version(self, changes: int, size: int) -> Version:
        return Version(changes, size, self.snapshot)

    def is_changed(self, path: str) -> None:
        with self._guard:
            self._changes[path] = self.changes(path) + 1
            for known in [*self._looked.values()]:
                known.pop(path, None)

    def lock_of(self, path: str) -> threading.Lock:
        with self._guard:
            return self._locks.setdefault(path, threading.Lock())

    @contextmanager
    def looking(self) -> Iterator[Known | None]:
        """Within this, a thread is told what is put into this; None: something around it has begun that."""
        me = threading.get_ident()
        if me in self._looked:
            yield None
            return
        self._looked[me] = {}
        try:
            yield self._looked[me]
        finally:
            del self._looked[me]

    def known(self) -> Mapping[str, bytes | memoryview | None]:
        """What this thread knows of objects, without asking."""
        return self._looked.get(threading.get_ident(), _NOTHING) if self._looked else _NOTHING

    def after_fork(self) -> None:
        """Another thread may have held the locks, which is not here to release them."""
        self._guard, self._locks, self._looked = threading.Lock(), {}, {}


_places: WeakSet[Place] = WeakSet()
_finding = threading.Lock()


def place_of(given: Given) -> Place:
    with _finding:
        # Every look at a session of Icechunk gives another store, which equals the others.
        found = next((one for one in _places if one.given == given), None) or Place(given)
        _places.add(found)
    return found


def _after_fork() -> None:
    global _finding
    _finding = threading.Lock()
    for place in [*_places]:
        place.after_fork()


os.register_at_fork(after_in_child=_after_fork)
