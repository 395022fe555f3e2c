"""Values that were gathered piece by piece for whole chunks, on their way into the store."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.engine.fetching import StaleSourcesError
from zvcore.engine.selection import Selection
from zvcore.errors import ConflictError
from zvcore.stores.again import give_way
from zvcore.stores.writing import ANYTHING
from zvcore.transfer.assignment import Assignment, check_writable
from zvcore.transfer.batches import ATTEMPTS
from zvcore.transfer.objects import put_objects
from zvcore.transfer.reading import read
from zvcore.transfer.writing import write

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zvcore.layout import Box, Layout

__all__ = ["write_gathered"]


def write_gathered(
    layout: Layout,
    box: Box,
    values: npt.NDArray[Any],
    missing: list[Box],
    threads: int | None,
) -> None:
    """Write `values` to a box of whole chunks, except for the parts of it that are `missing` in them.

    Chunks that are missing altogether stay as they are; those that are missing in part are completed from the store.
    """
    check_writable(layout)
    selection = Selection.basic(tuple(slice(start, stop) for start, stop in box), layout.shape)
    if not missing:
        write(layout, selection, values, threads, None)
        return
    positions = selection.positions(layout.form.shape)
    extents = np.array(layout.form.shape, np.int64)
    begin = positions * extents
    end = np.minimum(begin + extents, np.array(layout.shape, np.int64))
    lacking = np.zeros(len(positions), np.int64)
    for hole in missing:
        low = np.maximum(begin, [start for start, _ in hole])
        high = np.minimum(end, [stop for _, stop in hole])
        lacking += np.prod(np.maximum(high - low, 0), axis=1)
    rows = np.flatnonzero(lacking < np.prod(end - begin, axis=1))
    if layout.sharded:
        keys = layout.shards(positions[rows])
    else:
        keys = [(key, np.array([row])) for row, key in enumerate(layout.keys(positions[rows]))]
    assignment = Assignment.of_whole_chunks(layout, selection, values, threads, positions)
    store = layout.store
    for attempt in range(ATTEMPTS):
        try:
            with ExitStack() as stack:
                stamps: dict[str, Hashable] = {}
                if store.can_lock:
                    for key in sorted(key for key, _ in keys):
                        stack.enter_context(store.lock(key))
                else:
                    completed = [key for key, own in keys if (lacking[rows[own]] > 0).any()]
                    stamps.update(zip(completed, store.each(store.stamp, completed), strict=True))
                for row in rows[lacking[rows] > 0].tolist():
                    _complete(layout, box, values, missing, begin[row], end[row])
                # See `objects._change_unlocked`.
                keep = layout.store_empty or (not layout.sharded and any(s is not None for s in stamps.values()))
                encoded = assignment.encode(rows, store_empty=keep)
                for key, own in keys:
                    if layout.sharded:
                        layout.update(key, positions[rows[own]], encoded.select(own), stamps.get(key, ANYTHING))
                    else:
                        put_objects(layout, [key], encoded.select(own), stamps)
        except (StaleSourcesError, ConflictError):
            if not store.can_lock:
                give_way(attempt)
            continue
        return
    raise ConflictError("other writers keep changing this object", key=keys[0][0])


def _complete(
    layout: Layout,
    box: Box,
    values: npt.NDArray[Any],
    missing: list[Box],
    begin: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
) -> None:
    """Fill the missing parts of one chunk in `values` with what the store has."""
    for hole in missing:
        part = [(max(a, int(c)), min(b, int(d))) for (a, b), c, d in zip(hole, begin, end, strict=True)]
        if any(start >= stop for start, stop in part):
            continue
        stored = np.empty([stop - start for start, stop in part], values.dtype)
        selection = Selection.basic(tuple(slice(start, stop) for start, stop in part), layout.shape)
        read(layout, selection, stored, 1, None)
        place = tuple(slice(start - base, stop - base) for (start, stop), (base, _) in zip(part, box, strict=True))
        values[place] = stored
