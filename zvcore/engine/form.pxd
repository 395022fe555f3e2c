"""How a chunk's decoded bytes lie, in a form for threads."""

from libc.stdint cimport int64_t, uint64_t

from zvcore.engine.framing cimport zv_framing
from zvcore.kernels.blocks cimport ZV_MAX_NDIM


cdef enum Edge:
    FULL_EDGE = 0
    CROPPED_EDGE
    FRAMED_EDGE


# A chunk as it lies in memory.
cdef struct Block:
    Py_ssize_t shape[ZV_MAX_NDIM]
    Py_ssize_t strides[ZV_MAX_NDIM]
    uint64_t nbytes


cdef class Form:
    cdef readonly int ndim
    cdef Py_ssize_t itemsize
    cdef int swap_unit
    cdef int edge
    cdef bint padded                    # chunks at the edge are written whole
    cdef bint trailing                  # bytes behind the values of a framed chunk without codecs are ignored
    cdef int order[ZV_MAX_NDIM]         # axes from slowest to fastest
    cdef Py_ssize_t chunk[ZV_MAX_NDIM]
    cdef int64_t bounds[ZV_MAX_NDIM]
    cdef readonly uint64_t chunk_nbytes
    cdef bytes _fill, _stored_fill
    cdef const char *fill               # one item in native order
    cdef const char *stored_fill        # the same as it is stored
    cdef object framing_capsule
    cdef const zv_framing *framing
    cdef uint64_t header_bound          # the most bytes that a chunk's own header takes

    # -1 when the bytes do not fit in 63 bits
    cdef int lay_out(self, const uint64_t *shape, Block *block) noexcept nogil
    # The chunk at a grid position as it is written.
    cdef void written_block(self, const int64_t *position, Block *block) noexcept nogil
