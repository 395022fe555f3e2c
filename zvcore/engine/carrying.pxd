"""Work that turns the chunks of one array into chunks of another."""

from libc.stdint cimport int64_t

from zvcore.engine.batches cimport Task
from zvcore.engine.chunks cimport Chunks
from zvcore.engine.failures cimport Failure
from zvcore.engine.load cimport Stored
from zvcore.engine.sinks cimport Sink
from zvcore.engine.slots cimport Slot


cdef class Carrying(Task):
    cdef Chunks source
    cdef Chunks target
    cdef Stored stored              # the source's
    cdef Sink sink                  # of the target's
    cdef int64_t bytes_in           # stored bytes that were read; added to atomically when a thread leaves

    # Passes on the `status` of work on a chunk of the target; after a failure, the chunk's number in `slot.failure` is
    # moved up by the number of the source's chunks, which tells `error` whose chunk it is.
    cdef int of_target(self, Slot *slot, int status) noexcept nogil
    cdef object error(self, Failure *failure)
