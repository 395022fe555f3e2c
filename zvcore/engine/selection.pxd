"""Which items of an array are selected, in a form from which a thread cuts a chunk's share without Python."""

from libc.stdint cimport int64_t

from zvcore.kernels.blocks cimport ZV_MAX_NDIM


cdef enum AxisKind:
    RANGE_AXIS = 0          # start + k * step
    LIST_AXIS               # any coordinates, sorted by chunk


cdef struct Axis:
    int kind
    int64_t start, step, count          # of the result along this axis; step > 0
    # LIST_AXIS: entries of chunk `chunks[c]` are rows first[c]:first[c + 1] of `source` (coordinates within the chunk)
    # and `target` (positions in the result)
    int64_t chunk_count
    const int64_t *chunks
    const int64_t *first
    const int64_t *source
    const int64_t *target


# One chunk's part of a range axis: `count` items from `source` on in the chunk, from `target` on in the result.
cdef struct Share:
    int64_t source, step, count, target


cdef class Selection:
    cdef readonly tuple shape               # of the array
    cdef readonly tuple result_shape
    cdef readonly int ndim
    cdef Axis axes[ZV_MAX_NDIM]
    cdef bint flipped[ZV_MAX_NDIM]          # the result runs backwards along this axis
    cdef bint dropped[ZV_MAX_NDIM]          # an integer: no axis in the result
    cdef int64_t bounds[ZV_MAX_NDIM]
    cdef readonly bint has_lists
    cdef readonly bint is_item              # the result is one item, not an array
    cdef dict _columns                      # per list axis, if any, the arrays that `axes` points into
    # Points: `positions` names each chunk once, its points are rows point_first[i]:point_first[i + 1].
    cdef readonly bint is_points
    cdef readonly object point_positions, point_first, point_source, point_target

    cdef int finish(self) except -1
    cdef int64_t result_count(self) noexcept


# The chunk's share of a range axis whose chunks have `extent` items.
cdef Share share_of(const Axis *axis, int64_t chunk, int64_t extent) noexcept nogil
# Whether every item of a chunk that lies inside the array is selected, for chunks of `extent` items.
cdef bint covers(Selection selection, const int64_t *position, const Py_ssize_t *extent) noexcept nogil
# Which entry of `axis.chunks` a chunk is, or -1.
cdef int64_t find_chunk(const Axis *axis, int64_t chunk) noexcept nogil
