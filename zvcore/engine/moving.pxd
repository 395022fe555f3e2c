"""Moves items between chunks and the memory of a selection's values."""

from libc.stdint cimport int64_t, uint64_t

from zvcore.engine.form cimport Block, Form
from zvcore.engine.selection cimport Selection
from zvcore.kernels.blocks cimport ZV_MAX_NDIM


cdef enum:
    MOST_JOINED = 4                     # chunks that are moved at once: as many as share a cache line


# Where the values of a selection lie in memory.
cdef struct Target:
    char *data
    Py_ssize_t strides[ZV_MAX_NDIM]     # one per axis of the array
    bint far                            # they are too many to stay in the caches
    # For a selection of points, whose values are one contiguous row: begin[i]:end[i] are those in chunk i, `source` has
    # their places in the chunk and `target` their places in the row. NULL for other selections.
    const int64_t *begin
    const int64_t *end
    const int64_t *source
    const int64_t *target


# The view of a buffer of values whose items have this many bytes; release it.
cdef int hold(object values, bint writable, Py_ssize_t itemsize, Py_buffer *view) except -1
# Where the values of a selection lie, unless it is one of points.
cdef void aim(Selection selection, char *data, const Py_ssize_t *strides, Target *target) noexcept nogil


cdef class Items:
    cdef readonly Selection selection
    cdef Target target
    cdef Py_buffer view
    cdef bint held
    cdef tuple _columns

    cdef int aim_points(self, rows, Py_ssize_t count) except -1


# One chunk of a request, by its number there and its place in the grid.
cdef struct Place:
    int64_t row
    const int64_t *position


# From a chunk to the values; items that the chunk does not have (a framed chunk smaller than the grid's) are filled.
cdef void move_out(Form form, Selection selection, Place place, const char *chunk, const Block *block,
                   const Target *target) noexcept nogil
# The axis along which the items of a chunk lie next to each other, which is where its neighbours can be joined to it.
cdef int joined_axis(Form form) noexcept nogil
# How many neighbours along this axis `move_out_joined` takes at once; 0 if it takes none of this array.
cdef int joinable(Form form, Selection selection, const Target *target) noexcept nogil
# Whether that many chunks from this one on can be moved at once, as far as the values are concerned.
cdef bint joins(Form form, Selection selection, Place place, const Target *target) noexcept nogil
# As many blocks of one shape, `apart` bytes from each other, to the values. False: none was moved.
cdef bint move_out_joined(Form form, Selection selection, Place place, const char *chunks, const Block *block,
                          Py_ssize_t apart, const Target *target) noexcept nogil
# Which bytes of a chunk `move_out` looks at.
cdef struct Span:
    uint64_t begin, end


cdef Span span_of(Form form, Selection selection, Place place, const Block *block, const Target *target) noexcept nogil
# From the values into a chunk.
cdef void move_in(Form form, Selection selection, Place place, char *chunk, const Block *block,
                  const Target *target) noexcept nogil
# The fill value for all that is selected of a chunk.
cdef void fill_out(Form form, Selection selection, Place place, const Target *target) noexcept nogil
# Where in the values a chunk belongs, if all of it is selected in steps of one and its items lie there as they do in
# the chunk; else NULL.
cdef char *direct_target(Form form, Selection selection, Place place, const Block *block,
                         const Target *target) noexcept nogil
