"""Names of chunks, a million at a time, in one block of memory."""

import numpy as np

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy


cdef inline int digits_of(int64_t value) noexcept nogil:
    cdef uint64_t rest = <uint64_t> value if value >= 0 else 0 - <uint64_t> value
    cdef int count = 1 if value >= 0 else 2
    while rest >= 10:
        rest //= 10
        count += 1
    return count


cdef inline void render(int64_t value, int length, uint8_t *into) noexcept nogil:
    cdef uint64_t rest = <uint64_t> value if value >= 0 else 0 - <uint64_t> value
    cdef int i = length - 1
    while True:
        into[i] = <uint8_t> (48 + rest % 10)
        rest //= 10
        i -= 1
        if rest == 0:
            break
    if value < 0:
        into[0] = 45


def format_keys(columns, literals):
    """Render n keys `literals[0] + str(columns[i, 0]) + literals[1] + ... + literals[k]`.

    Returns (pool, ends): the keys as bytes with a NUL after each, and where each ends (its NUL).
    """
    columns = np.ascontiguousarray(columns, np.int64)
    if columns.ndim != 2 or len(literals) != columns.shape[1] + 1:
        raise ValueError("there must be one literal more than there are columns")
    cdef Py_ssize_t n = columns.shape[0]
    cdef Py_ssize_t k = columns.shape[1]
    cdef list encoded = [literal.encode() if isinstance(literal, str) else bytes(literal) for literal in literals]
    for literal in encoded:
        if b"\0" in literal:
            raise ValueError("a key cannot contain a NUL character")
    cdef bytes joined = b"".join(encoded)
    cdef const uint8_t *text = joined
    cdef Py_ssize_t fixed = len(joined)
    cdef Py_ssize_t *lengths = <Py_ssize_t *> malloc((k + 1) * sizeof(Py_ssize_t))
    cdef Py_ssize_t i, j
    cdef int64_t at = 0
    cdef const uint8_t *source
    cdef int width
    cdef const int64_t *values = NULL
    cdef const int64_t[:, ::1] column_view
    cdef int64_t[::1] end_view
    cdef uint8_t[::1] pool_view
    if lengths == NULL:
        raise MemoryError
    try:
        for j in range(k + 1):
            lengths[j] = len(encoded[j])
        if n and k:
            column_view = columns
            values = &column_view[0, 0]
        ends = np.empty(n, np.int64)
        end_view = ends
        with nogil:
            for i in range(n):
                at += fixed
                for j in range(k):
                    at += digits_of(values[i * k + j])
                end_view[i] = at
                at += 1
        pool = np.empty(max(at, 1), np.uint8)
        pool_view = pool
        pool_view[0] = 0
        with nogil:
            at = 0
            for i in range(n):
                source = text
                for j in range(k + 1):
                    memcpy(&pool_view[at], source, lengths[j])
                    at += lengths[j]
                    source += lengths[j]
                    if j < k:
                        width = digits_of(values[i * k + j])
                        render(values[i * k + j], width, &pool_view[at])
                        at += width
                pool_view[at] = 0
                at += 1
    finally:
        free(lengths)
    return pool, ends
