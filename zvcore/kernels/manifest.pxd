"""One manifest's bytes, for the modules that make columns and lists of them; see manifest.pyx."""

from libc.stdint cimport int64_t, uint8_t


cdef enum:
    MAX_NDIM = 64
    MAX_COUNT = 0xFFFFFFFF      # of blocks in a manifest, or indices in a block

# What a block's mode byte says about what follows.
cdef enum:
    SINGLE = 0
    RANGE = 1
    EXPLICIT = 2

# What can be wrong with a manifest; the table of texts follows these numbers.
cdef enum Fault:
    FINE = 0
    ABSENT
    TOO_SHORT
    CUT_HEADER
    CUT_SINGLE
    CUT_RANGE
    CUT_EXPLICIT_HEADER
    CUT_EXPLICIT
    UNKNOWN_MODE
    TRAILING

cdef struct Walk:
    int64_t position    # where the walk stopped
    int64_t blocks      # blocks that are whole

cdef Fault walk(const uint8_t *p, int64_t size, int64_t ndim, Walk *out) noexcept nogil
cdef object fault_error(Fault fault, const uint8_t *p, int64_t size, Walk *at)
cdef int64_t checked_ndim(object ndim) except -1
