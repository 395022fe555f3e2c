"""Where encoded chunks go, chunk by chunk, while others are still being encoded."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from zvcore.codecs.running cimport Bytes
from zvcore.engine.buffers cimport Buffers
from zvcore.engine.paths cimport Paths
from zvcore.engine.slots cimport Slot


cdef class Sink:
    cdef public bint store_empty        # whether chunks that hold nothing but the fill value are stored all the same

    # Raises unless the sink was made for this many chunks from this many items of work.
    cdef int check(self, Py_ssize_t chunks, Py_ssize_t items) except -1
    # The item that a thread is to do now. Called exactly once for each item.
    cdef int64_t take(self, Slot *slot, int64_t item) noexcept nogil
    # Whether it takes the chunks in any order.
    cdef bint in_any_order(self) noexcept nogil
    # Where the sink would have so many bytes of a chunk: put from there, they are not copied. NULL: nowhere.
    cdef uint8_t *room_for(self, int64_t chunk, uint64_t size) noexcept nogil
    # An encoded chunk: 0, or -1 with slot.failure.
    cdef int put(self, Slot *slot, int64_t chunk, Bytes head, Bytes body) noexcept nogil
    # A chunk that is to be absent.
    cdef int leave_out(self, Slot *slot, int64_t chunk) noexcept nogil


cdef class Gathered(Sink):
    cdef readonly Buffers chunks


cdef class Files(Sink):
    cdef Paths paths
    cdef int durability
