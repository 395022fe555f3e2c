from libc.stdint cimport int64_t

from zvcore.engine.batches cimport Task
from zvcore.engine.buffers cimport Buffers
from zvcore.engine.chunks cimport Chunks
from zvcore.engine.load cimport Stored
from zvcore.engine.moving cimport Items, Joining
from zvcore.engine.sinks cimport Sink
from zvcore.engine.slots cimport Slot
from zvcore.engine.work cimport Work


cdef class Encoding(Task):
    cdef Chunks chunks
    cdef Stored old                     # None: no stored bytes are needed
    cdef Sink sink

    cdef int encode(self, Slot *slot, int64_t chunk) noexcept nogil
    # How many items of work there are, if that are not the chunks.
    cdef int64_t prepare(self, int threads) except -1


# Encodes chunks of which nothing is known yet but what is assigned to them.
cdef int encode_all(Encoding encoding, Chunks chunks, Sink sink, Work work) except -1


cdef class EncodingItems(Encoding):
    cdef Items items
    cdef Joining joined
    cdef const int64_t *groups          # chunks that are encoded together begin here; NULL: each by itself
    cdef int64_t group_count
    cdef object _groups

    cdef bint follows(self, int64_t first, int64_t chunk) noexcept nogil


cdef class StringEncoding(Task):
    cdef Py_ssize_t count
    cdef Py_buffer *views
    cdef Buffers results
