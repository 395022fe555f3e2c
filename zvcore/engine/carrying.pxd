"""What hands on the chunks of one array to the chunks of another."""

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

    # `status`, of something that was done with a chunk of the target: a failure is counted behind the source's chunks.
    cdef int of_target(self, Slot *slot, int status) noexcept nogil
    cdef object error(self, Failure *failure)
