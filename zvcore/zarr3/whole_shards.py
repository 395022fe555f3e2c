"""Shards that are read and written as a whole: those behind codecs, and those within other shards where they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.engine import ABSENT, Sources
from zvcore.errors import CorruptDataError
from zvcore.zarr3.shard_format import ShardAssembler

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.engine import Keys
    from zvcore.zarr3.shard_levels import ShardLevel
    from zvcore.zarr3.sharding import ShardLayout

__all__ = ["locate_whole", "rebuilt", "stored_chunks"]

Positions = npt.NDArray[np.int64]

_NONE = np.uint64(ABSENT)


def locate_whole(layout: ShardLayout, positions: Positions, keys: Keys, which: npt.NDArray[np.int32]) -> Sources:
    """The stored bytes of these chunks; `which` of the `keys` holds each."""
    blobs: list[memoryview | None] = [None] * len(positions)
    shards = layout.store.each(layout.store.snapshot, list(keys))
    for number, (key, found) in enumerate(zip(keys, shards, strict=True)):
        if found is None:
            continue
        rows = np.flatnonzero(which == number)
        raw = memoryview(found.data)
        for row, part in zip(rows.tolist(), _cut(layout.levels, raw, positions[rows], key), strict=True):
            blobs[row] = part
    stamps = [None if found is None else found.stamp for found in shards]
    return Sources(keys=keys, blobs=blobs, stamps=stamps, found=shards)


def _cut(levels: Sequence[ShardLevel], raw: memoryview, positions: Positions, key: str) -> list[memoryview | None]:
    """The encoded inner chunks in a shard of the first of these levels."""
    level = levels[0]
    raw, offsets, lengths = _opened(level, raw, key)
    slots = level.slots(positions)
    found: list[memoryview | None] = [None] * len(positions)
    if len(levels) == 1:
        for row, slot in enumerate(slots.tolist()):
            if lengths[slot] != _NONE:
                found[row] = raw[int(offsets[slot]) : int(offsets[slot]) + int(lengths[slot])]
        return found
    for slot in np.unique(slots).tolist():
        if lengths[slot] == _NONE:
            continue
        rows = np.flatnonzero(slots == slot)
        part = raw[int(offsets[slot]) : int(offsets[slot]) + int(lengths[slot])]
        for row, chunk in zip(rows.tolist(), _cut(levels[1:], part, positions[rows], key), strict=True):
            found[row] = chunk
    return found


def _opened(
    level: ShardLevel, raw: memoryview, key: str
) -> tuple[memoryview, npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """(a shard's bytes before the codecs that stand behind it, offsets, lengths)."""
    try:
        for codec in reversed(level.codecs.chain.codecs):
            raw = memoryview(codec.decode(raw)).cast("B")
    except CorruptDataError as error:
        raise error.located(key=key)
    return raw, *level.form.parse(level.form.within(raw), len(raw), key)


def stored_chunks(
    layout: ShardLayout, raw: memoryview, shard: Sequence[int] | Positions, key: str
) -> Iterator[tuple[Positions, list[memoryview]]]:
    """(places in the array's grid, encoded bytes) of the chunks that are there, one innermost shard after the other.

    What the metadata claim that a shard may hold costs nothing: each index is measured against the bytes first.
    """
    first = np.array(shard, np.int64) * layout.per_shard
    return _stored(layout.levels, raw, first, key)


def _stored(
    levels: Sequence[ShardLevel], raw: memoryview, first: Positions, key: str
) -> Iterator[tuple[Positions, list[memoryview]]]:
    level = levels[0]
    raw, offsets, lengths = _opened(level, raw, key)
    slots = np.flatnonzero(lengths != _NONE)
    positions = first + level.cells_of(slots) * np.array(level.extent, np.int64)
    begins, sizes = offsets[slots].tolist(), lengths[slots].tolist()
    parts = [raw[begin : begin + size] for begin, size in zip(begins, sizes, strict=True)]
    if len(levels) == 1:
        yield positions, parts
        return
    for position, part in zip(positions, parts, strict=True):
        yield from _stored(levels[1:], part, position, key)


def rebuilt(
    layout: ShardLayout,
    old: memoryview | None,
    positions: Positions,
    chunks: Sequence[memoryview | None],
    key: str,
    keep: bool = False,
    depth: int = 0,
) -> bytes | None:
    """The bytes of a shard of level `depth` with these chunks in it; None if nothing is left, unless `keep`."""
    level = layout.levels[depth]
    parts: list[Any] = [None] * level.form.count
    if old is not None:
        raw, offsets, lengths = _opened(level, old, key)
        for slot in np.flatnonzero(lengths != _NONE).tolist():
            parts[slot] = raw[int(offsets[slot]) : int(offsets[slot]) + int(lengths[slot])]
    slots = level.slots(positions)
    if depth + 1 == len(layout.levels):
        for slot, chunk in zip(slots.tolist(), chunks, strict=True):
            parts[slot] = chunk
    else:
        for slot in np.unique(slots).tolist():
            rows = np.flatnonzero(slots == slot)
            inner = [chunks[row] for row in rows.tolist()]
            parts[slot] = rebuilt(layout, parts[slot], positions[rows], inner, key, depth=depth + 1)
    present = np.array([slot for slot in level.in_order(layout.order_in_shard).tolist() if parts[slot] is not None])
    if not len(present) and not keep:
        return None
    assembler = ShardAssembler(level.form)
    chosen = [parts[slot] for slot in present.tolist()]
    assembler.add(present, [len(part) for part in chosen])
    data = b"".join(assembler.finish(chosen))
    for codec in level.codecs.chain.codecs:
        data = codec.encode(data)
    return data
