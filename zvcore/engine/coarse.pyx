"""Reading coarser: chunks that are made smaller one by one as they are decoded, so that nobody has all their values."""

import numpy as np

cimport cython
from cpython.buffer cimport PyBuffer_Release
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memset

from zvcore.codecs.running cimport Bytes
from zvcore.engine.chunks cimport Chunks, position_of
from zvcore.engine.decoding cimport decode_ahead, decode_block, gains_by_two, stored_limit
from zvcore.engine.form cimport Block, Form
from zvcore.engine.moving cimport hold
from zvcore.engine.read cimport Receiver, read_into
from zvcore.engine.slots cimport Slot, fail_memory
from zvcore.engine.work cimport SMALL_TO_DECODE, Work, is_small
from zvcore.kernels.blocks cimport ZV_MAX_NDIM, copy_block, fill_block
from zvcore.kernels.coarse_boxes cimport MOST_VOXELS, Boxes
from zvcore.kernels.downsample cimport coarsen, set_kind
from zvcore.system.scratch cimport reserve


cdef enum:
    VOLUME = 3              # axes of what the kernel makes smaller, the fastest ones

AXES = VOLUME


@cython.final
cdef class IntoCoarse(Receiver):
    """Each chunk is decoded, and what is made of its boxes goes to its place among the coarser values."""

    cdef Boxes boxes                        # but for what depends on the chunk
    cdef Py_buffer view
    cdef bint held
    cdef Py_ssize_t factors[ZV_MAX_NDIM]    # along each axis of the array
    cdef int64_t first[ZV_MAX_NDIM]         # where the coarser values begin

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef bint in_twos(self) noexcept nogil:
        return gains_by_two(self.chunks)

    cdef void expect(self, Slot *slot, const int64_t *two, const Bytes *stored) noexcept nogil:
        decode_ahead(slot, self.chunks, two, stored)

    cdef int receive(self, Slot *slot, int64_t chunk, Bytes stored) noexcept nogil:
        return self.take(slot, self.chunks.form, chunk, stored)

    cdef int take(self, Slot *slot, Form form, int64_t chunk, Bytes stored) noexcept nogil:
        cdef const int64_t *position = position_of(self.chunks, chunk)
        cdef const uint8_t *values = NULL
        cdef uint64_t[ZV_MAX_NDIM] seen
        cdef Block block, visible
        cdef int axis
        cdef bint as_seen = form.swap_unit == 0
        for axis in range(form.ndim):
            seen[axis] = min(<int64_t> form.chunk[axis], form.bounds[axis] - position[axis] * form.chunk[axis])
        form.lay_out(seen, &visible)
        if stored.data == NULL and not self.boxes.real:
            # The mean of what is the same everywhere is the same, and so is the most frequent value.
            self.fill(form, position, &visible)
            return 0
        if stored.data != NULL:
            form.written_block(position, &block)
            if decode_block(slot, self.chunks, chunk, stored, NULL, 0, &block, &values) != 0:
                return -1
            for axis in range(form.ndim):
                as_seen = as_seen and block.shape[axis] >= visible.shape[axis]
        if values == NULL or not as_seen or <uint64_t> values % <uint64_t> form.itemsize:
            values = self.put_right(slot, form, values, &block, &visible)
            if values == NULL:
                return fail_memory(slot, chunk, visible.nbytes)
            block = visible
        return self.make(slot, form, chunk, <const char *> values, &block, &visible)

    cdef void fill(self, Form form, const int64_t *position, const Block *visible) noexcept nogil:
        cdef Py_ssize_t[ZV_MAX_NDIM] shape
        cdef int axis
        for axis in range(form.ndim):
            shape[axis] = count_of(visible.shape[axis], self.factors[axis])
        fill_block(self.place_in(form, position), self.view.strides, shape, form.ndim, form.itemsize, form.fill)

    cdef char *place_in(self, Form form, const int64_t *position) noexcept nogil:
        """Where the coarser values of a chunk begin."""
        cdef char *found = <char *> self.view.buf
        cdef int axis
        for axis in range(form.ndim):
            found += (position[axis] * form.chunk[axis] // self.factors[axis] - self.first[axis]) \
                * self.view.strides[axis]
        return found

    cdef uint8_t *put_right(self, Slot *slot, Form form, const uint8_t *values, const Block *block,
                            const Block *visible) noexcept nogil:
        """What is seen of a chunk in native byte order, with the fill value for what is not stored of it."""
        cdef Py_ssize_t[ZV_MAX_NDIM] shape
        cdef uint8_t *into = reserve(&slot.cell, max(visible.nbytes, 1))
        cdef int axis
        cdef bint all_of_it = values != NULL
        if into == NULL:
            return NULL
        for axis in range(form.ndim):
            shape[axis] = visible.shape[axis] if values == NULL else min(block.shape[axis], visible.shape[axis])
            all_of_it = all_of_it and shape[axis] == visible.shape[axis]
        if not all_of_it:
            fill_block(<char *> into, visible.strides, visible.shape, form.ndim, form.itemsize, form.fill)
        if values != NULL:
            copy_block(<char *> into, visible.strides, <const char *> values, block.strides, shape, form.ndim,
                       form.itemsize, form.swap_unit)
        return into

    cdef int make(self, Slot *slot, Form form, int64_t chunk, const char *values, const Block *block,
                  const Block *visible) noexcept nogil:
        """Volume by volume, as they lie in memory."""
        cdef Boxes boxes = self.boxes
        cdef Py_ssize_t[VOLUME] steps, out_steps
        cdef Py_ssize_t[ZV_MAX_NDIM] at
        cdef int i, axis, lead = form.ndim - VOLUME
        cdef char *out = self.place_in(form, position_of(self.chunks, chunk))
        for i in range(VOLUME):
            boxes.shape[i] = boxes.factors[i] = 1
            steps[i] = out_steps[i] = 0
            if lead + i >= 0:
                axis = form.order[lead + i]
                boxes.shape[i], boxes.factors[i] = visible.shape[axis], self.factors[axis]
                steps[i], out_steps[i] = block.strides[axis], self.view.strides[axis]
            boxes.outputs[i] = count_of(boxes.shape[i], boxes.factors[i])
        boxes.lanes = 1
        boxes.plane, boxes.line = steps[0], steps[1]
        boxes.out_plane, boxes.out_line = out_steps[0], out_steps[1]
        memset(at, 0, sizeof(at))
        while True:
            if coarsen(&boxes, values, out) != 0:
                return fail_memory(slot, chunk, boxes.outputs[2] * 16)
            for i in range(lead - 1, -1, -1):
                axis = form.order[i]
                at[i] += 1
                values += block.strides[axis]
                out += self.view.strides[axis]
                if at[i] < visible.shape[axis]:
                    break
                values -= at[i] * block.strides[axis]
                out -= at[i] * self.view.strides[axis]
                at[i] = 0
            else:
                return 0


cdef inline Py_ssize_t count_of(Py_ssize_t length, Py_ssize_t factor) noexcept nogil:
    return (length + factor - 1) // factor


cdef int aim(IntoCoarse receiver, Chunks chunks, out, first, factors) except -1:
    """Note where the values go, and see to it that no chunk leaves them."""
    cdef Form form = chunks.form
    cdef int axis
    shape = np.array([form.chunk[axis] for axis in range(form.ndim)], np.int64)
    bounds = np.array([form.bounds[axis] for axis in range(form.ndim)], np.int64)
    steps, begin = np.array(factors, np.int64), np.array(first, np.int64)
    if not len(steps) == len(begin) == out.ndim == form.ndim:
        raise ValueError("factors, begin and values are of another rank than the array")
    if (steps < 1).any() or (steps[[form.order[axis] for axis in range(form.ndim - VOLUME)]] != 1).any():
        raise ValueError("values are made coarser along the three fastest axes, by 1 at least")
    if int(np.prod(steps, dtype=object)) > MOST_VOXELS:
        raise ValueError(f"boxes of at most {MOST_VOXELS} voxels")
    corners = np.asarray(chunks.positions, np.int64).reshape(chunks.count, form.ndim) * shape
    if (corners % steps).any() or (corners < 0).any() or (corners >= bounds).any():
        raise ValueError("chunks cut boxes, or lie outside of the array")
    ends = -(-np.minimum(corners + shape, bounds) // steps)
    if (corners // steps < begin).any() or (ends > begin + np.array(out.shape, np.int64)).any():
        raise ValueError("chunks lie outside of the values")
    hold(out, True, form.itemsize, &receiver.view)
    receiver.held = True
    if form.ndim and receiver.view.strides[form.order[form.ndim - 1]] != form.itemsize:
        raise ValueError("the values lie in another order than those of the chunks")
    for axis in range(form.ndim):
        receiver.factors[axis], receiver.first[axis] = steps[axis], begin[axis]
    return 0


def makes(dtype, bint modes):
    """Whether `read_coarser` makes means, or most frequent values, of this type."""
    cdef Boxes boxes
    # True may be any byte but 0, of which the most frequent would be another.
    return bool(dtype.isnative and dtype.kind != "b"
                and set_kind(&boxes, ord(dtype.kind), dtype.itemsize, modes) == 0)


def read_coarser(Chunks chunks not None, out, first, factors, bint modes, Work work not None):
    """Read what becomes of these chunks by `factors` along each axis into `out`, the coarser values from `first` on, in
    native byte order: the mean of each box, or with `modes` its most frequent value.

    No box lies in two chunks. Values are made coarser along the three axes that are the fastest in the chunks' memory,
    the very fastest of which is that of `out` too.
    """
    cdef IntoCoarse receiver = IntoCoarse.__new__(IntoCoarse)
    cdef uint64_t nbytes = chunks.form.chunk_nbytes
    cdef int threads = 1
    if not makes(out.dtype, modes):
        raise TypeError(f"nothing coarser is made of {out.dtype}")
    set_kind(&receiver.boxes, ord(out.dtype.kind), out.dtype.itemsize, modes)
    aim(receiver, chunks, out, first, factors)
    if chunks.count == 0 or out.size == 0:
        return
    receiver.most = receiver.most_of_two = stored_limit(nbytes)
    if not is_small(chunks.count, nbytes, SMALL_TO_DECODE):
        # As they are stored, decoded, and put right; and two of them where that is quicker.
        threads = work.threads_for((6 if gains_by_two(chunks) else 3) * nbytes)
    read_into(receiver, chunks, threads, work)
