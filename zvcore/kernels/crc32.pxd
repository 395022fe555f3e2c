from libc.stdint cimport uint8_t, uint32_t


cdef uint32_t crc32_of(const uint8_t *data, size_t n) noexcept nogil
