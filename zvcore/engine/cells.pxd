from libc.stdint cimport int64_t

from zvcore.engine.chunks cimport Chunks
from zvcore.engine.selection cimport Selection


cdef class Cells:
    cdef readonly Py_ssize_t count
    cdef Selection source_selection
    cdef Selection target_selection
    cdef bint single                # each cell is one chunk of the target
    cdef const int64_t *axis_of     # per axis of the source: the same axis of the target, or -1
    cdef const int64_t *begin       # per cell: where it begins in the target's selection
    cdef const int64_t *extent      # per cell: how long it is
    cdef const int64_t *source_first
    cdef const int64_t *target_first
    cdef object _axis_of, _begin, _extent, _source_first, _target_first

    cdef int within(self, Selection selection, Chunks chunks, first, axis_of) except -1
    cdef bint fits(self, Chunks target) except -1
    # Raises unless the cells are made of just these chunks.
    cdef int check(self, Chunks source, Chunks target) except -1
