from libc.stdint cimport int64_t

from zvcore.engine.batches cimport Task
from zvcore.engine.chunks cimport Chunks
from zvcore.engine.load cimport Stored
from zvcore.engine.regions cimport Regions
from zvcore.engine.sinks cimport Sink
from zvcore.engine.slots cimport Slot


cdef class EncodingRegions(Task):
    cdef Chunks chunks
    cdef Regions regions
    cdef const int64_t *rows            # which of the chunks of `regions` these are; NULL: all
    cdef Stored old                     # None: no stored bytes are needed
    cdef Sink sink

    cdef int encode(self, Slot *slot, int64_t chunk) noexcept nogil
