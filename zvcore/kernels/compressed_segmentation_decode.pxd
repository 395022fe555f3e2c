"""Unpacking labels for other Cython modules; see compressed_segmentation_decode.pyx."""

from libc.stdint cimport uint8_t, uint64_t

from zvcore.kernels.compressed_segmentation cimport seg_fault, seg_form

# `form` must be sane; `dst` has room for all its labels. Returns SEG_OK or SEG_CORRUPT, and then says what is wrong.
cdef int seg_decode(const seg_form *form, const uint8_t *src, uint64_t n, uint8_t *dst, seg_fault *fault) noexcept nogil
