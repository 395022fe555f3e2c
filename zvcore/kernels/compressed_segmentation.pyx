"""Labels packed block by block: each block holds the table of its labels and, per voxel, an index into it.

A buffer starts with one word (32 bits, little-endian) per channel that says where the channel starts, counted in words.
A channel starts with two words per block, x fastest: where its table lies (24 bits) and how many bits an index takes
(0, 1, 2, 4, 8, 16 or 32), then where its indices lie; both counted in words from the channel's start. Indices fill
whole blocks, including those that extend beyond the array's end. Tables may be shared by blocks.

This module has the form of a chunk and what Python calls; compressed_segmentation_decode.pyx and
compressed_segmentation_encode.pyx do the work.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

from zvcore.errors import CorruptDataError, UnsupportedError
from zvcore.kernels.compressed_segmentation_decode cimport seg_decode
from zvcore.kernels.compressed_segmentation_encode cimport seg_encode

cdef int64_t MAX_EXTENT = 1 << 40
cdef int64_t MAX_BLOCK = 1 << 20


cdef bint seg_form_is_sane(const seg_form *form) noexcept nogil:
    cdef int axis
    cdef double padded = <double>form.channels * 16
    cdef double block = 1
    if form.itemsize != 4 and form.itemsize != 8:
        return False
    if form.channels < 1:
        return False
    for axis in range(3):
        if (form.shape[axis] < 1 or form.block[axis] < 1
                or form.shape[axis] > MAX_EXTENT or form.block[axis] > MAX_BLOCK):
            return False
        padded *= <double>form.shape[axis] + <double>form.block[axis]
        block *= <double>form.block[axis]
    return padded < 4.0e18 and block < 268435456.0


cdef uint64_t seg_decoded_size(const seg_form *form) noexcept nogil:
    return <uint64_t>(form.shape[0] * form.shape[1] * form.shape[2] * form.channels * form.itemsize)


cdef uint64_t seg_bound(const seg_form *form) noexcept nogil:
    cdef int64_t volume = form.block[0] * form.block[1] * form.block[2]
    # A table holds each label of its block once, so clipped blocks do not need more room than there are voxels.
    cdef int64_t tables = form.shape[0] * form.shape[1] * form.shape[2] * form.itemsize
    cdef int64_t blocks = block_count(form)
    return <uint64_t>(form.channels * (4 + tables + blocks * (8 + 4 * index_words(volume, bits_for(volume)))))


cdef int read_form(seg_form *form, shape, block, itemsize) except -1:
    """A form from Python values, or a ValueError."""
    cdef int axis
    if len(shape) != 4 or len(block) != 3:
        raise ValueError(f"a chunk has a shape (x, y, z, channels) and blocks (x, y, z), not {shape} and {block}")
    for axis in range(3):
        if not 0 < shape[axis] <= MAX_EXTENT or not 0 < block[axis] <= MAX_BLOCK:
            raise ValueError(f"chunks of shape {shape} cannot be packed in blocks of {block}")
        form.shape[axis] = shape[axis]
        form.block[axis] = block[axis]
    if not 0 < shape[3] <= MAX_BLOCK or itemsize not in (4, 8):
        raise ValueError(f"{shape[3]} channels of {itemsize} bytes a label cannot be packed")
    form.channels = shape[3]
    form.itemsize = itemsize
    if not seg_form_is_sane(form):
        raise ValueError(f"chunks of shape {shape} cannot be packed in blocks of {block}: too large")
    return 0


def decode_compressed_segmentation(const uint8_t[::1] data not None, shape, block, dtype):
    """The labels of a chunk: an array [x, y, z, channel] in Fortran order."""
    cdef seg_form form
    cdef seg_fault fault
    cdef int status
    cdef uint8_t[::1] view
    cdef uint64_t n = data.shape[0]
    kind = np.dtype(dtype).newbyteorder("<")
    if kind.kind not in "ui":
        raise ValueError(f"labels are uint32 or uint64, not {kind}")
    read_form(&form, tuple(shape), tuple(block), kind.itemsize)
    # Before memory is taken: every block has a header.
    if n < 4 * <uint64_t>form.channels or n < 8 * <uint64_t>block_count(&form):
        raise CorruptDataError("compressed segmentation: shorter than its headers", found=int(n))
    out = np.empty(tuple(shape), kind, order="F")
    view = out.reshape(-1, order="F").view(np.uint8)
    with nogil:
        status = seg_decode(&form, &data[0], n, &view[0], &fault)
    if status != SEG_OK:
        raise CorruptDataError(
            f"compressed segmentation: {fault.what.decode()}",
            chunk=f"channel {fault.channel} block {fault.block}",
            expected=f"at most {fault.limit}",
            found=int(fault.found),
        )
    return out.astype(kind.newbyteorder("="), copy=False)


def encode_compressed_segmentation(values, block):
    """Pack an array of labels [x, y, z, channel]."""
    cdef seg_form form
    cdef seg_fault fault
    cdef int status
    cdef const uint8_t[::1] source
    cdef uint8_t *buffer
    cdef uint64_t cap, size = 0
    array = np.asarray(values)
    if array.dtype.kind not in "ui":
        raise ValueError(f"labels are uint32 or uint64, not {array.dtype}")
    array = np.asfortranarray(array, array.dtype.newbyteorder("<"))
    read_form(&form, array.shape, tuple(block), array.dtype.itemsize)
    source = array.reshape(-1, order="F").view(np.uint8)
    cap = seg_bound(&form)
    buffer = <uint8_t *>malloc(cap)
    if buffer == NULL:
        raise MemoryError
    try:
        with nogil:
            status = seg_encode(&form, &source[0], buffer, cap, &size, &fault)
        if status == SEG_TOO_LARGE:
            raise UnsupportedError(
                f"compressed segmentation: {fault.what.decode()}",
                chunk=f"channel {fault.channel} block {fault.block}",
                expected=f"at most {fault.limit}",
                found=int(fault.found),
            )
        if status != SEG_OK:
            raise MemoryError
        return buffer[:size]
    finally:
        free(buffer)
