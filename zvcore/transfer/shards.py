"""Chunks of which several lie in one object, on their way into the store."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from zvcore.engine.fetching import StaleSourcesError
from zvcore.errors import ConflictError
from zvcore.stores.again import give_way
from zvcore.stores.writing import ANYTHING
from zvcore.transfer.batches import ATTEMPTS, BATCH_BYTES, BATCH_LOCKS
from zvcore.transfer.packing import Packing

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zvcore.transfer.assignment import Assignment
    from zvcore.transfer.batches import Rows, Steps

__all__ = ["write_shards"]

# How many bytes of chunks are written to shards in one go, which need no memory.
_PACK_BYTES = 512 << 20


def write_shards(assignment: Assignment, steps: Steps) -> None:
    """As many objects at a time as keep the threads busy."""
    layout = assignment.layout
    write = _write_locked if layout.store.can_lock else _write_unlocked
    limit = BATCH_BYTES if layout.store.local_root is None else _PACK_BYTES
    window: list[tuple[str, Rows]] = []
    held = 0
    for key, rows in sorted(layout.shards(assignment.positions), key=lambda group: group[0]):
        window.append((key, rows))
        held += len(rows) * layout.chunk_nbytes
        if held >= limit or len(window) >= BATCH_LOCKS:
            write(assignment, steps, window)
            window, held = [], 0
    if window:
        write(assignment, steps, window)


def _leading(assignment: Assignment, window: list[tuple[str, Rows]]) -> list[tuple[str, Rows]]:
    """The first shards of a window: together no more chunks than are held in memory, but at least one shard."""
    most = max(1, BATCH_BYTES // max(1, assignment.layout.chunk_nbytes))
    count = 0
    for number, (_key, rows) in enumerate(window):
        count += len(rows)
        if number and count > most:
            return window[:number]
    return window[:]


def _write_locked(assignment: Assignment, steps: Steps, window: list[tuple[str, Rows]]) -> None:
    layout, positions = assignment.layout, assignment.positions
    for _ in range(ATTEMPTS):
        try:
            with ExitStack() as stack:
                for key, _rows in window:
                    stack.enter_context(layout.store.lock(key))
                _pack(assignment, steps, window)
                while window:
                    batch = _leading(assignment, window)
                    rows = np.concatenate([rows for _key, rows in batch])
                    encoded = assignment.encode(rows, steps.of(len(rows)))
                    start = 0
                    for key, own in batch:
                        layout.update(key, positions[own], encoded.select(range(start, start + len(own))))
                        start += len(own)
                        window.pop(0)
        except (StaleSourcesError, ConflictError):
            # Somebody who does not take our locks.
            continue
        return
    raise ConflictError("other writers keep changing this object", key=window[0][0])


def _pack(assignment: Assignment, steps: Steps, window: list[tuple[str, Rows]]) -> None:
    """Write those shards that are replaced as a whole while their chunks are encoded; they leave the window."""
    packing = Packing.of(assignment.layout, assignment.positions, window)
    if packing is None:
        return
    packer = packing.packer(np.arange(len(packing.rows)))
    assignment.encode(packing.rows, steps.of(len(packing.rows)), packer=packer)
    packing.finish(packer, packer.sizes)
    window[:] = [(key, rows) for key, rows in window if key not in packing.keys]


def _write_unlocked(assignment: Assignment, steps: Steps, window: list[tuple[str, Rows]]) -> None:
    """Shards in a store without locks: those that somebody else has changed meanwhile are begun anew."""
    while window:
        batch = _leading(assignment, window)
        window = window[len(batch) :]
        for attempt in range(ATTEMPTS):
            batch = _write_unlocked_once(assignment, steps, batch)
            if not batch:
                break
            give_way(attempt)
        else:
            raise ConflictError("other writers keep changing this object", key=batch[0][0])


def _write_unlocked_once(
    assignment: Assignment, steps: Steps, window: list[tuple[str, Rows]]
) -> list[tuple[str, Rows]]:
    """Which shards are still to be written."""
    layout, positions, covered = assignment.layout, assignment.positions, assignment.covered
    rows = np.concatenate([rows for _key, rows in window])
    seen: dict[str, Hashable] = {}
    try:
        encoded = assignment.encode(rows, steps.of(len(rows)), seen=seen)
    except (StaleSourcesError, ConflictError):
        return window
    ends = np.cumsum([len(own) for _key, own in window]).tolist()

    def store(number: int) -> bool:
        key, own = window[number]
        chunks = encoded.select(range(ends[number] - len(own), ends[number]))
        # Where chunks keep old values, the shard must still be the one that these came from.
        stamp = ANYTHING if covered[own].all() else seen.get(key)
        try:
            layout.update(key, positions[own], chunks, stamp)
        except (StaleSourcesError, ConflictError):
            return False
        return True

    done = layout.store.each(store, range(len(window)))
    return [work for work, stored in zip(window, done, strict=True) if not stored]
