"""Copies of many byte ranges at once."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
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


def copy_ranges(const uint8_t[::1] source not None, const int64_t[::1] starts not None,
                uint8_t[::1] target not None, const int64_t[::1] places not None, const int64_t[::1] sizes not None):
    """Copy sizes[i] bytes from starts[i] of `source` to places[i] of `target`, for each i."""
    cdef Py_ssize_t i, n = starts.shape[0]
    cdef int64_t room = source.shape[0], end = target.shape[0]
    cdef Py_ssize_t bad = -1
    if places.shape[0] != n or sizes.shape[0] != n:
        raise ValueError(f"{n} starts, {places.shape[0]} places and {sizes.shape[0]} sizes")
    with nogil:
        for i in range(n):
            if starts[i] < 0 or places[i] < 0 or sizes[i] < 0 or starts[i] > room or sizes[i] > room - starts[i] or \
                    places[i] > end or sizes[i] > end - places[i]:
                bad = i
                break
            if sizes[i]:
                memcpy(&target[places[i]], &source[starts[i]], sizes[i])
    if bad >= 0:
        raise ValueError(f"range {bad}: {sizes[bad]} bytes at {starts[bad]} do not fit at {places[bad]}")
