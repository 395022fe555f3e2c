"""From the items of a chunk to its stored bytes, in a thread."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from zvcore.codecs.running cimport Bytes, encode_chain
from zvcore.engine.chunks cimport Chunks, chain_of, position_of
from zvcore.engine.decoding cimport decode_block, stored_limit
from zvcore.engine.form cimport FRAMED_EDGE, Block, Form
from zvcore.engine.framing cimport MOST_HEADER
from zvcore.engine.moving cimport JOINED_GAP, Blocks, Joining, Place, Target, move_in, move_in_joined
from zvcore.engine.selection cimport covers
from zvcore.engine.slots cimport fail_codec, fail_frame, fail_memory
from zvcore.kernels.blocks cimport ZV_MAX_NDIM, copy_block, fill_block, is_filled
from zvcore.system.scratch cimport reserve


cdef void fill_chunk(Form form, uint8_t *values, const Block *block) noexcept nogil:
    cdef Py_ssize_t count = block.nbytes // form.itemsize
    cdef Py_ssize_t stride = form.itemsize
    fill_block(<char *> values, &stride, &count, 1, form.itemsize, form.stored_fill)


cdef void fill_beyond(Form form, uint8_t *values, const int64_t *position, const Block *block) noexcept nogil:
    cdef int axis
    if form.padded:
        for axis in range(form.ndim):
            if (position[axis] + 1) * form.chunk[axis] > form.bounds[axis]:
                fill_chunk(form, values, block)
                return


cdef uint8_t *new_values(Slot *slot, Chunks chunks, int64_t chunk, const Block *block, Sink sink) noexcept nogil:
    """Memory for the chunk's values: where the sink has it if they are stored as they are. NULL with a failure."""
    cdef uint8_t *values = NULL
    cdef int chain = chain_of(chunks, chunk) - chunks.first_chain
    if chunks.form.edge != FRAMED_EDGE and chunks.prepared.chains.stages[chain].count == 0:
        values = sink.room_for(chunk, block.nbytes)
    if values == NULL:
        values = reserve(&slot.values, max(block.nbytes, 1))
    if values == NULL:
        fail_memory(slot, chunk, block.nbytes)
    return values


cdef uint8_t *old_values(Slot *slot, Chunks chunks, int64_t chunk, const Block *block, Stored old,
                         Sink sink) noexcept nogil:
    """The chunk as it is now, in memory as `new_values` gives it; the fill value where there is none.

    What is stored is looked at first: if it is not what the array says of its chunks, there need not be room for that.
    """
    cdef Bytes stored
    cdef const uint8_t *there = NULL
    cdef uint8_t *values
    cdef Block old_block = block[0]
    cdef Py_ssize_t shape[ZV_MAX_NDIM]
    cdef int axis
    cdef bint all_of_it = True
    if old.load(slot, chunk, stored_limit(chunks.form.chunk_nbytes), NULL, 0, &stored) != 0:
        return NULL
    if stored.data != NULL and decode_block(slot, chunks, chunk, stored, NULL, 0, &old_block, &there) != 0:
        return NULL
    values = new_values(slot, chunks, chunk, block, sink)
    if values == NULL:
        return NULL
    # A framed chunk may be smaller or larger than the one that takes its place.
    for axis in range(chunks.form.ndim):
        shape[axis] = min(old_block.shape[axis], block.shape[axis])
        all_of_it = all_of_it and shape[axis] == block.shape[axis]
    if there == NULL or not all_of_it:
        fill_chunk(chunks.form, values, block)
    if there != NULL:
        copy_block(<char *> values, block.strides, <const char *> there, old_block.strides, shape,
                   chunks.form.ndim, chunks.form.itemsize, 0)
    return values


cdef uint8_t *begin_block(Slot *slot, Chunks chunks, int64_t chunk, bint covered, Stored old, Sink sink,
                          Block *block) noexcept nogil:
    cdef uint8_t *values
    chunks.form.written_block(position_of(chunks, chunk), block)
    if old is not None and not covered:
        return old_values(slot, chunks, chunk, block, old, sink)
    values = new_values(slot, chunks, chunk, block, sink)
    if values != NULL:
        fill_beyond(chunks.form, values, position_of(chunks, chunk), block)
    return values


cdef int encode_block(Slot *slot, Chunks chunks, Selection selection, int64_t chunk, const Target *target, Stored old,
                      Sink sink) noexcept nogil:
    cdef Place place = Place(chunk, position_of(chunks, chunk))
    cdef Block block
    cdef Target shown
    cdef uint8_t *values = begin_block(slot, chunks, chunk, covers(selection, place.position, chunks.form.chunk), old,
                                       sink, &block)
    if values == NULL:
        return -1
    shown = target[0]
    shown.far = shown.far and values != slot.values.data        # what is encoded next stays in the caches
    move_in(chunks.form, selection, place, <char *> values, &block, &shown)
    return encode_values(slot, chunks, chunk, values, &block, sink)


cdef int encode_joined(Slot *slot, Chunks chunks, Selection selection, const Joining *how, int64_t first, int64_t count,
                       const Target *target, Sink sink) noexcept nogil:
    cdef uint64_t each = chunks.form.chunk_nbytes + JOINED_GAP
    cdef Place place = Place(first, position_of(chunks, first))
    cdef Block block
    cdef Blocks blocks
    cdef uint8_t *values = reserve(&slot.values, count * each)
    cdef int64_t i
    if values == NULL:
        return fail_memory(slot, first, count * each)
    chunks.form.written_block(place.position, &block)
    for i in range(count):
        fill_beyond(chunks.form, values + i * each, position_of(chunks, first + i), &block)
    blocks = Blocks(<char *> values, count, each, &block)
    move_in_joined(how, chunks.form, selection, place, &blocks, target)
    for i in range(count):
        if encode_values(slot, chunks, first + i, values + i * each, &block, sink) != 0:
            return -1
    return 0


cdef int encode_values(Slot *slot, Chunks chunks, int64_t chunk, const uint8_t *values, const Block *block,
                       Sink sink) noexcept nogil:
    cdef uint8_t header[MOST_HEADER]
    cdef uint64_t dimensions[ZV_MAX_NDIM]
    cdef Bytes plain, encoded, head
    cdef int chain = chain_of(chunks, chunk)
    cdef int axis
    cdef Py_ssize_t itemsize = chunks.form.itemsize
    if not sink.store_empty and is_filled(<const char *> values, block.nbytes // itemsize, itemsize,
                                          chunks.form.stored_fill):
        return sink.leave_out(slot, chunk)
    plain.data = values
    plain.size = block.nbytes
    if encode_chain(&slot.runner, chain, plain, &encoded) != 0:
        return fail_codec(slot, chain, chunk)
    head.data = header
    head.size = 0
    if chunks.form.edge == FRAMED_EDGE:
        for axis in range(chunks.form.ndim):
            dimensions[axis] = block.shape[axis]
        head.size = chunks.form.framing.write(chunks.form.framing.cfg, chunks.form.ndim, dimensions, header)
        if head.size > chunks.form.header_bound:
            return fail_frame(slot, chunk, b"the format wrote a longer header than it says that headers are")
    return sink.put(slot, chunk, head, encoded)
