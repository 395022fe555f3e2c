"""The header of an N5 block: mode, number of dimensions, dimensions from the fastest on, all big endian."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free

from zvcore.engine.form cimport ZV_FRAMING_CAPSULE, zv_frame, zv_framing


cdef inline uint32_t load16(const uint8_t *at) noexcept nogil:
    return (<uint32_t> at[0] << 8) | at[1]


cdef inline uint32_t load32(const uint8_t *at) noexcept nogil:
    return (<uint32_t> at[0] << 24) | (<uint32_t> at[1] << 16) | (<uint32_t> at[2] << 8) | at[3]


cdef inline void store32(uint8_t *at, uint32_t value) noexcept nogil:
    at[0] = <uint8_t> (value >> 24)
    at[1] = <uint8_t> (value >> 16)
    at[2] = <uint8_t> (value >> 8)
    at[3] = <uint8_t> value


cdef int32_t parse(const void *cfg, const uint8_t *src, uint64_t n, int32_t ndim, zv_frame *frame,
                   char *message) noexcept nogil:
    cdef uint32_t mode, rank, elements
    cdef uint64_t product = 1
    cdef int32_t axis
    if n < 4:
        snprintf(message, 248, b"the block header is cut short: expected at least 4 bytes, found %llu",
                 <unsigned long long> n)
        return -1
    mode = load16(src)
    rank = load16(src + 2)
    if mode == 2:
        snprintf(message, 248, b"the block is in object mode: read it with read_block")
        return -1
    if mode > 2:
        snprintf(message, 248, b"unknown block mode at byte 0: expected 0, 1 or 2, found %u", mode)
        return -1
    if rank != <uint32_t> ndim:
        snprintf(message, 248, b"the block has another number of dimensions (byte 2): expected %d, found %u", ndim, rank)
        return -1
    frame.header_size = 4 + 4 * <uint64_t> rank + (4 if mode == 1 else 0)
    if n < frame.header_size:
        snprintf(message, 248, b"the block header is cut short: expected %llu bytes, found %llu",
                 <unsigned long long> frame.header_size, <unsigned long long> n)
        return -1
    for axis in range(ndim):
        frame.shape[axis] = load32(src + 4 + 4 * axis)
        # A product beyond 64 bits stays large; the caller bounds it.
        if frame.shape[axis] and product > (<uint64_t> 1 << 62) // frame.shape[axis]:
            product = <uint64_t> 1 << 62
        else:
            product *= frame.shape[axis]
    if mode == 1:
        elements = load32(src + 4 + 4 * ndim)
        if elements != product:
            snprintf(message, 248, b"a block of variable length (%u elements for %llu places): read it with read_block",
                     elements, <unsigned long long> product)
            return -1
    return 0


cdef uint64_t header_bound(const void *cfg, int32_t ndim) noexcept nogil:
    return 4 + 4 * <uint64_t> ndim


cdef uint64_t write(const void *cfg, int32_t ndim, const uint64_t *shape, uint8_t *dst) noexcept nogil:
    cdef int32_t axis
    dst[0] = 0
    dst[1] = 0
    dst[2] = <uint8_t> (ndim >> 8)
    dst[3] = <uint8_t> ndim
    for axis in range(ndim):
        store32(dst + 4 + 4 * axis, <uint32_t> shape[axis])
    return header_bound(cfg, ndim)


cdef void free_table(object capsule) noexcept:
    free(PyCapsule_GetPointer(capsule, ZV_FRAMING_CAPSULE))


def framing():
    """The capsule through which the engine reads and writes block headers."""
    cdef zv_framing *table = <zv_framing *> calloc(1, sizeof(zv_framing))
    if table == NULL:
        raise MemoryError
    table.struct_size = sizeof(zv_framing)
    table.parse = parse
    table.header_bound = header_bound
    table.write = write
    return PyCapsule_New(table, ZV_FRAMING_CAPSULE, free_table)
