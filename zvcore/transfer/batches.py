"""How work on many chunks is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.engine.work import Work

__all__ = [
    "BATCH_BYTES",
    "BATCH_CHUNKS",
    "BATCH_OBJECTS",
    "BATCH_POSITIONS",
    "PACK_BYTES",
    "Positions",
    "Rows",
    "Steps",
    "windows",
]

Positions = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

# How many chunks one native batch takes at most; bounds the memory for their positions and names.
BATCH_CHUNKS = 1 << 16
# How many chunks' positions are held, at 8 bytes for each axis.
BATCH_POSITIONS = 1 << 20
# How many bytes of chunks are fetched before they are decoded, from stores that are neither local nor remote.
BATCH_BYTES = 64 << 20
# How many objects are replaced, and locked, at once.
BATCH_OBJECTS = 128
# How many bytes of chunks are written to local shards in one go, which need no memory.
PACK_BYTES = 512 << 20


class Steps:
    """Work in several batches, with one count of progress for all of them."""

    def __init__(self, work: Work, total: int) -> None:
        self.work = work
        self.total = total
        self.before = 0

    def of(self, count: int) -> Work:
        """The work on the next `count` chunks."""
        callback = self.work.progress
        if callback is None:
            return self.work
        start = self.before
        self.before += count

        def tell(done: int, items: int) -> None:
            callback(start + done * count // max(items, 1), self.total)

        return self.work.telling(tell)


def windows(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
