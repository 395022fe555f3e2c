"""Coarser levels, for other Cython modules; see downsample.pyx."""

from zvcore.kernels.coarse_boxes cimport Boxes


# Says what is made of values of numpy's `kind`; -1: that cannot be made of them.
cdef int set_kind(Boxes *boxes, char kind, Py_ssize_t itemsize, bint modes) noexcept nogil
# The coarser volume of values in native byte order; not 0 if memory is short.
cdef int coarsen(const Boxes *boxes, const char *values, char *out) noexcept nogil
