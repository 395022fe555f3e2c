"""The hash that spreads ids over shards, for other Cython modules; see hashing.pyx."""

from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

# The hashes of `count` ids; the two arrays must not overlap.
cdef void murmurhash3_of(const uint64_t *ids, uint64_t *hashes, size_t count) noexcept nogil
