"""Where the parts of many stored annotations lie: records, the ids of related segments, the ids behind lists.

    one     [u32 points], record, for each relationship (u32 count, count x u64)
    a list  u64 count, count x ([u32 points], record), count x u64

A record has `fixed` bytes (with the number of points, where there is one), and `point_bytes` for each point of a
polyline; `point_bytes` is 0 where records have one length. Nothing is read beyond the value that it belongs to, and
no more memory is taken than the values have.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

from zvcore.kernels.unaligned cimport load_u32, load_u64


cdef tuple fault(Py_ssize_t row, uint64_t expected, uint64_t found):
    return int(row), int(expected), int(found)


def check_bounds(const uint8_t[::1] data, const int64_t[::1] starts):
    """ValueError unless `starts` ascends within the data, from its first byte to its last."""
    cdef Py_ssize_t i, n = starts.shape[0]
    if n == 0 or starts[0] != 0 or starts[n - 1] != data.shape[0]:
        raise ValueError("the starts do not cover the data")
    for i in range(1, n):
        if starts[i] < starts[i - 1]:
            raise ValueError("the starts do not ascend")


def scan_annotations(const uint8_t[::1] data not None, const int64_t[::1] starts not None, uint64_t fixed,
                     uint64_t point_bytes, Py_ssize_t relationships):
    """(points uint32[n], related uint32[n, relationships], fault) of the annotations starts[i]..starts[i + 1].

    The fault is None, or (row, bytes expected, bytes found) of the first value that has another length.
    """
    check_bounds(data, starts)
    cdef Py_ssize_t i, r, n = starts.shape[0] - 1
    cdef uint64_t size, need = 0, count
    cdef int64_t at
    cdef Py_ssize_t bad = -1
    points = np.zeros(n if point_bytes else 0, np.uint32)
    related = np.zeros((n, relationships), np.uint32)
    cdef uint32_t[::1] points_view = points
    cdef uint32_t[:, ::1] related_view = related
    with nogil:
        for i in range(n):
            at = starts[i]
            size = starts[i + 1] - at
            need = fixed
            if size < need:
                bad = i
                break
            if point_bytes:
                count = load_u32(&data[at])
                points_view[i] = <uint32_t>count
                need += count * point_bytes
                if size < need:
                    bad = i
                    break
            for r in range(relationships):
                if size - need < 4:
                    need += 4
                    bad = i
                    break
                count = load_u32(&data[at + <int64_t>need])
                related_view[i, r] = <uint32_t>count
                need += 4
                if (size - need) // 8 < count:
                    need += 8 * count
                    bad = i
                    break
                need += 8 * count
            if bad < 0 and need != size:
                bad = i
            if bad >= 0:
                break
    return points, related, None if bad < 0 else fault(bad, need, starts[bad + 1] - starts[bad])


def scan_lists(const uint8_t[::1] data not None, const int64_t[::1] starts not None, uint64_t fixed,
               uint64_t point_bytes):
    """(counts int64[n], records int64[total], points uint32[total], fault) of the lists starts[i]..starts[i + 1].

    `records` says where each record begins; the fault is as above.
    """
    check_bounds(data, starts)
    cdef Py_ssize_t i, n = starts.shape[0] - 1, bad = -1
    cdef uint64_t size, count, _j, need = 0, number
    cdef int64_t total = 0, row = 0, at, end
    counts = np.zeros(n, np.int64)
    cdef int64_t[::1] counts_view = counts
    with nogil:
        for i in range(n):
            size = starts[i + 1] - starts[i]
            if size < 8:
                bad, need = i, 8
                break
            count = load_u64(&data[starts[i]])
            if count > (size - 8) // (fixed + 8) or (not point_bytes and size != 8 + count * (fixed + 8)):
                bad = i
                # A count of 64 bits may ask for more bytes than 64 bits can count.
                need = 8 + count * (fixed + 8) if count < <uint64_t>1 << 40 else <uint64_t>-1
                break
            counts_view[i] = count
            total += count
    if bad >= 0:
        return counts, np.empty(0, np.int64), np.empty(0, np.uint32), fault(bad, need, starts[bad + 1] - starts[bad])
    records = np.empty(total, np.int64)
    points = np.zeros(total if point_bytes else 0, np.uint32)
    cdef int64_t[::1] records_view = records
    cdef uint32_t[::1] points_view = points
    with nogil:
        for i in range(n):
            at = starts[i] + 8
            count = counts_view[i]
            end = starts[i + 1] - 8 * <int64_t>count
            for _j in range(count):
                records_view[row] = at
                need = fixed
                if point_bytes and <uint64_t>(end - at) >= fixed:
                    number = load_u32(&data[at])
                    points_view[row] = <uint32_t>number
                    need += number * point_bytes
                if <uint64_t>(end - at) < need:
                    need = at - starts[i] + need + 8 * count
                    bad = i
                    break
                at += need
                row += 1
            if bad >= 0:
                break
            if at != end:
                need = at - starts[i] + 8 * count
                bad = i
                break
    return counts, records, points, None if bad < 0 else fault(bad, need, starts[bad + 1] - starts[bad])
