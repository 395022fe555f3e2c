"""Reads of single chunks from local shards, one after the other: what is the same every time is made once.

The ordinary way finds a shard's key, asks for its index, opens its file and plans a batch, every time, which takes
several times as long as reading a small chunk. Here a read is one look whether the file is still the same, one read of
the range and the decoding. Whatever is not as it was goes the ordinary way, which also says what is wrong.

With a cache (`stores/chunk_cache.py`), what was decoded stays for the next read. It belongs to what is known of the
shard, which goes when the shard's file or index is another one.
"""

import weakref

cimport cython
from cpython.buffer cimport PyBuffer_Release
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN
from zvcore.codecs.parts cimport WORTH_SHARING
from zvcore.codecs.running cimport Bytes, Stages, Wanted, decode_chain, exactly
from zvcore.engine.batches cimport Task
from zvcore.engine.failures cimport MEMORY_FAILURE, STALE_FAILURE, Failure
from zvcore.engine.form cimport FRAMED_EDGE, Block, Form
from zvcore.engine.known_shards cimport ShardGrid
from zvcore.engine.load cimport begin_of
from zvcore.engine.moving cimport Place, Span, Target, aim, direct_target, fill_out, hold, move_out, span_of
from zvcore.engine.prepared cimport Prepared
from zvcore.engine.selection cimport RANGE_AXIS, Axis, Selection
from zvcore.engine.slots cimport Slot, fail, fail_codec, reserve_stored
from zvcore.engine.work cimport Work
from zvcore.kernels.blocks cimport ZV_MAX_NDIM
from zvcore.stores.files cimport OpenFile, read_at, stamp_object
from zvcore.system.atomics cimport zv_fetch_add
from zvcore.system.files cimport file_stamp


cdef enum:
    MOST_SHARDS = 4096
    LARGEST_CHUNK = 8 << 20     # what takes longer is to be stopped by Ctrl-C, with all that belongs to it


@cython.final
@cython.no_gc
cdef class DecodedChunk:
    """The values of a chunk as a codec chain has decoded them."""
    cdef uint8_t *data
    cdef readonly Py_ssize_t nbytes
    cdef public bint used

    def __dealloc__(self):
        free(self.data)


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
    cdef const char *where      # the same
    cdef dict decoded           # by the place in the index; what the cache keeps of them
    cdef int64_t noted


cdef bint is_unchanged(const char *path, const file_stamp *stamp) noexcept nogil:
    cdef file_stamp found
    return stamp_object(path, &found) == 0 and memcmp(&found, stamp, sizeof(file_stamp)) == 0


cdef bint is_same(OpenShard known, OpenShard shard):
    """Whether what was decoded of one is what the other holds."""
    index = known.index()
    return index is not None and index is shard.index() and memcmp(&known.stamp, &shard.stamp, sizeof(file_stamp)) == 0


@cython.final
@cython.no_gc
cdef class ChunkRead(Task):
    """One chunk, from an open file into the values of a selection."""

    cdef Form form
    cdef Selection selection
    cdef Place place
    cdef OpenShard shard
    cdef OpenFile file
    cdef uint64_t offset, length
    cdef Target target
    cdef DecodedChunk known     # what the cache has, or None
    cdef DecodedChunk new       # where the values are to stay, or None

    cdef int run(self, Slot *slot, int64_t item) noexcept nogil:
        """A failure says nothing more than that the ordinary way must be gone."""
        cdef Block block
        cdef uint8_t *direct
        cdef uint8_t *into
        cdef Bytes stored, decoded
        cdef Wanted wanted
        cdef Span span, part
        cdef file_stamp *stamp = &self.shard.stamp
        if not is_unchanged(self.shard.where, stamp):
            return fail(slot, STALE_FAILURE, 0)
        if self.length == ZV_SIZE_UNKNOWN:
            fill_out(self.form, self.selection, self.place, &self.target)
            return 0
        if self.offset > stamp.size or self.length > stamp.size - self.offset:
            return fail(slot, STALE_FAILURE, 0)
        self.form.written_block(self.place.position, &block)
        if self.known is not None:
            move_out(self.form, self.selection, self.place, <const char *> self.known.data, &block, &self.target)
            return 0
        direct = <uint8_t *> direct_target(self.form, self.selection, self.place, &block, &self.target)
        if self.new is not None:
            direct = self.new.data
        wanted = exactly(block.nbytes, direct)
        part.begin = 0
        part.end = self.length
        if direct == NULL:
            span = span_of(self.form, self.selection, self.place, &block, &self.target)
            wanted.begin = span.begin
            wanted.end = span.end
            if slot.runner.chains[0].count == 0 and self.length == block.nbytes:
                part = span
        into = direct
        if direct == NULL or slot.runner.chains[0].count or self.length != block.nbytes:
            into = reserve_stored(slot, part.end - part.begin)
            if into == NULL:
                return fail(slot, MEMORY_FAILURE, 0)
        if <uint64_t> read_at(self.file.descriptor, into, part.end - part.begin,
                              self.offset + part.begin) != part.end - part.begin:
            return fail(slot, STALE_FAILURE, 0)
        stored.data = begin_of(into, &part)
        stored.size = self.length
        if decode_chain(&slot.runner, 0, stored, &wanted, &decoded) != 0:
            return fail_codec(slot, 0, 0)
        if self.new is not None and decoded.data != direct:
            memcpy(direct, decoded.data, block.nbytes)
        if self.new is not None or decoded.data != direct:
            move_out(self.form, self.selection, self.place, <const char *> decoded.data, &block, &self.target)
        return 0


