from libc.stdint cimport int64_t, uint64_t

from zvcore.stores.files cimport Watched


cdef enum:
    # A batch of fewer bytes than this is done before another thread has woken up.
    SMALL_TO_DECODE = 1 << 17
    SMALL_TO_ENCODE = 1 << 16


cdef class Work:
    cdef readonly object threads
    cdef readonly object progress
    cdef readonly object memory
    cdef readonly Watched watched

    # How many threads work, if each holds this many bytes.
    cdef int threads_for(self, uint64_t held) except -1


# Whether `count` chunks of this many bytes each are less than `small` bytes in all.
cdef inline bint is_small(int64_t count, uint64_t nbytes, uint64_t small) noexcept nogil:
    return nbytes < small and nbytes * <uint64_t> count < small
