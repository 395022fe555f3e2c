"""Where the stored bytes of a batch are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    import numpy.typing as npt

    from zvcore.engine.buffers import Keys

__all__ = ["ABSENT", "Sources"]

# The length of a chunk that is not there (it reads as the fill value), and the size of one that need not be stored.
ABSENT = 2**64 - 1


@dataclass
class Sources:
    """Where the stored bytes of some chunks are; row i of each column belongs to the i-th chunk asked for.

    keys      the objects; each named once
    key       int32[n], which of `keys`; None: row i is object i
    offset    uint64[n], and
    length    uint64[n], the byte range, ABSENT length for a chunk that is not stored; both None: whole objects, and an
              object that does not exist is an absent chunk
    blobs     bytes that are in memory already, instead of objects: `key` then indexes this list
    parts     uint64[n, 3]: where that part of a chunk which is wanted begins and ends, and how many bytes all of the
              chunk has; end 0: all of it is wanted. `offset` and `length`, or `blobs`, are then those of the parts.
              None: all of all chunks
    chain     uint8[n], which of the layout's codec chains; None: the first
    crc32     uint64[n], the CRC-32 of each range, ABSENT where none is known; None: of none. What is read as a whole is
              held against it
    stamps    what the store's `stamp` gave for each of `keys` when its index was read, or None; when the object is
              another one by now, `locate` is asked again
    present   whether whole objects are there, as far as is known; when one is not, `locate` is asked again
    """

    keys: Keys
    key: npt.NDArray[np.int32] | None = None
    offset: npt.NDArray[np.uint64] | None = None
    length: npt.NDArray[np.uint64] | None = None
    blobs: Sequence[memoryview | None] | None = None
    parts: npt.NDArray[np.uint64] | None = None
    chain: npt.NDArray[np.uint8] | None = None
    crc32: npt.NDArray[np.uint64] | None = None
    stamps: Sequence[Hashable | None] | None = None
    present: bool = False
    # What the layout knows of each of `keys`, for the code that replaces these objects next: a shard's index.
    found: Sequence[Any] | None = None
    # For errors: where `blobs` were fetched from, or what the ranges of files are.
    origin: Sources | None = None

    @property
    def count(self) -> int:
        """How many rows there are."""
        for column in (self.key, self.offset, self.chain):
            if column is not None:
                return len(column)
        return len(self.keys) if self.blobs is None else len(self.blobs)
