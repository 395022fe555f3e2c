"""From memory to chunks, and encoded chunks into the store."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from zvcore.engine.fetching import StaleSourcesError
from zvcore.errors import ConflictError
from zvcore.stores.again import give_way
from zvcore.transfer.assignment import Assignment, check_writable
from zvcore.transfer.batches import ATTEMPTS, Steps
from zvcore.transfer.objects import put_objects, write_objects
from zvcore.transfer.shards import write_shards

if TYPE_CHECKING:
    import numpy.typing as npt

    from zvcore.engine.buffers import Buffers
    from zvcore.engine.selection import Selection
    from zvcore.layout import Layout
    from zvcore.transfer.batches import Positions, Progress, Rows

__all__ = ["encode", "put", "update", "write"]


def write(
    layout: Layout, selection: Selection, value: npt.NDArray[Any], threads: int | None, progress: Progress | None
) -> None:
    """Assign `value`, which has the selection's `result_shape` and the array's dtype, to the selected items."""
    if value.size == 0:
        return
    check_writable(layout)
    assignment = Assignment.of(layout, selection, value, threads)
    steps = Steps(progress, len(assignment.positions))
    if layout.sharded:
        write_shards(assignment, steps)
    else:
        write_objects(assignment, steps)


def encode(
    layout: Layout,
    selection: Selection,
    positions: Positions,
    rows: Rows,
    value: npt.NDArray[Any],
    threads: int | None,
) -> Buffers:
    """The selection's chunks in `rows` of its `positions`, all of them covered by it, encoded and not yet stored."""
    return Assignment.of_whole_chunks(layout, selection, value, threads, positions).encode(rows)


def put(layout: Layout, positions: Positions, chunks: Buffers) -> None:
    """Store encoded chunks as they are, whether several lie in one object or not; absent ones are taken out."""
    check_writable(layout)
    if layout.sharded:
        update(layout, positions, chunks)
    else:
        put_objects(layout, list(layout.keys(positions)), chunks)


def update(layout: Layout, positions: Positions, chunks: Buffers) -> None:
    """Put encoded chunks into their shards as they are; absent ones are taken out."""
    check_writable(layout)
    for key, rows in sorted(layout.shards(positions), key=lambda group: group[0]):
        for attempt in range(ATTEMPTS):
            try:
                with layout.store.lock(key) if layout.store.can_lock else nullcontext():
                    layout.update(key, positions[rows], chunks.select(rows))
            except (StaleSourcesError, ConflictError):
                if not layout.store.can_lock:
                    give_way(attempt)
                continue
            break
        else:
            raise ConflictError("other writers keep changing this object", key=key)
