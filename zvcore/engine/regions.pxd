from libc.stdint cimport int64_t

from zvcore.codecs.running cimport Bytes
from zvcore.engine.chunks cimport Chunks
from zvcore.engine.form cimport Block, Form
from zvcore.engine.moving cimport Span, Target
from zvcore.engine.read cimport Receiver
from zvcore.engine.selection cimport Selection
from zvcore.engine.slots cimport Slot


cdef struct Region:
    void *selection                     # a Selection
    Target target


cdef class Regions:
    cdef readonly object positions
    cdef list _items                    # which hold the selections and the memory of the values
    cdef tuple _columns
    cdef Form form
    cdef Py_ssize_t count               # of the chunks
    cdef Region *regions
    # What chunk i is needed for: regions which[first[i]:first[i + 1]].
    cdef const int64_t *first
    cdef const int64_t *which

    cdef int add(self, Selection selection, values, Form form, bint writable) except -1
    # (positions, region of each): what each region touches, one region after the other.
    cdef tuple pairs(self, Form form, tuple shape, Py_ssize_t total)
    cdef int group(self, Form form, tuple shape, Py_ssize_t total) except -1
    # Whether one of the regions covers a chunk, row `row` of `positions`.
    cdef bint is_covered(self, int64_t row, const int64_t *position) noexcept nogil
    # Which of `positions` these chunks are, as their `rows` say, which live as long as they do; NULL: all of them.
    cdef const int64_t *rows_of(self, Chunks chunks) except? NULL


cdef class IntoRegions(Receiver):
    cdef Regions regions
    cdef const int64_t *rows            # which of the chunks of `regions` these are; NULL: all

    cdef int64_t row_of(self, int64_t chunk) noexcept nogil
    # All that any of its regions looks at.
    cdef Span span(self, int64_t chunk, const Block *block) noexcept nogil
    # The one region that a chunk is needed for; NULL if there are several.
    cdef Region *only(self, int64_t chunk) noexcept nogil
    cdef int receive_for_many(self, Slot *slot, int64_t chunk, Bytes stored) noexcept nogil
