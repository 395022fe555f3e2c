"""Labels packed block by block, for codecs that run without the GIL; see compressed_segmentation.pyx."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from zvcore.kernels.unaligned cimport load_u32, load_u64, store_u32, store_u64


ctypedef fused label_t:
    uint32_t
    uint64_t

cdef enum:
    SEG_OK = 0
    SEG_SPACE = 1
    SEG_CORRUPT = 2
    SEG_NOMEM = 5
    SEG_TOO_LARGE = 6


ctypedef struct seg_form:
    # In voxels, without the channels.
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


# --- for the two modules that unpack and pack


ctypedef struct seg_block:
    # Where the block begins in its channel, in labels, and how much of it lies inside the chunk.
    int64_t start
    int64_t extent[3]


cdef inline int64_t blocks_along(const seg_form *form, int axis) noexcept nogil:
    return (form.shape[axis] + form.block[axis] - 1) // form.block[axis]


cdef inline int64_t block_count(const seg_form *form) noexcept nogil:
    return blocks_along(form, 0) * blocks_along(form, 1) * blocks_along(form, 2)


cdef inline int64_t block_volume(const seg_form *form) noexcept nogil:
    return form.block[0] * form.block[1] * form.block[2]


cdef inline seg_block block_at(const seg_form *form, int64_t number) noexcept nogil:
    """Blocks are numbered with x fastest."""
    cdef seg_block found
    cdef int64_t start, stride = 1
    cdef int axis
    found.start = 0
    for axis in range(3):
        start = number % blocks_along(form, axis) * form.block[axis]
        number //= blocks_along(form, axis)
        found.extent[axis] = min(form.block[axis], form.shape[axis] - start)
        found.start += start * stride
        stride *= form.shape[axis]
    return found


cdef inline int64_t index_words(int64_t volume, int bits) noexcept nogil:
    """How many words the indices of a block take."""
    return (volume * bits + 31) // 32


cdef inline int bits_for(int64_t count) noexcept nogil:
    if count <= 1:
        return 0
    if count <= 2:
        return 1
    if count <= 4:
        return 2
    if count <= 16:
        return 4
    if count <= 256:
        return 8
    return 16 if count <= 65536 else 32


cdef inline label_t load_label(const uint8_t *p, label_t kind) noexcept nogil:
    if label_t is uint32_t:
        return load_u32(p)
    else:
        return load_u64(p)


cdef inline void store_label(uint8_t *p, label_t value) noexcept nogil:
    if label_t is uint32_t:
        store_u32(p, value)
    else:
        store_u64(p, value)
