"""Moves between a chunk and a region of an array, for the engine; see blocks.pyx.

`swap_unit` is 0 to keep bytes as they are, else the number of bytes (2, 4, 8 or 16) to reverse as one: the item size,
or half of it for complex numbers. Strides are in bytes and may be negative or zero (source only). `ndim` is at most
ZV_MAX_NDIM. None of these checks bounds: callers do.
"""

cdef enum:
    ZV_MAX_NDIM = 32

cdef void copy_block(char *dst, const Py_ssize_t *dst_strides, const char *src, const Py_ssize_t *src_strides,
                     const Py_ssize_t *shape, int ndim, Py_ssize_t itemsize, int swap_unit) noexcept nogil

# The same into an array so large that it does not stay in the caches: rows that are whole cache lines of it are written
# past the caches.
cdef void copy_block_far(char *dst, const Py_ssize_t *dst_strides, const char *src, const Py_ssize_t *src_strides,
                         const Py_ssize_t *shape, int ndim, Py_ssize_t itemsize, int swap_unit) noexcept nogil

# How many blocks that are neighbours along the last axis, with rows of this many bytes, fill whole cache lines of the
# destination together; 0 if no number of them is moved that way.
cdef int blocks_in_a_line(Py_ssize_t row) noexcept nogil

# That many blocks, `apart` bytes from each other, into such an array. Their rows follow each other in it, each of its
# cache lines begins with a row of the first block, and no item is skipped along the last axis of either.
cdef void copy_joined_far(char *dst, const Py_ssize_t *dst_strides, const char *src, const Py_ssize_t *src_strides,
                          const Py_ssize_t *shape, int ndim, Py_ssize_t itemsize, Py_ssize_t apart) noexcept nogil

cdef void fill_block(char *dst, const Py_ssize_t *dst_strides, const Py_ssize_t *shape, int ndim, Py_ssize_t itemsize,
                     const char *item) noexcept nogil

# Whether `count` items at `src` all equal `item`, byte for byte.
cdef bint is_filled(const char *src, Py_ssize_t count, Py_ssize_t itemsize, const char *item) noexcept nogil
