"""Where the inner chunks of shards within shards lie in the object, from the indexes alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.engine import ABSENT, Sources, StaleSourcesError
from zvcore.engine.steady import steadily
from zvcore.errors import CorruptDataError
from zvcore.stores.indexes import Indexes, index_cache
from zvcore.zarr3.shard_index import Index

if TYPE_CHECKING:
    from zvcore.engine import Keys
    from zvcore.stores import Snapshot
    from zvcore.zarr3.sharding import ShardLayout

__all__ = ["locate_nested"]

_NONE = np.uint64(ABSENT)
Ints = npt.NDArray[np.int64]


def locate_nested(layout: ShardLayout, positions: Ints, keys: Keys, which: npt.NDArray[np.int32]) -> Sources:
    """The ranges of these chunks; `which` of the `keys` holds each. Only the indexes on the way to them are read."""
    found = _Found(layout, positions)
    order = np.argsort(which, kind="stable")
    bounds = np.flatnonzero(np.diff(which[order])) + 1
    groups = list(zip(keys, np.split(order, bounds), strict=True))

    def search(group: tuple[str, npt.NDArray[np.intp]]) -> Any:
        key, rows = group
        found.forget(rows)
        index = layout.index(key, fresh=False)
        if index is not None:
            found.descend(key, index, 0, 0, rows)
        return None if index is None else index.stamp

    stamps = layout.store.each(lambda group: steadily(partial(search, group), group[0]), groups)
    return Sources(keys, which, found.offset, found.length, stamps=stamps)


class _Found:
    """Where chunks lie, as far as the indexes on the way to them have told."""

    def __init__(self, layout: ShardLayout, positions: Ints) -> None:
        self.layout = layout
        self.positions = positions
        self.offset = np.full(len(positions), _NONE)
        self.length = np.full(len(positions), _NONE)

    def forget(self, rows: npt.NDArray[np.intp]) -> None:
        self.offset[rows] = self.length[rows] = _NONE

    def descend(self, key: str, index: Index, base: int, depth: int, rows: npt.NDArray[np.intp]) -> None:
        """Fill in the rows whose chunks lie in the shard of level `depth` that begins at `base` and has this index."""
        levels = self.layout.levels
        slots = levels[depth].slots(self.positions[rows])
        there = index.lengths[slots] != _NONE
        rows, slots = rows[there], slots[there]
        if depth + 1 == len(levels):
            self.offset[rows] = index.offsets[slots] + np.uint64(base)
            self.length[rows] = index.lengths[slots]
            return
        for slot in np.unique(slots).tolist():
            begin = base + int(index.offsets[slot])
            inner = _inner_index(self.layout, key, index.stamp, depth + 1, begin, int(index.lengths[slot]))
            self.descend(key, inner, begin, depth + 1, rows[slots == slot])


def _inner_index(layout: ShardLayout, key: str, stamp: Any, depth: int, begin: int, size: int) -> Index:
    """The index of a shard of level `depth`: of these bytes of the version of the object that has this stamp.

    StaleSourcesError if there is another version now, which what is kept of the object may not know.
    """
    form = layout.levels[depth].form
    if size < form.size:
        raise CorruptDataError(
            "the inner shard is too small for its index", key=key, offset=begin, length=size,
            expected=f"at least {form.size} bytes", found=size,
        )  # fmt: skip
    at = begin + form.begins(size)

    def read(key: str, found: Snapshot) -> tuple[Index, int]:
        if found.stamp != stamp:
            raise StaleSourcesError
        try:
            offsets, lengths = form.parse(found.data, size, key)
        except CorruptDataError as error:
            # Within the inner shard, that is.
            error.offset, error.length = at, form.size
            raise
        return Index(offsets, lengths, found.stamp, found.size), offsets.nbytes + lengths.nbytes

    inner = Indexes(layout.store, (at, form.size), read, part=(form, begin, size))
    try:
        index = inner.of(key, fresh=False)
        if index is None or index.stamp != stamp:
            raise StaleSourcesError
    except StaleSourcesError:
        index_cache().invalidate(layout.store, key)
        raise
    return index
