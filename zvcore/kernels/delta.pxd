"""Delta-coded lists of byte ranges for other Cython modules; see delta.pyx."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t

# Both return `count`, or the first entry whose range does not end before 2**64; `stored` has 24 * count bytes.
cdef size_t decode_ranges(const uint8_t *stored, size_t count, uint64_t *ids, uint64_t *offsets,
                          uint64_t *sizes) noexcept nogil
cdef size_t encode_ranges(const uint64_t *ids, const uint64_t *offsets, const uint64_t *sizes, size_t count,
                          uint8_t *stored) noexcept nogil
