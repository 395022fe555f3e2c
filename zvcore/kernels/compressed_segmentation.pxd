"""Labels packed block by block, for codecs that run without the GIL; see compressed_segmentation.pyx."""

from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef enum:
    SEG_OK = 0
    SEG_SPACE = 1
    SEG_CORRUPT = 2
    SEG_NOMEM = 5
    SEG_TOO_LARGE = 6


ctypedef struct seg_form:
    # In voxels; channels apart.
    int64_t shape[3]
    int64_t block[3]
    int64_t channels
    # Bytes of one label: 4 or 8.
    int64_t itemsize


ctypedef struct seg_fault:
    const char *what
    int64_t channel
    int64_t block
    uint64_t found
    uint64_t limit


# Whether the numbers of a form are positive and small enough that no size computed from them overflows.
cdef bint seg_form_is_sane(const seg_form *form) noexcept nogil

# The bytes of the decoded labels, and the most that encoding them can take.
cdef uint64_t seg_decoded_size(const seg_form *form) noexcept nogil
cdef uint64_t seg_bound(const seg_form *form) noexcept nogil

cdef int seg_decode(const seg_form *form, const uint8_t *src, uint64_t n, uint8_t *dst, seg_fault *fault) noexcept nogil

cdef int seg_encode(const seg_form *form, const uint8_t *src, uint8_t *dst, uint64_t cap, uint64_t *out_n,
                    seg_fault *fault) noexcept nogil
