"""The CRC-32C checksum for other Cython modules; see crc32c.pyx."""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t

# The checksum of the bytes whose checksum is `value` (0 for none), followed by `size` bytes at `data`.
cdef uint32_t crc32c_of(const void *data, size_t size, uint32_t value) noexcept nogil
