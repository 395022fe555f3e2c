"""Moves items between chunks and the memory of a selection's values."""

from libc.stdint cimport int64_t, uint64_t

from zvcore.engine.form cimport Block, Form
from zvcore.engine.selection cimport Selection
from zvcore.kernels.blocks cimport ZV_MAX_NDIM


cdef enum:
    MOST_JOINED = 16                    # chunks that are moved at once: as many as share a cache line
    MOST_JOINED_BYTES = 32 << 20
    JOINED_GAP = 320                    # bytes from one to the next: their rows would meet in few lines of the caches


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
# Neighbours whose rows share cache lines of the values are moved at once: each line is written once and not again and
# again.
cdef struct Joining:
    int most                            # how many neighbours are moved at once; 0: none of this array
    int axis                            # along which they are neighbours
    bint lines                          # so many, or none: their rows make whole lines


cdef Joining joining(Form form, Selection selection, const Target *target, int64_t most) noexcept nogil
# Whether all of a chunk along the axis is selected, and it is so many steps away from the first.
cdef bint may_join(const Joining *how, Form form, Selection selection, const int64_t *first, const int64_t *position,
                   int64_t steps) noexcept nogil
# Blocks of one shape.
cdef struct Blocks:
    char *first
    int64_t count
    Py_ssize_t apart                    # how many bytes it is from one to the next
    const Block *shape


# From neighbours, of which `place` is the first, to the values. False: none was moved.
cdef bint move_out_joined(const Joining *how, Form form, Selection selection, Place place, const Blocks *blocks,
                          const Target *target) noexcept nogil
# From the values into neighbours, unless their rows make whole lines.
cdef void move_in_joined(const Joining *how, Form form, Selection selection, Place place, const Blocks *blocks,
                         const Target *target) noexcept nogil
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
