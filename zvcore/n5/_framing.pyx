"""The header of an N5 block: mode, number of dimensions, dimensions from the fastest on, all big endian."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free

from zvcore.engine.framing cimport ZV_FRAMING_CAPSULE, zv_frame, zv_framing

from zvcore.errors import CorruptDataError

cdef enum:
    DEFAULT = 0
    VARLENGTH = 1
    OBJECT = 2
    MAX_NDIM = 32
    MESSAGE = 248


cdef inline uint32_t load16(const uint8_t *at) noexcept nogil:
    return (<uint32_t> at[0] << 8) | at[1]


cdef inline uint32_t load32(const uint8_t *at) noexcept nogil:
    return (<uint32_t> at[0] << 24) | (<uint32_t> at[1] << 16) | (<uint32_t> at[2] << 8) | at[3]


cdef inline void store32(uint8_t *at, uint32_t value) noexcept nogil:
    at[0] = <uint8_t> (value >> 24)
    at[1] = <uint8_t> (value >> 16)
    at[2] = <uint8_t> (value >> 8)
    at[3] = <uint8_t> value


cdef int32_t cut_short(uint64_t expected, uint64_t found, zv_frame *frame, char *message) noexcept nogil:
    snprintf(message, MESSAGE, b"the block header is cut short: expected at least %llu bytes, found %llu",
             <unsigned long long> expected, <unsigned long long> found)
    frame.header_size = found
    return -1


cdef int32_t read_header(const uint8_t *src, uint64_t n, int32_t ndim, bint reverse, uint32_t *mode, uint32_t *elements,
                         zv_frame *frame, char *message) noexcept nogil:
    """All modes. A block in object mode has neither dimensions nor values to count: only a number of bytes."""
    cdef uint32_t rank
    cdef int32_t axis
    frame.header_size = 0
    elements[0] = 0
    if n < 4:
        return cut_short(4, n, frame, message)
    mode[0] = load16(src)
    if mode[0] > OBJECT:
        snprintf(message, MESSAGE, b"unknown block mode: expected 0, 1 or 2, found %u", mode[0])
        return -1
    if mode[0] == OBJECT:
        if n < 6:
            return cut_short(6, n, frame, message)
        elements[0] = load32(src + 2)
        frame.header_size = 6
        return 0
    rank = load16(src + 2)
    if rank != <uint32_t> ndim:
        snprintf(message, MESSAGE, b"the block has another number of dimensions: expected %d, found %u", ndim, rank)
        frame.header_size = 2
        return -1
    frame.header_size = 4 + 4 * <uint64_t> rank + (4 if mode[0] == VARLENGTH else 0)
    if n < frame.header_size:
        return cut_short(frame.header_size, n, frame, message)
    for axis in range(ndim):
        frame.shape[ndim - 1 - axis if reverse else axis] = load32(src + 4 + 4 * axis)
    if mode[0] == VARLENGTH:
        elements[0] = load32(src + 4 + 4 * ndim)
    return 0


cdef inline bint is_reverse(const void *cfg) noexcept nogil:
    return <size_t> cfg & 1


cdef inline int32_t outer_of(const void *cfg) noexcept nogil:
    return <int32_t> (<size_t> cfg >> 1)


cdef int32_t parse(const void *cfg, const uint8_t *src, uint64_t n, int32_t ndim, zv_frame *frame,
                   char *message) noexcept nogil:
    cdef uint32_t mode, elements
    cdef uint64_t product = 1
    cdef int32_t axis
    cdef int32_t outer = outer_of(cfg), rank = ndim - outer_of(cfg), at = outer_of(cfg) if is_reverse(cfg) else 0
    if rank < 0:
        snprintf(message, MESSAGE, b"blocks of %d axes cannot lie in an array of %d", outer, ndim)
        return -1
    if read_header(src, n, rank, is_reverse(cfg), &mode, &elements, frame, message) != 0:
        return -1
    if outer:
        # The axes that the header does not know stand before the others where these are reversed, else behind them.
        for axis in range(rank - 1, -1, -1):
            frame.shape[at + axis] = frame.shape[axis]
        for axis in range(outer):
            frame.shape[axis if at else rank + axis] = 1
    if mode == OBJECT:
        snprintf(message, MESSAGE, b"the block is in object mode, its bytes are no array: read it with read_block")
        frame.header_size = 0
        return -1
    if mode == VARLENGTH:
        for axis in range(ndim):
            # A product beyond 32 bits equals no number of elements.
            product = min(product * frame.shape[axis], <uint64_t> 1 << 32)
            if frame.shape[axis] == 0:
                product = 0
                break
        if elements != product:
            snprintf(message, MESSAGE, b"the block has variable length, %u elements for %llu places: "
                     b"read it with read_block", elements, <unsigned long long> product)
            frame.header_size = 0
            return -1
    return 0


cdef uint64_t header_bound(const void *cfg, int32_t ndim) noexcept nogil:
    return 4 + 4 * <uint64_t> (ndim - outer_of(cfg))


cdef uint64_t write(const void *cfg, int32_t ndim, const uint64_t *shape, uint8_t *dst) noexcept nogil:
    cdef int32_t axis, rank = ndim - outer_of(cfg), at = outer_of(cfg) if is_reverse(cfg) else 0
    dst[0] = 0
    dst[1] = DEFAULT
    dst[2] = <uint8_t> (rank >> 8)
    dst[3] = <uint8_t> rank
    for axis in range(rank):
        store32(dst + 4 + 4 * axis, <uint32_t> shape[at + (rank - 1 - axis if is_reverse(cfg) else axis)])
    return header_bound(cfg, ndim)


cdef void free_table(object capsule) noexcept:
    free(PyCapsule_GetPointer(capsule, ZV_FRAMING_CAPSULE))


def framing(bint reverse=False, int outer=0):
    """The capsule through which the engine reads and writes block headers.

    With `reverse`, for arrays whose axes stand the other way round than the header has them. `outer` is how many axes
    an array has that the header does not know, along each of which a block has a length of 1: the first of an array
    that stands the other way round, else the last.
    """
    if not 0 <= outer <= MAX_NDIM:
        raise ValueError(f"blocks have at most {MAX_NDIM} axes, not {outer} more")
    cdef zv_framing *table = <zv_framing *> calloc(1, sizeof(zv_framing))
    if table == NULL:
        raise MemoryError
    table.struct_size = sizeof(zv_framing)
    table.cfg = <const void *> (<size_t> outer << 1 | reverse)
    table.parse = parse
    table.header_bound = header_bound
    table.write = write
    return PyCapsule_New(table, ZV_FRAMING_CAPSULE, free_table)


def parse_header(data, int ndim):
    """(mode, dimensions in N5's order, number of elements or bytes in modes 1 and 2, size of the header)."""
    cdef Py_buffer view
    cdef zv_frame frame
    cdef char message[MESSAGE]
    cdef uint32_t mode = 0, elements = 0
    cdef int32_t status
    cdef int axis
    if not 0 <= ndim <= MAX_NDIM:
        raise ValueError(f"blocks have 0 to {MAX_NDIM} dimensions, not {ndim}")
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        status = read_header(<const uint8_t *> view.buf, view.len, ndim, False, &mode, &elements, &frame, message)
    finally:
        PyBuffer_Release(&view)
    if status != 0:
        raise CorruptDataError((<bytes> message).decode(errors="replace"), offset=frame.header_size)
    return (
        mode,
        () if mode == OBJECT else tuple([frame.shape[axis] for axis in range(ndim)]),
        None if mode == DEFAULT else elements,
        frame.header_size,
    )
