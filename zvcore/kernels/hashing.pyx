"""MurmurHash3_x86_128 of many ids at once."""

cimport numpy as cnp
from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport uint32_t, uint64_t

import numpy as np

from zvcore.kernels.arguments cimport uint64_column
from zvcore.kernels.cpu cimport features
from zvcore.system.gil cimport let_go, take_back

cnp.import_array()


cdef extern from "zv_murmur3.h" nogil:
    void zv_murmur3_all(uint32_t features, const uint64_t *ids, uint64_t *hashes, size_t count)
    void zv_murmur3_strided(uint32_t features, const char *ids, ptrdiff_t stride, uint64_t *hashes, size_t count)


cdef void murmurhash3_of(const uint64_t *ids, uint64_t *hashes, size_t count) noexcept nogil:
    zv_murmur3_all(features, ids, hashes, count)


def murmurhash3_x86_128(ids):
    """The first 8 bytes of each id's digest, as uint64[n]; an id is hashed as 8 little-endian bytes, with seed 0."""
    cdef cnp.ndarray column = uint64_column(ids, "ids")
    cdef size_t count = column.shape[0]
    cdef cnp.ndarray hashes = np.empty(count, np.uint64)
    python = let_go(count)
    zv_murmur3_strided(features, <const char *> cnp.PyArray_DATA(column), column.strides[0],
                       <uint64_t *> cnp.PyArray_DATA(hashes), count)
    take_back(python)
    return hashes
