"""Chunks that come over a network, part by part: what has arrived is decoded while others are under way."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zvcore.engine.buffers import Keys
from zvcore.engine.fetching import at_hand
from zvcore.engine.sources import ABSENT, Sources
from zvcore.stores.request_threads import Ahead

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.engine.work import Work
    from zvcore.stores import Store

__all__ = ["arriving"]

Rows = npt.NDArray[np.intp]

# A part ends with the object in which it reaches its share of all bytes and this many: work for all decoding threads.
# Where small parts do not pay, it goes on to _MOST_BYTES.
_PART_BYTES = 512 << 10
# Within an object a part ends here, where requests end too.
_MOST_BYTES = 8 << 20
# Objects whose sizes are not known are counted.
_PART_OBJECTS = 32


def arriving(
    store: Store, sources: Sources, count: int, chunk_nbytes: int, work: Work
) -> Iterator[tuple[Rows | None, Sources]]:
    """Some rows of the sources (None: all) with their bytes in memory, then others, until all have come.

    Stores that are not behind a network give all at once. What is asked for does not depend on how it is split, except
    in objects of many megabytes and where memory is short.
    """
    at_once = store.parts_ahead()
    parts: list[Rows] = []
    if at_once and count > 1 and sources.blobs is None and not _is_one_part(sources, work):
        least = _PART_BYTES if store.small_parts_pay() else _MOST_BYTES
        parts, at_once = _parts(sources, count, chunk_nbytes, at_once, least, work)
    if len(parts) < 2:
        yield None, at_hand(store, sources, count)
        return
    waiting: deque[tuple[Rows, Ahead[Sources]]] = deque()
    todo = iter(parts)
    try:
        while True:
            while len(waiting) < at_once and (rows := next(todo, None)) is not None:
                waiting.append((rows, Ahead(partial(at_hand, store, _some(sources, rows), len(rows)))))
            if not waiting:
                return
            yield _arrived(*waiting.popleft())
    finally:
        for _, ahead in waiting:
            ahead.give_up()


def _arrived(rows: Rows, ahead: Ahead[Sources]) -> tuple[Rows, Sources]:
    # In a function of its own, so that nothing here holds the bytes while others are asked for.
    return rows, ahead.result()


def _is_one_part(sources: Sources, work: Work) -> bool:
    """Whether all is in one object, and so little that it is not cut: what is asked for most, in small boxes."""
    if work.memory is not None or sources.length is None or len(sources.keys) > 1:
        return False
    lengths: list[int] = sources.length.tolist()
    return sum([length for length in lengths if length != ABSENT]) <= _MOST_BYTES


def _parts(
    sources: Sources, count: int, chunk_nbytes: int, at_once: int, least: int, work: Work
) -> tuple[list[Rows], int]:
    """(the rows in the order in which they are stored, cut where objects end or are large; how many parts at once)."""
    key = np.arange(count, dtype=np.int32) if sources.key is None else sources.key
    if sources.offset is None or sources.length is None:
        if sources.parts is not None:
            begin, end, _ = sources.parts.T
            chunk_nbytes = int(np.where(end, end - begin, np.uint64(chunk_nbytes)).max())
        at_once, longest = _limits(work, at_once, chunk_nbytes)
        order = np.argsort(key, kind="stable")
        several = max(1, min(_PART_OBJECTS, longest // max(1, chunk_nbytes)))
        if len(sources.keys) <= several:
            return [], at_once
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))[::several]
        return np.split(order, starts[1:]), at_once
    absent = sources.length == ABSENT
    # Chunks that are not there come with those of their object that are: these show whether that is still so.
    order = np.lexsort((np.where(absent, 0, sources.offset), key))
    sizes = np.where(absent, 0, sources.length)[order].astype(float)
    ends = np.cumsum(sizes)
    first = np.diff(key[order], prepend=-1) != 0
    at_once, longest = _limits(work, at_once, int(sizes.max()))
    cuts = []
    begun = 0.0
    enough = min(max(least, ends[-1] / at_once), longest)
    # Only rows that begin an object or reach the next multiple of the limit can begin a part.
    large = np.diff(ends // longest, prepend=0) > 0
    for row in np.flatnonzero(first | large).tolist():
        held = ends[row] - sizes[row] - begun
        if row and (held >= enough if first[row] else held + sizes[row] > longest and held > 0):
            cuts.append(row)
            begun += held
    return np.split(order, cuts), at_once


def _limits(work: Work, at_once: int, largest: int) -> tuple[int, int]:
    """(how many parts may be under way at once, how many bytes of one), where the largest chunk has so many bytes."""
    if work.memory is None:
        return at_once, _MOST_BYTES
    ahead = work.ahead(at_once * _MOST_BYTES)
    at_once = max(1, min(at_once, ahead // max(1, largest)))
    # A part that ends with an object may become twice as long.
    return at_once, max(1, ahead // at_once // 2)


def _some(sources: Sources, rows: Rows) -> Sources:
    chain = None if sources.chain is None else sources.chain[rows]
    parts = None if sources.parts is None else sources.parts[rows]
    if sources.offset is None or sources.length is None:
        key = rows if sources.key is None else sources.key[rows]
        wanted, inverse = np.unique(key, return_inverse=True)
        names = Keys.of([sources.keys[which] for which in wanted.tolist()])
        stamps = None if sources.stamps is None else [sources.stamps[which] for which in wanted.tolist()]
        return Sources(names, inverse.reshape(-1).astype(np.int32), parts=parts, chain=chain, stamps=stamps)
    key = rows.astype(np.int32) if sources.key is None else sources.key[rows]
    return Sources(
        sources.keys, key, sources.offset[rows], sources.length[rows], parts=parts, chain=chain, stamps=sources.stamps
    )  # fmt: skip
