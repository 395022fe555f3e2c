"""A codec's C table as Cython code holds it."""

from libc.stdint cimport int32_t, uint8_t, uint64_t

from zvcore.codecs.abi cimport zv_codec
from zvcore.codecs.failures cimport CodecFailure
from zvcore.codecs.running cimport Attempt
from zvcore.codecs.workers cimport Workers


cdef class Table:
    # Holds the capsule, so `table` and everything it points to live as long as this object.
    cdef readonly object capsule
    cdef const zv_codec *table
    cdef Workers workers

    cdef object error(self, const CodecFailure *failure)
    cdef int32_t run(self, Attempt *attempt, uint8_t *into, CodecFailure *failure,
                     int32_t (*function)(Attempt *, uint8_t *, CodecFailure *) noexcept nogil) noexcept nogil
    cdef object decode_new(self, const Py_buffer *src, uint64_t limit)
    cdef object decode_guessing(self, Attempt *attempt, CodecFailure *failure)
    cdef int decode_into(self, const Py_buffer *src, object out) except -1


cdef uint64_t decode_limit(max_size) except? 0
