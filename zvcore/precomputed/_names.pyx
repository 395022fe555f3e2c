"""The numbers that chunks' files are named after."""

import numpy as np

from libc.stdint cimport int64_t, uint64_t


def named_boxes(const int64_t[:, ::1] positions not None, const int64_t[::1] chunk not None,
                const int64_t[::1] size not None, const int64_t[::1] corner not None):
    """int64[n, 6]: where each chunk begins and ends along x, y and z, counted from the volume's corner."""
    cdef Py_ssize_t i, n = positions.shape[0]
    cdef int axis
    cdef int64_t begin, end
    cdef int64_t[:, ::1] boxes
    if positions.shape[1] < 3 or chunk.shape[0] != 3 or size.shape[0] != 3 or corner.shape[0] != 3:
        raise ValueError("positions, chunks, sizes and corners are along x, y and z")
    result = np.empty((n, 6), np.int64)
    boxes = result
    for i in range(n):
        for axis in range(3):
            begin = <int64_t> (<uint64_t> positions[i, axis] * <uint64_t> chunk[axis])
            end = <int64_t> (<uint64_t> begin + <uint64_t> chunk[axis])
            end = min(end, size[axis])
            boxes[i, 2 * axis] = <int64_t> (<uint64_t> begin + <uint64_t> corner[axis])
            boxes[i, 2 * axis + 1] = <int64_t> (<uint64_t> end + <uint64_t> corner[axis])
    return result
