"""The CRC-32 of gzip, PNG and zip archives: by libdeflate where that was there at build time, which has it for the
instructions of each processor; else by tables.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t

cdef extern from "zv_crc32.h" nogil:
    void zv_crc32_begin()
    uint32_t zv_crc32(uint32_t value, const uint8_t *data, size_t n)

cdef enum:
    # From this size on the work outweighs releasing the GIL and waiting to get it back.
    WITHOUT_GIL = 1 << 16


zv_crc32_begin()


cdef uint32_t crc32_of(const uint8_t *data, size_t n) noexcept nogil:
    return zv_crc32(0, data, n)


def crc32(data, uint32_t value=0):
    """The CRC-32 of a buffer; `value` is the checksum of the bytes that come before it, 0 if there are none."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    if view.len >= WITHOUT_GIL:
        with nogil:
            value = zv_crc32(value, <const uint8_t *> view.buf, view.len)
    elif view.len:
        value = zv_crc32(value, <const uint8_t *> view.buf, view.len)
    PyBuffer_Release(&view)
    return value
