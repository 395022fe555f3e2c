"""Encoded values on their way into shards: columns that say what they are, and their bytes one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zvcore.cached import cached_property
from zvcore.kernels.ranges import gather_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Entries", "join", "nothing_before", "stored_order"]

U64 = npt.NDArray[np.uint64]


def stored_order(hashes: U64, ids: U64) -> npt.NDArray[np.intp]:
    """The order in which shards store values: by shard, minishard and id. Rows that are equal stay in their order."""
    if len(hashes) == 0:
        return np.empty(0, np.intp)
    least = hashes.min()
    span = int(hashes.max() - least)
    if span >= 1 << 16:
        return np.lexsort((ids, hashes))
    # Few hashes are sorted by counting, and ids are often in order already.
    buckets = (hashes - least).astype(np.uint16)
    if (ids[1:] >= ids[:-1]).all():
        return np.argsort(buckets, kind="stable")
    order = np.argsort(ids, kind="stable")
    return order if span == 0 else order[np.argsort(buckets[order], kind="stable")]


def nothing_before(count: int) -> U64:
    """The column `before` of values that nothing precedes, which takes no memory."""
    return np.broadcast_to(np.uint64(0), (count,))


@dataclass
class Entries:
    """Encoded values; row i of each column and the i-th range of `data` belong together.

    hashes    where the value goes: the hashed id, whose low bits are the minishard and whose high bits the shard
    ids       the ids themselves
    before    how many bytes of `data` precede the value that no index mentions
    sizes     how many bytes the value itself has
    data      for each entry the bytes before it and its value
    """

    hashes: U64
    ids: U64
    before: U64
    sizes: U64
    data: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def spans(self) -> U64:
        """How many bytes of `data` each entry has."""
        return self.before + self.sizes

    @property
    def nbytes(self) -> int:
        # What precedes no value is one zero for all.
        return (32 if self.before.strides != (0,) else 24) * len(self.ids) + len(self.data)

    def sorted(self) -> Entries:
        """The same in the order in which they are stored: by shard, minishard and id."""
        if len(self) < 2:
            return self
        ahead = (self.hashes[1:] > self.hashes[:-1]) | (
            (self.hashes[1:] == self.hashes[:-1]) & (self.ids[1:] >= self.ids[:-1])
        )
        if ahead.all():
            return self
        order = stored_order(self.hashes, self.ids)
        spans = self.spans
        ends = np.cumsum(spans, dtype=np.uint64)
        return Entries(
            self.hashes[order],
            self.ids[order],
            self.before[order],
            self.sizes[order],
            gather_ranges(self.data, (ends - spans)[order], spans[order]),
        )

    def rows(self, first: int, last: int, data: npt.NDArray[np.uint8]) -> Entries:
        """Some of the rows, with their bytes."""
        span = slice(first, last)
        return Entries(self.hashes[span], self.ids[span], self.before[span], self.sizes[span], data)

    def slice(self, first: int, last: int) -> Entries:
        """Some of the rows, as views."""
        start, end = self._bounds[first], self._bounds[last]
        return self.rows(first, last, self.data[int(start) : int(end)])

    @cached_property
    def _bounds(self) -> U64:
        """Where in `data` each entry begins, and where the last one ends: made once for all slices."""
        bounds = np.zeros(len(self.ids) + 1, np.uint64)
        np.cumsum(self.spans, out=bounds[1:])
        return bounds


def join(pieces: Sequence[Entries]) -> Entries:
    """All pieces, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        none = np.empty(0, np.uint64)
        return Entries(none, none, none, none, np.empty(0, np.uint8))
    return Entries(
        np.concatenate([piece.hashes for piece in pieces]),
        np.concatenate([piece.ids for piece in pieces]),
        np.concatenate([piece.before for piece in pieces]),
        np.concatenate([piece.sizes for piece in pieces]),
        np.concatenate([piece.data for piece in pieces]),
    )
