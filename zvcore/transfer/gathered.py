"""Storing values that were gathered piece by piece for whole chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.engine.selection import Selection
from zvcore.engine.work import Work
from zvcore.placement import Group
from zvcore.transfer.assignment import ToSelection, check_writable
from zvcore.transfer.batches import Steps
from zvcore.transfer.reading import read
from zvcore.transfer.replacing import replace_groups
from zvcore.transfer.writing import putting_back, write

if TYPE_CHECKING:
    from zvcore.boxes import Box
    from zvcore.layout import Layout
    from zvcore.stores.editing import Edit

__all__ = ["write_gathered"]


def write_gathered(
    layout: Layout,
    box: Box,
    values: npt.NDArray[Any],
    missing: list[Box],
    work: Work,
) -> None:
    """Write `values` to a box of whole chunks, except for the parts of it that are `missing` in them.

    Chunks that are missing altogether stay as they are; those that are missing in part are completed from the store.
    """
    check_writable(layout)
    selection = Selection.basic(tuple(slice(start, stop) for start, stop in box), layout.shape)
    if not missing:
        write(layout, selection, values, work)
        return
    if layout.refuse_unfit is not None:
        layout.refuse_unfit(values)
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
    assignment = ToSelection.of_whole_chunks(layout, selection, values, work, positions)
    groups = [Group(group.key, rows[group.rows]) for group in layout.placement.groups(positions[rows])]

    def complete(left: list[Group], edits: dict[str, Edit]) -> None:
        lacks = [group for group in left if (lacking[group.rows] > 0).any()]
        # What is filled in must come from the object that is replaced.
        layout.store.each(lambda group: edits[group.key].look(), lacks)
        for group in lacks:
            for row in group.rows[lacking[group.rows] > 0].tolist():
                _complete(layout, box, values, missing, begin[row], end[row])

    if groups:
        putting_back(layout, lambda: replace_groups(assignment, groups, Steps(work, len(positions)), complete))


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
        read(layout, selection, stored, Work(1))
        place = tuple(slice(start - base, stop - base) for (start, stop), (base, _) in zip(part, box, strict=True))
        values[place] = stored
