"""Where the inner chunks of shards within shards lie in the object, from the indexes alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.engine import ABSENT, Sources, StaleSourcesError
from zvcore.errors import CorruptDataError
from zvcore.stores.again import BEING_REPLACED, again
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
    offset = np.full(len(positions), _NONE)
    length = np.full(len(positions), _NONE)
    order = np.argsort(which, kind="stable")
    bounds = np.flatnonzero(np.diff(which[order])) + 1
    groups = list(zip(keys, np.split(order, bounds), strict=True))

    def search(group: tuple[str, npt.NDArray[np.intp]]) -> Any:
        key, rows = group
        index = None
        for attempt in again(key, BEING_REPLACED, on=StaleSourcesError):
            with attempt:
                offset[rows] = length[rows] = _NONE
                index = layout.index(key, fresh=False)
                if index is not None:
                    _descend(layout, key, index, 0, 0, positions, rows, offset, length)
        return None if index is None else index.stamp

    stamps = layout.store.each(search, groups)
    return Sources(keys, which, offset, length, stamps=stamps)


def _descend(
    layout: ShardLayout,
    key: str,
    index: Index,
    base: int,
    depth: int,
    positions: Ints,
    rows: npt.NDArray[np.intp],
    offset: npt.NDArray[np.uint64],
    length: npt.NDArray[np.uint64],
) -> None:
    """Fill in the rows whose chunks lie in the shard of level `depth` that begins at `base` and has this index."""
    slots = layout.levels[depth].slots(positions[rows])
    there = index.lengths[slots] != _NONE
    rows, slots = rows[there], slots[there]
    if depth + 1 == len(layout.levels):
        offset[rows] = index.offsets[slots] + np.uint64(base)
        length[rows] = index.lengths[slots]
        return
    for slot in np.unique(slots).tolist():
        begin = base + int(index.offsets[slot])
        inner = _inner_index(layout, key, index.stamp, depth + 1, begin, int(index.lengths[slot]))
        _descend(layout, key, inner, begin, depth + 1, positions, rows[slots == slot], offset, length)


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
