"""Moves of many byte ranges at once."""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

import numpy as np


def gather_ranges(const uint8_t[::1] source not None, const uint64_t[::1] offsets not None,
                  const uint64_t[::1] sizes not None):
    """The bytes of these ranges of `source`, one after the other."""
    cdef Py_ssize_t i, n = offsets.shape[0]
    cdef uint64_t total = 0, end = source.shape[0], at = 0
    cdef Py_ssize_t bad = -1
    cdef uint8_t[::1] out
    if sizes.shape[0] != n:
        raise ValueError(f"{n} offsets and {sizes.shape[0]} sizes")
    with nogil:
        for i in range(n):
            if offsets[i] > end or sizes[i] > end - offsets[i]:
                bad = i
                break
            total += sizes[i]
            if total > <uint64_t>1 << 62:
                bad = i
                break
    if bad >= 0:
        raise ValueError(f"range {bad}: {sizes[bad]} bytes at {offsets[bad]} do not lie within {end} bytes")
    result = np.empty(total, np.uint8)
    if total:
        out = result
        with nogil:
            for i in range(n):
                if sizes[i]:
                    memcpy(&out[at], &source[offsets[i]], sizes[i])
                    at += sizes[i]
    return result
