"""Cells: what chunks of two arrays make up without cutting any of them."""

import numpy as np

cimport cython
from libc.stdint cimport int64_t

from zvcore.engine.chunks cimport Chunks
from zvcore.engine.form cimport Form
from zvcore.engine.selection cimport RANGE_AXIS, Selection


@cython.final
cdef class Cells:
    """A cell is a chunk of the one array, or some chunks of the other: what both make up without cutting any.

    source_selection, target_selection  boxes of the same values in both arrays
    axis_of       which axis of the target each of the source's is; -1 for one of which a single place is selected
    begin         where each cell begins in the target's selection, and
    extent        how long it is along each axis
    source_first  cell c is made of the source's chunks source_first[c]:source_first[c + 1], and
    target_first  of the target's chunks target_first[c]:target_first[c + 1]
    single        whether each cell is one chunk of the target
    """

    def __cinit__(self, Selection source_selection not None, Selection target_selection not None, axis_of, begin,
                  extent, source_first, target_first, bint single):
        cdef const int64_t[:, ::1] boxes
        cdef const int64_t[::1] numbers
        self.source_selection = source_selection
        self.target_selection = target_selection
        self.single = single
        self.count = len(begin)
        self._axis_of = np.ascontiguousarray(axis_of, np.int64)
        self._begin = np.ascontiguousarray(begin, np.int64)
        self._extent = np.ascontiguousarray(extent, np.int64)
        self._source_first = np.ascontiguousarray(source_first, np.int64)
        self._target_first = np.ascontiguousarray(target_first, np.int64)
        if source_selection.ndim == 0 or target_selection.ndim == 0:
            raise ValueError("arrays without axes have no cells")
        shape = (self.count, target_selection.ndim)
        if (self._begin.shape != shape or self._extent.shape != shape
                or self._axis_of.shape != (source_selection.ndim,) or self._axis_of.max() >= target_selection.ndim):
            raise ValueError("selections and cells must have the same rank")
        if self.count == 0:
            return
        boxes = self._begin
        self.begin = &boxes[0, 0]
        boxes = self._extent
        self.extent = &boxes[0, 0]
        numbers = self._axis_of
        self.axis_of = &numbers[0]
        if len(self._source_first) and len(self._target_first):
            numbers = self._source_first
            self.source_first = &numbers[0]
            numbers = self._target_first
            self.target_first = &numbers[0]

    def __len__(self):
        return self.count

    cdef int check(self, Chunks source, Chunks target) except -1:
        if source.form.ndim != self.source_selection.ndim or target.form.ndim != self.target_selection.ndim:
            raise ValueError("selections and forms must have the same rank")
        if source.form.itemsize != target.form.itemsize:
            raise ValueError("both arrays must have items of one size")
        for first, total in ((self._source_first, source.count), (self._target_first, target.count)):
            spans = len(first) == self.count + 1 and first[0] == 0 and first[self.count] == total
            if not spans or (np.diff(first) < 0).any():
                raise ValueError("the bounds of cells do not fit the chunks")
        self.within(self.source_selection, source, self._source_first, self._axis_of)
        self.within(self.target_selection, target, self._target_first, np.arange(target.form.ndim))
        if self.single and ((np.diff(self._target_first) != 1).any() or not self.fits(target)):
            raise ValueError("the cells are not chunks of the target")
        return 0

    cdef int within(self, Selection selection, Chunks chunks, first, axis_of) except -1:
        """Refuse chunks whose selected part is not in the cell that they are said to belong to."""
        cdef Form form = chunks.form
        cdef int axis
        positions, begin, extent = chunks.positions, self._begin, self._extent
        cell = np.repeat(np.arange(len(first) - 1), np.diff(first))
        for axis in range(form.ndim):
            if selection.axes[axis].kind != RANGE_AXIS or selection.axes[axis].step != 1 or selection.flipped[axis]:
                raise ValueError("cells are of boxes of arrays")
            length = selection.axes[axis].count
            start = positions[:, axis] * form.chunk[axis] - selection.axes[axis].start
            stop = np.minimum(start + form.chunk[axis], length)
            start = np.maximum(start, 0)
            place = int(axis_of[axis])
            if place < 0:
                if length > 1:
                    raise ValueError("an axis that the other array does not have is selected at one place")
                continue
            if length != self.target_selection.axes[place].count:
                raise ValueError("the selections have different shapes")
            if (start < begin[cell, place]).any() or (stop > begin[cell, place] + extent[cell, place]).any():
                raise ValueError("a chunk does not lie within its cell")
        return 0

    cdef bint fits(self, Chunks target) except -1:
        """Whether each cell lies at the beginning of the chunk of its row."""
        cdef Form form = target.form
        cdef int axis
        for axis in range(form.ndim):
            place = target.positions[:, axis] * form.chunk[axis]
            longest = np.minimum(form.chunk[axis], form.bounds[axis] - place)
            start = place - self.target_selection.axes[axis].start
            if (self._begin[:, axis] != start).any() or (self._extent[:, axis] > longest).any():
                return False
        return True
