"""The functions of `zv_framing.h`, with which a format reads and writes the headers of its chunks."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t


cdef extern from "zv_framing.h" nogil:
    const char *ZV_FRAMING_CAPSULE

    cdef enum:
        ZV_FRAMING_MAX_NDIM

    ctypedef struct zv_frame:
        uint64_t header_size
        uint64_t shape[32]          # ZV_FRAMING_MAX_NDIM

    ctypedef struct zv_framing:
        uint32_t struct_size
        const void *cfg
        int32_t (*parse)(const void *cfg, const uint8_t *src, uint64_t n, int32_t ndim, zv_frame *frame,
                         char *message) noexcept nogil
        uint64_t (*header_bound)(const void *cfg, int32_t ndim) noexcept nogil
        uint64_t (*write)(const void *cfg, int32_t ndim, const uint64_t *shape, uint8_t *dst) noexcept nogil


cdef enum:
    MOST_HEADER = 1024              # the longest header that there is room for, in bytes


# The table in a capsule, checked and tried with a chunk of this shape.
cdef const zv_framing *framing_of(object capsule, int ndim, const Py_ssize_t *chunk) except NULL
