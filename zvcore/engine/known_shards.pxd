from libc.stdint cimport int64_t

from zvcore.kernels.blocks cimport ZV_MAX_NDIM


cdef class ShardGrid:
    cdef int ndim
    cdef int64_t[ZV_MAX_NDIM] per_shard
    cdef int64_t[ZV_MAX_NDIM] strides
    cdef int64_t[ZV_MAX_NDIM] grid

    # The shard that holds a chunk as one number, and the chunk's place in its index.
    cdef int64_t number_of(self, const int64_t *position, int64_t *slot) noexcept nogil
