"""What hands on the chunks of one array to the chunks of another."""

cimport cython
from libc.stdint cimport int64_t

from zvcore.engine.batches cimport Task
from zvcore.engine.failures cimport Failure
from zvcore.engine.slots cimport Slot
from zvcore.system.atomics cimport zv_fetch_add


@cython.no_gc
cdef class Carrying(Task):
    cdef void leave(self, Slot *slot) noexcept nogil:
        zv_fetch_add(&self.bytes_in, <int64_t> slot.bytes_in)
        self.stored.leave(slot)

    cdef int of_target(self, Slot *slot, int status) noexcept nogil:
        if status != 0 and slot.failure.job >= 0:
            slot.failure.job += self.source.count
        return status

    cdef object error(self, Failure *failure):
        if failure.job < self.source.count:
            return self.source.error(failure, self.chains)
        failure.job -= self.source.count
        return self.target.error(failure, self.chains)
