"""What the tests of the index cache need: values that are loaded from objects, and objects that stand still."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.processes import PATIENCE

if TYPE_CHECKING:
    from zvcore.stores import Stamp, Store

ENTRY = 512  # what the cache counts for an entry besides its value


class Loader:
    """Loads an object as the value, and counts."""

    def __init__(self, store: Store, key: str, nbytes: int = 100) -> None:
        self.store = store
        self.key = key
        self.nbytes = nbytes
        self.calls = 0

    def __call__(self, stamp: Stamp) -> tuple[bytes, int]:
        self.calls += 1
        data = self.store.get(self.key, stamp=stamp)
        assert data is not None
        return bytes(data), self.nbytes


def settle(store: Store, key: str) -> None:
    """Wait until the object is old enough for a cache to rely on its stamp."""
    deadline = time.monotonic() + PATIENCE
    while (stamp := store.stamp(key)) is not None and not store.settled(stamp):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def put(store: Store, key: str, data: bytes) -> None:
    store.put(key, data)
    settle(store, key)
