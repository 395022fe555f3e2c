"""Moves between a chunk and a region of an array, for the engine; see blocks.pyx.

`swap_unit` is 0 to keep bytes as they are, else the number of bytes (2, 4, 8 or 16) to reverse as one: the item size,
or half of it for complex numbers. Strides are in bytes and may be negative or zero (source only). `ndim` is at most
ZV_MAX_NDIM. None of these checks bounds: callers do.
"""

cdef enum:
    ZV_MAX_NDIM = 32

cdef void copy_block(char *dst, const Py_ssize_t *dst_strides, const char *src, const Py_ssize_t *src_strides,
                     const Py_ssize_t *shape, int ndim, Py_ssize_t itemsize, int swap_unit) noexcept nogil

cdef void fill_block(char *dst, const Py_ssize_t *dst_strides, const Py_ssize_t *shape, int ndim, Py_ssize_t itemsize,
                     const char *item) noexcept nogil

# Whether `count` items at `src` all equal `item`, byte for byte.
cdef bint is_filled(const char *src, Py_ssize_t count, Py_ssize_t itemsize, const char *item) noexcept nogil
