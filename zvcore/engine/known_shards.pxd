from libc.stdint cimport int64_t, uint64_t

from zvcore.kernels.blocks cimport ZV_MAX_NDIM


cdef class Proof:
    cdef int64_t _latest, _proven, _void

    # The number of what is noted now.
    cdef int64_t number(self) noexcept
    # Whether what was noted with this number is proven, and whether it is void.
    cdef bint holds(self, int64_t number) noexcept
    cdef bint is_void(self, int64_t number) noexcept


cdef class ShardGrid:
    cdef int ndim
    cdef int64_t[ZV_MAX_NDIM] per_shard
    cdef int64_t[ZV_MAX_NDIM] strides
    cdef int64_t[ZV_MAX_NDIM] grid
    cdef readonly Proof proof

    # The shard that holds a chunk as one number, and the chunk's place in its index.
    cdef int64_t number_of(self, const int64_t *position, int64_t *slot) noexcept nogil
