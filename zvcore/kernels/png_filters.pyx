"""The filters that PNG puts before its compression."""

from libc.stdint cimport uint8_t

import numpy as np

cdef extern from "zv_png_filters.h" nogil:
    int zv_undo_filter(int filter, const uint8_t *line, const uint8_t *above, uint8_t *to, size_t n, size_t distance)
    void zv_choose_filter(const uint8_t *line, const uint8_t *above, uint8_t *to, uint8_t *spare, size_t n,
                          size_t distance)


cdef int undo_filter(int filter, const uint8_t *line, const uint8_t *above, uint8_t *to, size_t n,
                     size_t distance) noexcept nogil:
    return zv_undo_filter(filter, line, above, to, n, distance)


cdef void choose_filter(const uint8_t *line, const uint8_t *above, uint8_t *to, uint8_t *spare, size_t n,
                        size_t distance) noexcept nogil:
    zv_choose_filter(line, above, to, spare, n, distance)


def undo_filters(const uint8_t[:, ::1] lines not None, Py_ssize_t distance):
    """The lines of a picture without their filters, whose numbers are the first bytes; `distance` bytes to a pixel."""
    cdef Py_ssize_t i, n = lines.shape[1] - 1
    cdef uint8_t[:, ::1] out
    if n < 1 or distance < 1:
        raise ValueError("lines have a filter and at least one byte, and pixels have at least one")
    result = np.empty((lines.shape[0], n), np.uint8)
    out = result
    for i in range(lines.shape[0]):
        if zv_undo_filter(lines[i, 0], &lines[i, 1], &out[i - 1, 0] if i else NULL, &out[i, 0], n, distance) != 0:
            raise ValueError(f"line {i} has filter {lines[i, 0]}, which PNG has none of")
    return result


def choose_filters(const uint8_t[:, ::1] lines not None, Py_ssize_t distance):
    """The lines of a picture, each with the filter that makes the least of it."""
    cdef Py_ssize_t i, n = lines.shape[1]
    cdef uint8_t[:, ::1] out
    cdef uint8_t[::1] spare
    if n < 1 or distance < 1:
        raise ValueError("lines have at least one byte, and pixels have at least one")
    spare = np.empty(n, np.uint8)
    result = np.empty((lines.shape[0], n + 1), np.uint8)
    out = result
    for i in range(lines.shape[0]):
        zv_choose_filter(&lines[i, 0], &lines[i - 1, 0] if i else NULL, &out[i, 0], &spare[0], n, distance)
    return result
