"""From memory to chunks, and encoded chunks into the store."""

from __future__ import annotations

import math
import os
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from zvcore.errors import CorruptDataError
from zvcore.stores.request_threads import on_their_way
from zvcore.transfer.assignment import ToSelection, check_writable
from zvcore.transfer.batches import BATCH_BYTES, BATCH_CHUNKS, BATCH_POSITIONS, Steps, Written, windows
from zvcore.transfer.clearing import clear, is_fill
from zvcore.transfer.replacing import replace
from zvcore.transfer.windows import position_windows

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from zvcore.engine.buffers import Buffers
    from zvcore.engine.selection import Selection
    from zvcore.engine.work import Work
    from zvcore.layout import Layout
    from zvcore.transfer.assignment import Assignment
    from zvcore.transfer.batches import Positions, Rows

__all__ = ["encode", "put", "putting_back", "write", "write_chunks"]

T = TypeVar("T")

# What goes over a network at once, while the next chunks are encoded.
_PART_BYTES = 8 << 20
_PART_CHUNKS = 256


def write(layout: Layout, selection: Selection, value: npt.NDArray[Any], work: Work) -> Written:
    """Assign `value`, which has the selection's `result_shape` and the array's dtype, to the selected items."""
    if value.size == 0:
        return Written()
    check_writable(layout)
    if layout.refuse_unfit is not None:
        layout.refuse_unfit(value)
    return putting_back(layout, partial(_write, layout, selection, value, work))


def putting_back(layout: Layout, write: Callable[[], T]) -> T:
    """Write; if an object that is written into was cut short by a power failure, into what was there before."""
    try:
        return write()
    except CorruptDataError as error:
        if error.key is None or not layout.store.put_back(error.key):
            raise
        layout.store.put_back()  # where there is one, there are others
        return write()
    except OSError as error:
        # The engine knows keys alone, and a full disk has to be found.
        root = layout.store.local_root
        if root is not None and isinstance(error.filename, str) and not os.path.isabs(error.filename):
            error.filename = os.path.join(os.fsdecode(root), error.filename)
        raise


def _write(layout: Layout, selection: Selection, value: npt.NDArray[Any], work: Work) -> Written:
    total = math.prod(selection.chunk_counts(layout.form.shape))
    if total > BATCH_CHUNKS and is_fill(layout, value):
        left = clear(layout, selection, work, total)
        if left is not None:
            steps = Steps(work.telling(None), 0)
            for positions in left:
                write_chunks(ToSelection.of(layout, selection, value, steps.work, positions), steps)
            return steps.written
    steps = Steps(work, total)
    for positions in position_windows(selection, layout.form.shape, BATCH_POSITIONS, layout.shard_shape):
        write_chunks(ToSelection.of(layout, selection, value, work, positions), steps)
    return steps.written


def write_chunks(assignment: Assignment, steps: Steps) -> None:
    """Put all chunks of an assignment into the store."""
    covered = assignment.covered
    # Chunks that are objects of their own, and wholly new, are written without looking.
    alone = covered if assignment.layout.placement.alone else np.zeros(len(covered), np.bool_)
    (some,), (others,) = alone.nonzero(), (~alone).nonzero()
    if not len(some):
        replace(assignment, others, steps)
    elif assignment.to_files:
        for window in windows(len(some), BATCH_CHUNKS):
            rows = some[window]
            assignment.encode(rows, steps.of(len(rows)), sink=assignment.files(rows))
            steps.written.known = False
        replace(assignment, others, steps)
    else:
        _put_and_replace(assignment, some, others, steps)


def _put_and_replace(assignment: Assignment, some: Rows, others: Rows, steps: Steps) -> None:
    """Over a network, what is new is on its way while the next is encoded, and while the others are asked for."""
    layout = assignment.layout
    size = _window_size(layout, steps.work)
    waits = len(some) > size or len(others)
    with on_their_way(layout.store.parts_ahead() if waits else 0) as put:
        for window in windows(len(some), size):
            rows = some[window]
            put(partial(layout.placement.put, assignment.positions[rows], _encoded(assignment, rows, steps)))
        replace(assignment, others, steps)


def _encoded(assignment: Assignment, rows: Rows, steps: Steps) -> Buffers:
    encoded = assignment.encode(rows, steps.of(len(rows)))
    steps.written.add(encoded.sizes)
    return encoded


def _window_size(layout: Layout, work: Work) -> int:
    """How many chunks are encoded before they are put; over a network, while those before them are on their way."""
    parts = layout.store.parts_ahead()
    if parts:
        held = work.ahead(parts * _PART_BYTES) // parts
        return max(1, min(_PART_CHUNKS, held // max(1, layout.chunk_nbytes)))
    return max(1, min(BATCH_CHUNKS, BATCH_BYTES // max(1, layout.chunk_nbytes)))


def encode(
    layout: Layout,
    selection: Selection,
    positions: Positions,
    rows: Rows,
    value: npt.NDArray[Any],
    work: Work,
) -> Buffers:
    """The selection's chunks in `rows` of its `positions`, all of them covered by it, encoded and not yet stored."""
    if layout.refuse_unfit is not None:
        layout.refuse_unfit(value)
    return ToSelection.of_whole_chunks(layout, selection, value, work, positions).encode(rows)


def put(layout: Layout, positions: Positions, chunks: Buffers) -> None:
    """Store encoded chunks as they are, whether several lie in one object or not; absent ones are taken out."""
    check_writable(layout)
    putting_back(layout, partial(layout.placement.put, positions, chunks))
