"""Reads of single chunks from local shards, one after the other: what is the same every time is made once.

The ordinary way finds a shard's key, asks for its index, opens its file and plans a batch, each time anew, which takes
several times as long as reading a small chunk. Here a read is one look whether the file is still the same, one read of
the range and the decoding. Whatever is not as it was goes the ordinary way, which also says what is wrong.
"""

import weakref

cimport cython
from cpython.buffer cimport PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN
from zvcore.codecs.chain cimport CodecChain
from zvcore.codecs.running cimport Bytes, Stages, Wanted, decode_chain, exactly
from zvcore.engine.batches cimport Batch, run_batch
from zvcore.engine.failures cimport MEMORY_FAILURE, STALE_FAILURE
from zvcore.engine.form cimport FRAMED_EDGE, Block, Form, Target, aim, direct_target, fill_share, move_share
from zvcore.engine.selection cimport RANGE_AXIS, Axis, Selection
from zvcore.engine.slots cimport Slot, fail, fail_codec
from zvcore.kernels.blocks cimport ZV_MAX_NDIM
from zvcore.stores.files cimport OpenFile, read_at, stamp_object
from zvcore.system.files cimport file_stamp
from zvcore.system.scratch cimport reserve


cdef enum:
    MOST_SHARDS = 4096
    LARGEST_CHUNK = 8 << 20     # what takes longer is to be stopped by Ctrl-C, with all that belongs to it


@cython.final
cdef class OpenShard:
    """A shard as it was when a chunk was read from it. It keeps neither the file open nor the index in memory: those
    who bound their number do, and what they have let go of is not used any more.
    """
    cdef object file            # a weak reference to the OpenFile
    cdef object index           # a weak reference to what the columns below belong to
    cdef const uint64_t *offsets
    cdef const uint64_t *lengths
    cdef int64_t count
    cdef file_stamp stamp
    cdef bytes path


cdef struct Work:
    void *form
    void *selection
    const int64_t *position
    const char *path
    const file_stamp *stamp
    int descriptor
    uint64_t offset, length
    Target target


cdef bint is_unchanged(const char *path, const file_stamp *stamp) noexcept nogil:
    cdef file_stamp found
    return stamp_object(path, &found) == 0 and memcmp(&found, stamp, sizeof(file_stamp)) == 0


cdef int read_chunk(Batch *batch, Slot *slot, Work *work, Form form, Selection selection) noexcept nogil:
    """A failure says nothing more than that the ordinary way must be gone."""
    cdef Block block
    cdef uint8_t *direct
    cdef uint8_t *place
    cdef Bytes stored, decoded
    cdef Wanted wanted
    if not is_unchanged(work.path, work.stamp):
        return fail(slot, STALE_FAILURE, 0)
    if work.length == ZV_SIZE_UNKNOWN:
        fill_share(form, selection, work.position, &work.target)
        return 0
    if work.offset > work.stamp.size or work.length > work.stamp.size - work.offset:
        return fail(slot, STALE_FAILURE, 0)
    form.written_block(work.position, &block)
    direct = <uint8_t *> direct_target(form, selection, work.position, &block, &work.target)
    place = direct
    if direct == NULL or batch.chains[0].count or work.length != block.nbytes:
        place = reserve(&slot.stored, work.length)
        if place == NULL:
            return fail(slot, MEMORY_FAILURE, 0)
    if <uint64_t> read_at(work.descriptor, place, work.length, work.offset) != work.length:
        return fail(slot, STALE_FAILURE, 0)
    stored.data = place
    stored.size = work.length
    wanted = exactly(block.nbytes, direct)
    if decode_chain(&slot.runner, 0, stored, &wanted, &decoded) != 0:
        return fail_codec(slot, 0, 0)
    if decoded.data != direct:
        move_share(form, selection, work.position, <char *> decoded.data, &block, &work.target, True)
    return 0


cdef int run_work(Batch *batch, Slot *slot, int64_t item) noexcept nogil:
    cdef Work *work = <Work *> batch.plan
    return read_chunk(batch, slot, work, <Form> work.form, <Selection> work.selection)


