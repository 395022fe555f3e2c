"""Items of work that the threads of a batch take one after the other."""

from libc.stdint cimport int64_t

from zvcore.engine.failures cimport Failure
from zvcore.engine.prepared cimport Chains
from zvcore.engine.slots cimport Slot
from zvcore.engine.work cimport Work
from zvcore.system.files cimport file_stamp


cdef class Task:
    cdef Chains chains              # the ones that the threads' runners run
    cdef bint in_twos               # whether two items take less time together
    cdef bytes path                 # of a file that is looked at in the end, and its stamp; or None
    cdef file_stamp expected
    cdef bint unchanged             # whether it still had the stamp, when everything was done

    # Does one item: 0, or -1 with slot.failure.
    cdef int run(self, Slot *slot, int64_t item) noexcept nogil
    # Does this item and the next.
    cdef int run_two(self, Slot *slot, int64_t item) noexcept nogil
    # Has the array's document looked at in the end, if it is watched.
    cdef int watch(self, Work work) except -1
    # Called in each thread when it has done its last item.
    cdef void leave(self, Slot *slot) noexcept nogil
    # Does all items on `threads` threads, the caller's among them; where there are fewer items, the others may take
    # part in one. False with the first failure in `failure`; a Python exception if one was raised between the items
    # (Ctrl-C, the progress callback).
    cdef bint perform(self, int64_t items, int threads, object progress, Failure *failure) except -1
