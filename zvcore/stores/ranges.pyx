"""Fetching many small ranges of an object with few requests."""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc, qsort

from zvcore.stores.base import outside


cdef struct Range:
    uint64_t start
    uint64_t stop
    Py_ssize_t index


cdef int by_place(const void *a, const void *b) noexcept nogil:
    cdef const Range *one = <const Range *> a
    cdef const Range *other = <const Range *> b
    if one.start != other.start:
        return -1 if one.start < other.start else 1
    if one.stop != other.stop:
        return -1 if one.stop < other.stop else 1
    return -1 if one.index < other.index else 1


def coalesce(key, ranges, size, uint64_t gap, uint64_t limit):
    """Group ranges that lie within `gap` bytes of each other into spans of at most `limit` bytes, in order of offset.

    A span is (start, stop, which of the ranges lie in it). Every range is checked against the object's size first.

    Ranges that overlap always share a span, whatever its size: so all spans together never hold more bytes than the
    object, however often a malformed index points to the same place.
    """
    cdef Py_ssize_t count = len(ranges), i
    cdef uint64_t whole = size, start = 0, stop = 0
    cdef list spans = [], members = None
    cdef Range *order
    for offset, length in ranges:
        if offset < 0 or length < 0:
            raise ValueError(f"{key}: a range cannot have offset {offset} and length {length}")
        if offset + length > size:
            raise outside(key, offset, length, size)
    if count == 0:
        return spans
    order = <Range *> malloc(count * sizeof(Range))
    if order == NULL:
        raise MemoryError
    try:
        for i in range(count):
            offset, length = ranges[i]
            order[i].start = offset
            order[i].stop = order[i].start + <uint64_t> length
            order[i].index = i
            if order[i].stop > whole or order[i].stop < order[i].start:
                raise RuntimeError("the ranges were changed meanwhile")
        qsort(order, count, sizeof(Range), by_place)
        for i in range(count):
            if members is not None and (
                order[i].start < stop or (order[i].start - stop <= gap and order[i].stop - start <= limit)
            ):
                members.append(order[i].index)
                stop = max(stop, order[i].stop)
                continue
            if members is not None:
                spans.append((start, stop, members))
            start = order[i].start
            stop = order[i].stop
            members = [order[i].index]
        spans.append((start, stop, members))
        return spans
    finally:
        free(order)