@cython.final
cdef class OpenShards:
    """The shards of one array from which single chunks were read lately.

    `per_shard` is how many chunks lie along each axis of a shard, `strides` what a step along each axis adds to a
    chunk's place in the index, `grid` how many shards the array has along each axis.
    """
    cdef int ndim
    cdef int64_t per_shard[ZV_MAX_NDIM]
    cdef int64_t strides[ZV_MAX_NDIM]
    cdef int64_t grid[ZV_MAX_NDIM]
    cdef dict _shards

    def __cinit__(self, per_shard, strides, grid):
        cdef int axis
        self.ndim = len(per_shard)
        for axis in range(self.ndim):
            self.per_shard[axis] = per_shard[axis]
            self.strides[axis] = strides[axis]
            self.grid[axis] = grid[axis]
        self._shards = {}

    cdef object number_of(self, const int64_t *position, int64_t *slot):
        """The shard that holds a chunk as one number, and the chunk's place in its index."""
        cdef int axis
        cdef int64_t number = 0
        slot[0] = 0
        for axis in range(self.ndim):
            number = number * self.grid[axis] + position[axis] // self.per_shard[axis]
            slot[0] += position[axis] % self.per_shard[axis] * self.strides[axis]
        return number

    def note(self, positions, OpenFile file not None, index, bytes stamp not None):
        """Remember the shard that holds this one chunk: its open file, and its index with `offsets` and `lengths`."""
        cdef const int64_t[:, ::1] position = positions
        cdef const uint64_t[::1] offsets = index.offsets
        cdef const uint64_t[::1] lengths = index.lengths
        cdef OpenShard shard = OpenShard.__new__(OpenShard)
        cdef int64_t slot
        if len(stamp) != sizeof(file_stamp) or file.stamp() != stamp:
            return
        if position.shape[1] != self.ndim or len(lengths) != len(offsets) or len(offsets) == 0:
            return
        shard.file = weakref.ref(file)
        shard.index = weakref.ref(index)
        shard.offsets = &offsets[0]
        shard.lengths = &lengths[0]
        shard.count = len(offsets)
        memcpy(&shard.stamp, PyBytes_AS_STRING(stamp), sizeof(file_stamp))
        shard.path = file.path
        if len(self._shards) >= MOST_SHARDS:
            self._shards.clear()
        self._shards[self.number_of(&position[0, 0] if self.ndim else NULL, &slot)] = shard

    def read(self, Form form not None, Selection selection not None, CodecChain chain not None, out):
        """Whether the selection is part of one chunk that could be read into `out` in this way."""
        cdef int64_t position[ZV_MAX_NDIM]
        cdef int64_t slot
        cdef OpenShard shard
        cdef OpenFile file
        cdef Batch batch
        cdef Work work
        cdef Py_buffer view
        cdef Stages *stages = &chain.stages
        cdef int stage
        cdef bint done
        if selection.is_points or form.ndim != self.ndim or selection.ndim != self.ndim or form.edge == FRAMED_EDGE:
            return False
        if form.chunk_nbytes > LARGEST_CHUNK or not only_chunk(selection, form, position):
            return False
        number = self.number_of(position, &slot)
        found = self._shards.get(number)
        if found is None:
            return False
        shard = <OpenShard> found
        file = shard.file()
        index = shard.index()
        if file is None or index is None or slot >= shard.count:
            self._shards.pop(number, None)
            return False
        for stage in range(stages.count):
            if stages.stage[stage].table == NULL:
                return False
        target = out.view() if out.dtype.kind not in "mMV" else out.view(f"V{out.dtype.itemsize}")
        PyObject_GetBuffer(target, &view, PyBUF_STRIDES | PyBUF_WRITABLE)
        try:
            if view.itemsize != form.itemsize:
                return False
            aim(selection, <char *> view.buf, view.strides, &work.target)
            work.form = <void *> form
            work.selection = <void *> selection
            work.position = position
            work.path = PyBytes_AS_STRING(shard.path)
            work.stamp = &shard.stamp
            work.descriptor = file.descriptor
            work.offset = shard.offsets[slot]
            work.length = shard.lengths[slot]
            batch.run = run_work
            batch.plan = &work
            batch.items = 1
            batch.chains = &stages
            batch.chain_count = 1
            done = run_batch(&batch, 1, None)
        finally:
            PyBuffer_Release(&view)
        if not done:
            self._shards.pop(number, None)
        return done


cdef bint only_chunk(Selection selection, Form form, int64_t *position) noexcept:
    """Whether a selection touches one chunk only, and which."""
    cdef const Axis *axis
    cdef int i
    for i in range(selection.ndim):
        axis = &selection.axes[i]
        if axis.kind != RANGE_AXIS or axis.count == 0:
            return False
        position[i] = axis.start // form.chunk[i]
        if (axis.start + (axis.count - 1) * axis.step) // form.chunk[i] != position[i]:
            return False
    return True
