"""Memory that one thread reuses."""

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc


cdef struct Scratch:
    uint8_t *data
    uint64_t capacity


cdef inline void discard(Scratch *scratch) noexcept nogil:
    free(scratch.data)
    scratch.data = NULL
    scratch.capacity = 0


# At least `size` bytes, whose contents are not kept; NULL when memory is short.
cdef inline uint8_t *reserve(Scratch *scratch, uint64_t size) noexcept nogil:
    if size > <uint64_t> 1 << 62:
        return NULL
    if scratch.capacity < size or scratch.data == NULL:
        free(scratch.data)
        scratch.capacity = 0
        size = max(<uint64_t> 4096, size + size // 8)
        scratch.data = <uint8_t *> malloc(size)
        if scratch.data != NULL:
            scratch.capacity = size
    return scratch.data


# Frees the memory if it has grown beyond `most` bytes.
cdef inline void trim(Scratch *scratch, uint64_t most) noexcept nogil:
    if scratch.capacity > most:
        discard(scratch)
