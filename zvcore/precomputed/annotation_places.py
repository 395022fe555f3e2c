"""Where annotations belong: which cells of a level they meet, and which of those that list them they do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.precomputed.annotation_boxes import bounds_of, meet_box
from zvcore.precomputed.annotation_levels import MARGIN, MOST_CELLS, expanded
from zvcore.precomputed.annotation_records import taken

if TYPE_CHECKING:
    from zvcore.precomputed.annotation_info import AnnotationInfo, Index
    from zvcore.precomputed.annotation_records import Columns, RecordForm, Records

__all__ = ["Places"]

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Places:
    """The cells of one level, as the document describes them.

    What lies outside of the grid belongs to the cells at its border. Programs round differently: at the border of a
    cell, each of its two sides is right.
    """

    def __init__(self, info: AnnotationInfo, index: Index, form: RecordForm) -> None:
        assert index.grid is not None
        self.form = form
        self.lower = np.array(info.lower_bound, np.float64)
        self.size = np.array(index.chunk_size, np.float64)
        self.last = np.array(index.grid, np.float64) - 1
        # Some programs have written bounds that are none: then nobody can tell.
        self.known = bool((self.lower <= np.array(info.upper_bound, np.float64)).all())

    def _reach(self, low: F64, high: F64, margin: float) -> tuple[F64, F64]:
        """The first and the last cell along each axis that bounds meet when they are widened by part of a cell."""
        with np.errstate(invalid="ignore", over="ignore"):
            rounding = np.sign(margin) * np.spacing(np.maximum(np.abs(low), np.abs(high)).astype(np.float32))
            first = np.floor((low - rounding - self.lower) / self.size - margin)
            last = np.floor((high + rounding - self.lower) / self.size + margin)
            return np.clip(first, 0, self.last), np.clip(last, 0, self.last)

    def misplaced(self, records: Records, cells: I64) -> Flags:
        """Which annotations do not even touch with their bounds the cell that lists them."""
        first, last = self._reach(*bounds_of(self.form.type, self.form.positions(records)), MARGIN)
        outside: Flags = ((cells < first) | (cells > last)).any(axis=1)
        return outside & self.known

    def few(self, records: Records) -> Flags:
        """Which annotations meet, with their bounds, few enough cells that each can be looked at."""
        found: Flags = self.count(records) <= MOST_CELLS
        return found & self.known

    def count(self, records: Records) -> F64:
        """How many cells annotations meet with their bounds."""
        first, last = self._reach(*bounds_of(self.form.type, self.form.positions(records)), 0.0)
        found: F64 = (last - first + 1).prod(axis=1)
        return found

    def first_cell(self, records: Records) -> I64:
        """The cell of the lowest corner of each annotation that has a place."""
        first, _ = self._reach(*bounds_of(self.form.type, self.form.positions(records)), 0.0)
        return first.astype(np.int64)

    def met(self, records: Records, margin: float = MARGIN) -> tuple[npt.NDArray[np.intp], I64]:
        """(rows, cells) of the cells that annotations meet.

        Cells are somewhat widened, or with a negative margin narrowed, but for points. Those that meet too many cells
        meet none here.
        """
        columns = self.form.positions(records)
        if self.form.type == "point":
            margin = 0.0
        first, last = self._reach(*bounds_of(self.form.type, columns), min(margin, 0.0))
        few = ((last - first + 1).prod(axis=1) <= MOST_CELLS) & (first <= last).all(axis=1)
        rows = np.flatnonzero(few & self.known)
        begin = first[rows].astype(np.int64)
        counts = last[rows].astype(np.int64) - begin + 1
        numbers, cells = _all(begin, counts)
        if self.form.type not in ("point", "axis_aligned_bounding_box"):
            keep = counts.prod(axis=1)[numbers] == 1
            several = np.flatnonzero(~keep)
            keep[several] = self._meets(taken(columns, rows[numbers[several]]), cells[several], margin)
            numbers, cells = numbers[keep], cells[keep]
        return rows[numbers], cells

    def _meets(self, columns: Columns, cells: I64, margin: float) -> Flags:
        low = self.lower + (cells - margin) * self.size
        high = self.lower + (cells + 1 + margin) * self.size
        # The cells at the border have what lies outside.
        low[cells == 0] = -np.inf
        high[cells == self.last] = np.inf
        return meet_box(self.form.type, columns, low, high)


def _all(first: I64, counts: I64) -> tuple[npt.NDArray[np.intp], I64]:
    parts = [*expanded(first, counts, counts.prod(axis=1))]
    rows: Any = np.concatenate([np.empty(0, np.intp), *(rows for rows, _ in parts)])
    return rows, np.concatenate([first[:0], *(cells for _, cells in parts)])
