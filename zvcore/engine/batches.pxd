"""A number of items that threads do one after the other."""

from libc.stdint cimport int64_t

from zvcore.engine.failures cimport Failure
from zvcore.engine.prepared cimport Chains
from zvcore.engine.slots cimport Slot


cdef class Task:
    cdef Chains chains              # which the threads' runners run

    # Does one item: 0, or -1 with slot.failure.
    cdef int run(self, Slot *slot, int64_t item) noexcept nogil
    # Called in each thread when it has done its last item.
    cdef void leave(self, Slot *slot) noexcept nogil
    # All items on `threads` threads, the caller's among them. False when `failure` says what went wrong first; a Python
    # exception when one came up meanwhile (Ctrl-C, the progress callback).
    cdef bint perform(self, int64_t items, int threads, object progress, Failure *failure) except -1
