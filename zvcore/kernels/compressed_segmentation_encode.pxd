"""Packing labels for other Cython modules; see compressed_segmentation_encode.pyx."""

from libc.stdint cimport uint8_t, uint64_t

from zvcore.kernels.compressed_segmentation cimport seg_fault, seg_form

# `form` must be sane. Returns SEG_OK and the size; or SEG_SPACE when `cap` is too small, SEG_NOMEM, or SEG_TOO_LARGE
# when the format has no room for that much in one chunk; `fault` says more.
cdef int seg_encode(const seg_form *form, const uint8_t *src, uint8_t *dst, uint64_t cap, uint64_t *out_n,
                    seg_fault *fault) noexcept nogil
