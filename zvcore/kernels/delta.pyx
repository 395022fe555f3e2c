"""Minishard indices: which ids there are and where the bytes of each lie, delta-coded as three rows of uint64.

Ids need not rise and ranges need not follow one another: differences wrap around at 2**64, and ranges may overlap,
share bytes or be empty. Only a range that would reach 2**64 is refused here, since no object can hold it. The caller,
who knows the object's size, checks that a range lies within it.
"""

cimport numpy as cnp
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t

import numpy as np

from zvcore.errors import CorruptDataError

from zvcore.kernels.arguments cimport uint64_row

cnp.import_array()


cdef extern from "zv_delta.h" nogil:
    size_t zv_delta_decode(const uint8_t *stored, size_t count, uint64_t *ids, uint64_t *offsets, uint64_t *sizes)
    size_t zv_delta_encode(const uint64_t *ids, const uint64_t *offsets, const uint64_t *sizes, size_t count,
                           uint8_t *stored)


cdef size_t decode_ranges(const uint8_t *stored, size_t count, uint64_t *ids, uint64_t *offsets,
                          uint64_t *sizes) noexcept nogil:
    return zv_delta_decode(stored, count, ids, offsets, sizes)


cdef size_t encode_ranges(const uint64_t *ids, const uint64_t *offsets, const uint64_t *sizes, size_t count,
                          uint8_t *stored) noexcept nogil:
    return zv_delta_encode(ids, offsets, sizes, count, stored)


def decode_minishard_index(raw):
    """The (ids, offsets, sizes) of a decoded minishard index, each uint64[n], in stored order.

    Offsets are absolute, counted from the end of the shard index.
    """
    cdef Py_buffer view
    cdef size_t count, done
    cdef uint64_t *rows
    if not PyObject_CheckBuffer(raw):
        raise TypeError(f"a minishard index must be a bytes-like object, not {type(raw).__name__}")
    try:
        PyObject_GetBuffer(raw, &view, PyBUF_SIMPLE)
    except (BufferError, ValueError) as error:
        raise ValueError("a minishard index must lie in one piece in C order; copy the data first") from error
    try:
        if view.len % 24:
            raise CorruptDataError("a minishard index of n entries has 24 * n bytes", expected="a multiple of 24",
                                   found=view.len)
        count = view.len // 24
        table = np.empty((3, count), np.uint64)
        rows = <uint64_t *> cnp.PyArray_DATA(table)
        with nogil:
            done = zv_delta_decode(<const uint8_t *> view.buf, count, rows, rows + count, rows + 2 * count)
    finally:
        PyBuffer_Release(&view)
    ids, offsets, sizes = table
    if done < count:
        raise CorruptDataError(f"entry {done} of a minishard index reaches 2**64", chunk=int(ids[done]),
                               expected=f"at most {2**64 - 1 - int(offsets[done])} bytes from {offsets[done]} on",
                               found=int(sizes[done]))
    return ids, offsets, sizes


def encode_minishard_index(ids, offsets, sizes):
    """The bytes that `decode_minishard_index` turns back into these ids, absolute offsets and sizes."""
    cdef cnp.ndarray id_row = uint64_row(ids, "ids")
    cdef cnp.ndarray offset_row = uint64_row(offsets, "offsets")
    cdef cnp.ndarray size_row = uint64_row(sizes, "sizes")
    cdef size_t count = id_row.shape[0]
    cdef size_t done
    cdef uint8_t *stored
    if <size_t> offset_row.shape[0] != count or <size_t> size_row.shape[0] != count:
        raise ValueError(f"ids, offsets and sizes must be equally many, not {count}, {offset_row.shape[0]} and "
                         f"{size_row.shape[0]}")
    raw = PyBytes_FromStringAndSize(NULL, 24 * count)
    stored = <uint8_t *> PyBytes_AS_STRING(raw)
    with nogil:
        done = zv_delta_encode(<const uint64_t *> cnp.PyArray_DATA(id_row),
                               <const uint64_t *> cnp.PyArray_DATA(offset_row),
                               <const uint64_t *> cnp.PyArray_DATA(size_row), count, stored)
    if done < count:
        raise ValueError(f"entry {done}: {size_row[done]} bytes from {offset_row[done]} on reach 2**64")
    return raw
