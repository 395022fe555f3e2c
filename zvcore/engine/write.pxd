from libc.stdint cimport int64_t

from zvcore.engine.batches cimport Task
from zvcore.engine.buffers cimport Buffers
from zvcore.engine.chunks cimport Chunks
from zvcore.engine.load cimport Stored
from zvcore.engine.moving cimport Items, Joining
from zvcore.engine.sinks cimport Sink


cdef class Encoding(Task):
    cdef Chunks chunks
    cdef Items items
    cdef Stored old                     # None: no stored bytes are needed
    cdef Sink sink
    cdef Joining joined
    cdef const int64_t *groups          # chunks that are encoded together begin here; NULL: each by itself
    cdef int64_t group_count
    cdef object _groups

    cdef int join_chunks(self, int threads) except -1
    cdef bint follows(self, int64_t first, int64_t chunk) noexcept nogil


cdef class StringEncoding(Task):
    cdef Py_ssize_t count
    cdef Py_buffer *views
    cdef Buffers results
