"""MD5 of several buffers at once, side by side in the lanes of the processor's vectors.

Object stores tell the MD5 of what they have: it is what copies are compared by, and is no protection against anybody.
"""

from cpython.buffer cimport Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

import hashlib

from zvcore.kernels.cpu cimport features
from zvcore.system.gil cimport let_go, take_back

cdef enum:
    # One message after the other is as quick as the lanes if the longest is no smaller a part of all.
    ONE_PART_OF = 3


cdef extern from "zv_md5.h" nogil:
    ctypedef struct zv_md5_message:
        const uint8_t *data
        size_t size

    void zv_md5_all(uint32_t features, const zv_md5_message *messages, size_t count, uint8_t (*digests)[16])


def md5_each(buffers):
    """The MD5 of each of these buffers, in hexadecimal digits. A buffer is anything whose bytes lie in one piece."""
    cdef list given = [memoryview(one) for one in buffers], sizes = [one.nbytes for one in given]
    if sum(sizes) < ONE_PART_OF * max(sizes, default=0):
        return [hashlib.md5(one, usedforsecurity=False).hexdigest() for one in given]
    cdef list found = [""] * len(given)
    # The longest first: it shall not be the one that the lanes end with.
    cdef list order = sorted(range(len(given)), key=sizes.__getitem__, reverse=True)
    digests = _in_lanes([given[place] for place in order])
    for number, place in enumerate(order):
        found[place] = digests[16 * number : 16 * number + 16].hex()
    return found


cdef bytearray _in_lanes(list given):
    cdef Py_ssize_t count = len(given), held = 0, total = 0, i
    cdef Py_buffer *views = <Py_buffer *> PyMem_Malloc(max(1, count) * sizeof(Py_buffer))
    cdef zv_md5_message *messages = <zv_md5_message *> PyMem_Malloc(max(1, count) * sizeof(zv_md5_message))
    cdef bytearray digests = bytearray(16 * count)
    try:
        if views == NULL or messages == NULL:
            raise MemoryError()
        for i in range(count):
            PyObject_GetBuffer(given[i], &views[i], PyBUF_SIMPLE)
            held += 1
            messages[i].data = <const uint8_t *> views[i].buf
            messages[i].size = views[i].len
            total += views[i].len
        python = let_go(total)
        zv_md5_all(features, messages, count, <uint8_t (*)[16]> <uint8_t *> digests)
        take_back(python)
    finally:
        for i in range(held):
            PyBuffer_Release(&views[i])
        PyMem_Free(views)
        PyMem_Free(messages)
    return digests
