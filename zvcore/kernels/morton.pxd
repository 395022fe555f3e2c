"""Compressed Morton codes for other Cython modules; see morton.pyx and zv_morton.h."""

from libc.stddef cimport ptrdiff_t, size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef extern from "zv_morton.h" nogil:
    const int ZV_MORTON_MAX_NDIM
    const int ZV_MORTON_ROWS

    ctypedef enum zv_coordinate_type:
        ZV_COORDINATE_INT32
        ZV_COORDINATE_UINT32
        ZV_COORDINATE_INT64
        ZV_COORDINATE_UINT64

    ctypedef struct zv_morton_grid:
        int ndim
        int bits
        uint64_t used

# Read a grid's shape; raises ValueError for one whose positions do not fit into codes.
cdef int plan_grid(object grid_shape, zv_morton_grid *grid) except -1

# See zv_morton_encode and zv_morton_decode.
cdef size_t encode(const zv_morton_grid *grid, zv_coordinate_type type, const char *coordinates, ptrdiff_t row_stride,
                   ptrdiff_t axis_stride, size_t count, uint64_t *codes) noexcept nogil
cdef size_t decode(const zv_morton_grid *grid, const char *codes, ptrdiff_t stride, size_t count,
                   uint64_t *coordinates, uint8_t *inside) noexcept nogil
