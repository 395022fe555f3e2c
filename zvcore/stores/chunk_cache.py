"""Decoded chunks that are kept for the next read, for callers that ask for this with `cache=` or ZVCORE_CACHE.

A chunk is found through the shard that it was read from (`engine/single.pyx`), which is given up as soon as its file or
its index is another one: a chunk that is kept is as fresh as one that is read. This module only decides how much is
kept. A hit takes no lock and writes nothing but a mark on the chunk, and that only once between two looks at it.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol

from zvcore.stores import process_caches
from zvcore.stores.process_caches import ProcessCache, bytes_from_environment

__all__ = ["ChunkCache", "shared_cache"]

# What an entry costs besides its values.
_ENTRY_BYTES = 256


class KeptChunk(Protocol):
    """`used` is set when the chunk is read from the cache."""

    used: bool

    @property
    def nbytes(self) -> int: ...


class ChunkCache(ProcessCache):
    """Up to `max_bytes` of chunks. Those that were not used since they were last looked at are dropped first."""

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 1:
            raise ValueError(f"a cache cannot hold {max_bytes} bytes")
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._lock = threading.Lock()
        self._kept: deque[tuple[KeptChunk, dict[int, KeptChunk], int]] = deque()
        super().__init__()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, chunk: KeptChunk, home: dict[int, KeptChunk], place: int) -> None:
        """Have `home[place]` be this chunk as long as there is room for it."""
        if chunk.nbytes + _ENTRY_BYTES > self.max_bytes:
            return
        with self._lock:
            if place in home:  # another thread has read it, too
                return
            self._kept.append((chunk, home, place))
            home[place] = chunk
            self.nbytes += chunk.nbytes + _ENTRY_BYTES
            while self.nbytes > self.max_bytes:
                self._look_at_one()

    def clear(self) -> None:
        with self._lock:
            for _, home, _ in self._kept:
                home.clear()
            self._kept.clear()
            self.nbytes = 0

    def _look_at_one(self) -> None:
        chunk, home, place = self._kept.popleft()
        if chunk.used:
            chunk.used = False
            self._kept.append((chunk, home, place))
        else:
            home.pop(place, None)
            self.nbytes -= chunk.nbytes + _ENTRY_BYTES

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self.clear()


_shared: ChunkCache | None = None


def shared_cache() -> ChunkCache | None:
    """The cache of stores that were given none: one for the process, of as many bytes as ZVCORE_CACHE says."""
    global _shared
    max_bytes = bytes_from_environment("ZVCORE_CACHE", 0)
    if not max_bytes:
        return None
    with process_caches.making:
        if _shared is None or _shared.max_bytes != max_bytes:
            _shared = ChunkCache(max_bytes)
        return _shared
