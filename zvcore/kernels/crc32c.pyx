"""The CRC-32C (Castagnoli) checksum of RFC 3720, by the fastest instructions that this machine has."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

from zvcore.kernels.cpu cimport features


cdef extern from "zv_crc32c.h" nogil:
    void zv_crc32c_prepare()
    uint32_t zv_crc32c(uint32_t features, uint32_t value, const uint8_t *data, size_t size)

cdef enum:
    # From this size on the work outweighs releasing the GIL and waiting to get it back.
    _WITHOUT_GIL = 1 << 16

zv_crc32c_prepare()


cdef uint32_t crc32c_of(const void *data, size_t size, uint32_t value) noexcept nogil:
    return zv_crc32c(features, value, <const uint8_t *> data, size)


def crc32c(data, value=0):
    """The CRC-32C of a buffer; `value` is the checksum of the bytes that come before it, 0 if there are none."""
    cdef Py_buffer view
    cdef uint32_t before = _checksum(value)
    cdef uint32_t result
    if PyBytes_CheckExact(data) and PyBytes_GET_SIZE(data) < _WITHOUT_GIL:
        return zv_crc32c(features, before, <const uint8_t *> PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    _view(data, &view)
    if view.len < _WITHOUT_GIL:
        result = zv_crc32c(features, before, <const uint8_t *> view.buf, view.len)
    else:
        with nogil:
            result = zv_crc32c(features, before, <const uint8_t *> view.buf, view.len)
    PyBuffer_Release(&view)
    return result


cdef uint32_t _checksum(value) except? 0:
    cdef int overflow
    cdef long long number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or not 0 <= number <= 0xFFFFFFFF:
        raise ValueError(f"value must be between 0 and 2**32 - 1, not {value}")
    return <uint32_t> number


cdef int _view(data, Py_buffer *view) except -1:
    if not PyObject_CheckBuffer(data):
        raise TypeError(f"crc32c needs a bytes-like object, not {type(data).__name__}")
    try:
        PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
    except (BufferError, ValueError) as error:
        raise ValueError("crc32c needs bytes that lie in one piece in C order; copy the data first") from error
    return 0
