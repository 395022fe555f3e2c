"""Compressed Morton codes: one number for each position of a grid, near positions near each other.

For i = 0, 1, ... bit i of each coordinate in turn becomes the next bit of the code, lowest bit first; an axis takes
part while 2**i is smaller than its length. Codes are dense only where all lengths are powers of two.
"""

cimport numpy as cnp
from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

import operator

import numpy as np

from zvcore.kernels.arguments cimport integers, uint64_column
from zvcore.kernels.cpu cimport features
from zvcore.system.gil cimport let_go, take_back

cnp.import_array()


cdef extern from "zv_morton.h" nogil:
    void zv_morton_plan(zv_morton_grid *grid, const uint64_t *last, int ndim)
    size_t zv_morton_encode(uint32_t features, const zv_morton_grid *grid, zv_coordinate_type type,
                            const char *coordinates, ptrdiff_t row_stride, ptrdiff_t axis_stride, size_t count,
                            uint64_t *codes)
    size_t zv_morton_decode(uint32_t features, const zv_morton_grid *grid, const char *codes, ptrdiff_t stride,
                            size_t count, uint64_t *coordinates, uint8_t *inside)


cdef size_t encode(const zv_morton_grid *grid, zv_coordinate_type type, const char *coordinates, ptrdiff_t row_stride,
                   ptrdiff_t axis_stride, size_t count, uint64_t *codes) noexcept nogil:
    return zv_morton_encode(features, grid, type, coordinates, row_stride, axis_stride, count, codes)


cdef size_t decode(const zv_morton_grid *grid, const char *codes, ptrdiff_t stride, size_t count,
                   uint64_t *coordinates, uint8_t *inside) noexcept nogil:
    return zv_morton_decode(features, grid, codes, stride, count, coordinates, inside)


cdef int plan_grid(object grid_shape, zv_morton_grid *grid) except -1:
    cdef uint64_t[ZV_MORTON_MAX_NDIM] last
    cdef tuple shape = _shape(grid_shape)
    if len(shape) > ZV_MORTON_MAX_NDIM:
        raise ValueError(f"grid_shape has {len(shape)} axes, but at most {ZV_MORTON_MAX_NDIM} can be numbered")
    for axis, length in enumerate(shape):
        if length < 1:
            raise ValueError(f"grid_shape[{axis}] is {length}, but must be at least 1")
    bits = sum((length - 1).bit_length() for length in shape)
    if bits > 64:
        raise ValueError(f"the positions of the grid {shape} need {bits} bits, but a code has 64")
    for axis, length in enumerate(shape):
        last[axis] = length - 1
    zv_morton_plan(grid, last, len(shape))
    return 0


cdef tuple _shape(object grid_shape):
    if isinstance(grid_shape, tuple) and all([type(length) is int for length in grid_shape]):
        return grid_shape
    try:
        return tuple([operator.index(length) for length in grid_shape])
    except TypeError:
        raise TypeError(f"grid_shape must be a sequence of integers, not {grid_shape!r}") from None


def compressed_morton(coords, grid_shape):
    """The codes of grid positions, as uint64[n].

    `coords` is an array [n, d] of integers, with any memory layout; `grid_shape` has d lengths. A position outside the
    grid, or a grid whose codes need more than 64 bits, is a ValueError.
    """
    cdef zv_morton_grid grid
    cdef zv_coordinate_type type
    cdef size_t count, done
    shape = _shape(grid_shape)
    plan_grid(shape, &grid)
    cdef cnp.ndarray positions = integers(coords, "coords", 2)
    if positions.shape[1] != grid.ndim:
        raise ValueError(f"coords has {positions.shape[1]} columns, but the grid has {grid.ndim} axes")
    if positions.dtype.kind == "i":
        type = ZV_COORDINATE_INT32 if positions.itemsize == 4 else ZV_COORDINATE_INT64
    else:
        type = ZV_COORDINATE_UINT32 if positions.itemsize == 4 else ZV_COORDINATE_UINT64
    count = positions.shape[0]
    cdef cnp.ndarray codes = np.empty(count, np.uint64)
    python = let_go(count)
    done = zv_morton_encode(features, &grid, type, <const char *> cnp.PyArray_DATA(positions), positions.strides[0],
                            positions.strides[1], count, <uint64_t *> cnp.PyArray_DATA(codes))
    take_back(python)
    if done < count:
        _refuse_position(positions, done, shape)
    return codes


cdef _refuse_position(positions, Py_ssize_t begin, tuple shape):
    for row in range(begin, len(positions)):
        for axis, length in enumerate(shape):
            coordinate = int(positions[row, axis])
            if not 0 <= coordinate < length:
                raise ValueError(f"row {row} of coords is {tuple(positions[row].tolist())}: its coordinate "
                                 f"{coordinate} on axis {axis} lies outside the grid {shape}")


def compressed_morton_inverse(codes, grid_shape):
    """The grid positions of codes, as int64[n, d] (uint64 if an axis is longer than 2**63).

    A code that names no position of the grid is a ValueError; `compressed_morton_valid` finds such codes.
    """
    cdef zv_morton_grid grid
    cdef size_t count, done
    shape = _shape(grid_shape)
    plan_grid(shape, &grid)
    cdef cnp.ndarray column = uint64_column(codes, "codes")
    count = column.shape[0]
    dtype = np.uint64 if any(length > 2**63 for length in shape) else np.int64
    cdef cnp.ndarray positions = np.empty((count, grid.ndim), dtype)
    python = let_go(count)
    done = zv_morton_decode(features, &grid, <const char *> cnp.PyArray_DATA(column), column.strides[0], count,
                            <uint64_t *> cnp.PyArray_DATA(positions), NULL)
    take_back(python)
    if done < count:
        row = done + int(compressed_morton_valid(column[done:], shape).argmin())
        raise ValueError(f"codes[{row}] is {column[row]}, which names no position of the grid {shape}")
    return positions


def compressed_morton_valid(codes, grid_shape):
    """Whether each code names a position of the grid, as bool[n]."""
    cdef zv_morton_grid grid
    cdef size_t count
    plan_grid(grid_shape, &grid)
    cdef cnp.ndarray column = uint64_column(codes, "codes")
    count = column.shape[0]
    cdef cnp.ndarray inside = np.empty(count, np.bool_)
    python = let_go(count)
    zv_morton_decode(features, &grid, <const char *> cnp.PyArray_DATA(column), column.strides[0], count, NULL,
                     <uint8_t *> cnp.PyArray_DATA(inside))
    take_back(python)
    return inside
