"""How work on many chunks is cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zvcore.engine.sources import ABSENT

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
    "Written",
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


@dataclass
class Written:
    """How many chunks were stored, of so many bytes together; not `known` of files that the engine writes by itself."""

    chunks: int = 0
    nbytes: int = 0
    known: bool = True

    def add(self, sizes: npt.NDArray[np.uint64]) -> None:
        """Encoded chunks of these sizes."""
        stored = sizes[sizes != ABSENT]
        self.chunks += len(stored)
        self.nbytes += int(stored.sum())

    def copy(self) -> Written:
        return Written(self.chunks, self.nbytes, self.known)


class Steps:
    """Work in several batches, with one count for all of them: of progress, and of what was written."""

    def __init__(self, work: Work, total: int) -> None:
        self.work = work
        self.total = total
        self.before = 0
        self.written = Written()

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
