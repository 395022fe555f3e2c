from zvcore.kernels.coarse_boxes cimport Boxes


# The most frequent value of each box, of integers or truth values; not 0 if memory is short.
cdef int coarsen_to_modes(const Boxes *boxes, const char *values, char *out) noexcept nogil
