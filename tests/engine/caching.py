"""What the tests of the index cache need: values that are loaded from objects, and objects that stand still."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.processes import PATIENCE
from zvcore.stores.indexes import IndexCache, Indexes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from zvcore.stores import Snapshot, Store

ENTRY = 512  # what the cache counts for an entry besides its value


class Loader:
    """Loads an object as the value, and counts."""

    def __init__(self, store: Store, key: str, nbytes: int = 100) -> None:
        self.store = store
        self.key = key
        self.nbytes = nbytes
        self.calls = 0

    def __call__(self, found: Snapshot) -> tuple[bytes, int]:
        self.calls += 1
        return bytes(found.data), self.nbytes


def get(
    cache: IndexCache, store: Store, key: str, load: Callable[[Snapshot], tuple[Any, int]], part: Hashable = None
) -> Any:
    """What the cache has of an object, or loads."""
    return cache.get(Indexes(store, (0, None), lambda key, found: load(found), part), key)


def settle(store: Store, key: str) -> None:
    """Wait until the object is old enough for a cache to rely on its stamp."""
    deadline = time.monotonic() + PATIENCE
    while (stamp := store.stamp(key)) is not None and not store.settled(stamp):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def put(store: Store, key: str, data: bytes) -> None:
    store.put(key, data)
    settle(store, key)