@cython.final
cdef class Proof:
    """What shows that shards belong to an array: that its document, which was looked at after they were read, was still
    the one that the array was opened from. Shards that are still the same then need no other look at it.
    """
    cdef int64_t _latest, _proven, _void

    cdef int64_t number(self) noexcept:
        """The number of what is noted now."""
        return zv_fetch_add(&self._latest, 1) + 1

    cdef bint holds(self, int64_t number) noexcept:
        return self._void < number <= self._proven

    cdef bint is_void(self, int64_t number) noexcept:
        return number <= self._void

    def latest(self):
        """What has been noted until now, for `reach`."""
        return self._latest

    def reach(self, int64_t latest):
        """The document was found as it should be, after all this was noted."""
        self._proven = max(self._proven, latest)

    def fail(self):
        """It was not: nothing that is known may be of this array."""
        self._void = self._latest


@cython.final
cdef class OpenShards(ShardGrid):
    """The shards of one array from which single chunks were read lately. `cache` may keep decoded chunks."""
    cdef dict _shards
    cdef object _cache
    cdef readonly Proof proof

    def __init__(self, per_shard, strides, grid, Proof proof not None, cache=None):
        ShardGrid.__init__(self, per_shard, strides, grid)
        self._cache = cache
        self.proof = proof
        self._shards = {}

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
        shard.noted = self.proof.number()
        shard.path = file.path
        shard.where = PyBytes_AS_STRING(file.path)
        number = self.number_of(&position[0, 0] if self.ndim else NULL, &slot)
        known = self._shards.get(number)
        shard.decoded = (<OpenShard> known).decoded if known is not None and is_same(<OpenShard> known, shard) else {}
        if len(self._shards) >= MOST_SHARDS:
            self._shards.clear()
        self._shards[number] = shard

    def read(self, Prepared prepared not None, Selection selection not None, out, Work work not None):
        """None, if the selection is not part of one chunk that could be read into `out` in this way; else whether that
        is proven to be of the array.
        """
        cdef Form form = prepared.form
        cdef int64_t position[ZV_MAX_NDIM]
        cdef int64_t slot
        cdef ChunkRead task
        cdef Failure failure
        cdef Py_buffer view
        cdef bint done
        cdef int threads = 1
        if selection.is_points or form.ndim != self.ndim or selection.ndim != self.ndim or form.edge == FRAMED_EDGE:
            return None
        if form.chunk_nbytes > LARGEST_CHUNK or not only_chunk(selection, form, position):
            return None
        number = self.number_of(position, &slot)
        task = self.task_for(number, slot)
        if task is None or not runs_natively(prepared.chains.stages[0]):
            return None
        hold(out, True, form.itemsize, &view)
        aim(selection, <char *> view.buf, view.strides, &task.target)
        task.chains = prepared.chains
        task.form = form
        task.selection = selection
        task.place.row = 0
        task.place.position = position
        if form.chunk_nbytes >= WORTH_SHARING:
            threads = work.threads_for(2 * form.chunk_nbytes)
        if self._cache is not None:
            self.look_up(task, slot, form.chunk_nbytes)
        try:
            done = task.perform(1, threads, None, &failure)
        finally:
            PyBuffer_Release(&view)
        if not done:
            self._shards.pop(number, None)
        elif task.new is not None and is_unchanged(task.shard.where, &task.shard.stamp):
            self._cache.keep(task.new, task.shard.decoded, slot)
        return self.proof.holds(task.shard.noted) if done else None

    cdef int look_up(self, ChunkRead task, int64_t slot, uint64_t nbytes) except -1:
        """Have the task use what is kept of its chunk, or leave something to keep."""
        found = task.shard.decoded.get(slot)
        if found is not None:
            task.known = <DecodedChunk> found
            if not task.known.used:
                task.known.used = True
        elif task.length != ZV_SIZE_UNKNOWN and nbytes <= self._cache.max_bytes:
            task.new = DecodedChunk.__new__(DecodedChunk)
            task.new.nbytes = nbytes
            task.new.data = <uint8_t *> malloc(max(nbytes, 1))
            if task.new.data == NULL:
                task.new = None
        return 0

    cdef ChunkRead task_for(self, number, int64_t slot):
        """To read what the shard of this number has at a place in its index; None if the shard is not known."""
        cdef ChunkRead task
        cdef OpenShard shard
        found = self._shards.get(number)
        if found is None:
            return None
        shard = <OpenShard> found
        file = shard.file()
        index = shard.index()
        if index is None or slot >= shard.count or self.proof.is_void(shard.noted):
            self._shards.pop(number, None)
            return None
        if file is None:            # the shard may be known again, with what was decoded
            return None
        task = ChunkRead.__new__(ChunkRead)
        task.shard = shard
        task.file = <OpenFile> file
        task.offset = shard.offsets[slot]
        task.length = shard.lengths[slot]
        return task


cdef bint runs_natively(const Stages *stages) noexcept:
    cdef int stage
    for stage in range(stages.count):
        if stages.stage[stage].table == NULL:
            return False
    return True


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
