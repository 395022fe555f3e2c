"""Rows of variable length in one buffer: `u32 count`, then for each row `u32 length` and its bytes."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

import numpy as np

from zvcore.errors import CorruptDataError
from zvcore.kernels.unaligned cimport load_u32, store_u32


def split_rows(const uint8_t[::1] data not None):
    """(starts, lengths) of the rows of one buffer. Anything after the last row is refused."""
    cdef Py_ssize_t size = data.shape[0], position = 4, i, count
    cdef uint32_t length
    cdef const uint8_t *p
    if size < 4:
        raise CorruptDataError("corrupt buffer, missing or truncated header", expected="4 bytes", found=f"{size} bytes")
    p = &data[0]
    # Every row takes at least its length field, so a count beyond that asks for memory that no row can fill.
    if load_u32(p) > (size - 4) // 4:
        raise CorruptDataError(
            "corrupt buffer, data seem truncated", offset=0, expected=f"{load_u32(p)} rows", found=f"{size} bytes"
        )
    count = load_u32(p)
    starts = np.empty(count, np.int64)
    lengths = np.empty(count, np.int64)
    cdef int64_t[::1] start_view = starts, length_view = lengths
    cdef Py_ssize_t failed = -1
    with nogil:
        for i in range(count):
            if size - position < 4:
                failed = i
                break
            length = load_u32(p + position)
            position += 4
            if length > size - position:
                failed = i
                break
            start_view[i] = position
            length_view[i] = length
            position += length
    if failed >= 0:
        raise CorruptDataError(
            f"corrupt buffer, data seem truncated in row {failed} of {count}", offset=position, found=f"{size} bytes"
        )
    if position != size:
        raise CorruptDataError(
            f"corrupt buffer, {size - position} bytes after the last row", offset=position,
            expected=f"{position} bytes", found=f"{size} bytes",
        )
    return starts, lengths


def split_single_rows(const uint8_t[::1] data not None, const int64_t[::1] starts not None,
                      const int64_t[::1] lengths not None):
    """Strip the header off many buffers of one row each, which lie in `data`: (starts, lengths, faulty).

    An empty buffer is a row that is not there. `faulty` is the first buffer that is not exactly one row, or -1.
    """
    cdef Py_ssize_t n = starts.shape[0], i, faulty = -1
    cdef int64_t start, length, size = data.shape[0]
    cdef const uint8_t *p = &data[0] if size else NULL
    if lengths.shape[0] != n:
        raise ValueError("starts and lengths must have one length")
    row_starts = np.empty(n, np.int64)
    row_lengths = np.empty(n, np.int64)
    cdef int64_t[::1] start_view = row_starts, length_view = row_lengths
    with nogil:
        for i in range(n):
            start = starts[i]
            length = lengths[i]
            start_view[i] = start
            length_view[i] = 0
            if length == 0:
                continue
            if start < 0 or length < 8 or length > size or start > size - length or load_u32(p + start) != 1 \
                    or <int64_t> load_u32(p + start + 4) != length - 8:
                faulty = i
                break
            start_view[i] = start + 8
            length_view[i] = length - 8
    return row_starts, row_lengths, faulty


def gather(const uint8_t[::1] data not None, const int64_t[::1] starts not None, const int64_t[::1] lengths not None):
    """The rows that lie anywhere in `data`, one after the other without their headers: uint8[sum of lengths]."""
    cdef Py_ssize_t n = starts.shape[0], i
    cdef int64_t size = data.shape[0], total = 0
    if lengths.shape[0] != n:
        raise ValueError("starts and lengths must have one length")
    for i in range(n):
        if starts[i] < 0 or lengths[i] < 0 or lengths[i] > size or starts[i] > size - lengths[i]:
            raise ValueError(f"row {i} is not inside the data: {lengths[i]} bytes at {starts[i]} of {size}")
        total += lengths[i]
    out = np.empty(total, np.uint8)
    cdef uint8_t[::1] view = out
    cdef uint8_t *q = &view[0] if total else NULL
    with nogil:
        for i in range(n):
            if lengths[i]:
                memcpy(q, &data[starts[i]], lengths[i])
                q += lengths[i]
    return out


def join_rows(const uint8_t[::1] data not None, const int64_t[::1] offsets not None):
    """One buffer of rows from rows that lie one after the other: row i is `data[offsets[i]:offsets[i + 1]]`."""
    cdef Py_ssize_t count = offsets.shape[0] - 1, i
    cdef int64_t size = data.shape[0], length
    if count < 0:
        raise ValueError("offsets must have one more entry than there are rows")
    if count > 0xFFFFFFFF:
        raise ValueError(f"a buffer has at most 2**32 - 1 rows, got {count}")
    if offsets[0] < 0 or offsets[count] > size:
        raise ValueError(f"offsets leave the data: {offsets[0]}..{offsets[count]} of {size} bytes")
    for i in range(count):
        length = offsets[i + 1] - offsets[i]
        if length < 0 or length > 0xFFFFFFFF:
            raise ValueError(f"row {i} has {length} bytes")
    cdef int64_t total = 4 + 4 * count + offsets[count] - offsets[0]
    out = bytearray(total)
    cdef uint8_t[::1] view = out
    cdef uint8_t *q = &view[0]
    cdef const uint8_t *p = &data[0] if size else NULL
    with nogil:
        store_u32(q, <uint32_t> count)
        q += 4
        for i in range(count):
            length = offsets[i + 1] - offsets[i]
            store_u32(q, <uint32_t> length)
            q += 4
            if length:
                memcpy(q, p + offsets[i], length)
            q += length
    return out
