"""A codec's C table as Cython code holds it."""

from libc.stdint cimport int32_t, uint64_t

from zvcore.codecs.abi cimport zv_codec, zv_error


cdef class NativeCodec:
    # Holds the capsule, so `table` and everything it points to live as long as this object.
    cdef readonly object capsule
    cdef const zv_codec *table
    # Idle workers; each slot is taken and filled atomically.
    cdef void *idle[8]

    cdef void *take_worker(self) noexcept nogil
    cdef void give_worker(self, void *worker) noexcept nogil
    cdef int32_t run(self, bint decoding, const Py_buffer *src, void *dst, uint64_t cap, uint64_t *size,
                     zv_error *err) noexcept nogil
    cdef uint64_t hint(self, const Py_buffer *src) noexcept nogil
    cdef int decode_into(self, const Py_buffer *src, object out) except -1
    cdef object decode_new(self, const Py_buffer *src, uint64_t limit, bint expected)


# The exception that a status of this table stands for: the one place where that is decided. `cap` is the size that was
# allowed (ZV_SIZE_UNKNOWN: say nothing of sizes), `needed` what the codec said it needs, 0 if unknown. Needs the GIL.
cdef object status_error(const zv_codec *table, int32_t status, int32_t lib_code, bytes message, bint decoding,
                         uint64_t cap, uint64_t needed)
cdef object table_error(const zv_codec *table, int32_t status, const zv_error *err, bint decoding,
                        uint64_t cap, uint64_t needed)
