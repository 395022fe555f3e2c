"""From the stored bytes of a chunk to its items, in a thread."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from zvcore.codecs.running cimport (
    MOST_AHEAD, Bytes, Wanted, decode_chain, decode_two_ahead, decodes_two, exactly, find_plain, forget_ahead,
)
from zvcore.engine.chunks cimport Chunks, chain_of, position_of
from zvcore.engine.failures cimport FRAME_FAILURE, MEMORY_FAILURE
from zvcore.engine.form cimport FRAMED_EDGE, Block, Form
from zvcore.engine.framing cimport zv_frame
from zvcore.engine.moving cimport (
    JOINED_GAP, MOST_JOINED, Blocks, Place, Span, Target, direct_target, fill_out, move_out, move_out_joined, span_of,
)
from zvcore.engine.slots cimport fail, fail_codec, fail_frame
from zvcore.kernels.blocks cimport fill_block
from zvcore.system.scratch cimport Scratch, reserve


cdef enum:
    WORTH_LEAVING = 4 << 10         # bytes of a chunk that are not read where nobody wants them


cdef int open_frame(Slot *slot, Form form, int64_t chunk, Bytes *stored, Block *block) noexcept nogil:
    """Read and take off a chunk's own header. It may claim what it likes: only what a chunk of this array can sensibly
    hold is decoded.
    """
    cdef zv_frame frame
    frame.header_size = 0
    fail(slot, FRAME_FAILURE, chunk)
    if form.framing.parse(form.framing.cfg, stored.data, stored.size, form.ndim, &frame, slot.failure.message) != 0:
        slot.failure.offset = frame.header_size
        return -1
    if frame.header_size > stored.size or form.lay_out(frame.shape, block) != 0:
        return fail_frame(slot, chunk, b"the block's header does not fit the block")
    stored.data += frame.header_size
    stored.size -= frame.header_size
    if block.nbytes > stored_limit(form.chunk_nbytes):
        fail_frame(slot, chunk, b"the block's header claims more data than a block of this array can hold")
        slot.failure.expected = stored_limit(form.chunk_nbytes)
        slot.failure.found = block.nbytes
        return -1
    return 0


cdef int open_block(Slot *slot, Chunks chunks, int64_t chunk, Bytes *stored, Block *block,
                    uint64_t *header) noexcept nogil:
    cdef uint64_t whole = stored.size
    header[0] = 0
    if chunks.form.edge != FRAMED_EDGE:
        return 0
    if open_frame(slot, chunks.form, chunk, stored, block) != 0:
        return -1
    header[0] = whole - stored.size
    # Bytes behind the values of a chunk that nothing encodes.
    if (chunks.form.trailing and slot.runner.chains[chain_of(chunks, chunk)].count == 0
            and stored.size > block.nbytes):
        stored.size = block.nbytes
    return 0


cdef int decode_opened(Slot *slot, Chunks chunks, int64_t chunk, Bytes stored, uint64_t header, const Wanted *wanted,
                       const uint8_t **values) noexcept nogil:
    cdef int chain = chain_of(chunks, chunk)
    cdef Bytes decoded
    if decode_chain(&slot.runner, chain, stored, wanted, &decoded) != 0:
        fail_codec(slot, chain, chunk)
        slot.failure.offset = header    # of the chunk's own header
        return -1
    values[0] = decoded.data
    return 0


cdef int decode_block(Slot *slot, Chunks chunks, int64_t chunk, Bytes stored, uint8_t *direct, uint64_t room,
                      Block *block, const uint8_t **values) noexcept nogil:
    cdef uint64_t header
    cdef Wanted wanted
    if open_block(slot, chunks, chunk, &stored, block, &header) != 0:
        return -1
    wanted = exactly(block.nbytes, direct if block.nbytes <= room else NULL)
    return decode_opened(slot, chunks, chunk, stored, header, &wanted, values)


cdef bint is_as_stored(Chunks chunks, int64_t chunk, Block *block) noexcept nogil:
    if (chunks.form.edge == FRAMED_EDGE
            or chunks.prepared.chains.stages[chain_of(chunks, chunk) - chunks.first_chain].count):
        return False
    chunks.form.written_block(position_of(chunks, chunk), block)
    return True


cdef bint gains_by_two(Chunks chunks) noexcept nogil:
    return chunks.form.chunk_nbytes <= MOST_AHEAD and chunks.decode_two


cdef int load_two(Slot *slot, Stored stored, const int64_t *two, uint64_t most, Bytes *found) noexcept nogil:
    cdef Scratch first
    if stored.load(slot, two[0], most, NULL, 0, &found[0]) != 0:
        return -1
    first = slot.stored
    slot.stored = slot.other
    slot.other = first
    return stored.load(slot, two[1], most, NULL, 0, &found[1])


cdef void decode_ahead(Slot *slot, Chunks chunks, const int64_t *two, const Bytes *stored) noexcept nogil:
    cdef Block block
    cdef Bytes inner[2]
    cdef uint64_t sizes[2]
    cdef int i
    if not decodes_two(slot.runner.chains[chain_of(chunks, two[0])]):
        return
    for i in range(2):
        if stored[i].data == NULL:
            return
        inner[i] = stored[i]
        chunks.form.written_block(position_of(chunks, two[i]), &block)
        if chunks.form.edge == FRAMED_EDGE and open_frame(slot, chunks.form, two[i], &inner[i], &block) != 0:
            return
        sizes[i] = block.nbytes
    decode_ahead_of_sizes(slot, chunks, two, inner, sizes)


cdef void decode_ahead_of_sizes(Slot *slot, Chunks chunks, const int64_t *two, const Bytes *stored,
                                const uint64_t *sizes) noexcept nogil:
    cdef int chain = chain_of(chunks, two[0])
    if (chain_of(chunks, two[1]) == chain and decodes_two(slot.runner.chains[chain])
            and stored[0].data != NULL and stored[1].data != NULL):
        decode_two_ahead(&slot.runner, chain, stored, sizes)


cdef int read_block(Slot *slot, Chunks chunks, Selection selection, int64_t chunk, Bytes stored,
                    const Target *target) noexcept nogil:
    cdef Place place
    cdef Block block
    cdef Span span
    cdef Wanted wanted
    cdef uint64_t header
    cdef const uint8_t *values = NULL
    cdef char *direct = NULL
    place.row = chunk
    place.position = position_of(chunks, chunk)
    if stored.data == NULL:
        fill_out(chunks.form, selection, place, target)
        return 0
    chunks.form.written_block(place.position, &block)
    if open_block(slot, chunks, chunk, &stored, &block, &header) != 0:
        return -1
    if chunks.form.edge != FRAMED_EDGE:
        direct = direct_target(chunks.form, selection, place, &block, target)
    wanted = exactly(block.nbytes, <uint8_t *> direct)
    if direct == NULL:
        span = span_of(chunks.form, selection, place, &block, target)
        if span.begin < span.end:
            wanted.begin = span.begin
            wanted.end = span.end
    if decode_opened(slot, chunks, chunk, stored, header, &wanted, &values) != 0:
        return -1
    if values != <uint8_t *> direct:
        move_out(chunks.form, selection, place, <const char *> values, &block, target)
    return 0


cdef bint lie_evenly(Slot *slot, int chain, const Bytes *stored, int64_t count, uint64_t size,
                     Bytes *plain) noexcept nogil:
    """Whether chunks of this size lie in what is stored as they are, with the same distance from one to the next."""
    cdef int64_t i
    for i in range(count):
        if not find_plain(&slot.runner, chain, stored[i], size, &plain[i]):
            return False
        if i and plain[i].data - plain[i - 1].data != plain[1].data - plain[0].data:
            return False
    return True


cdef int decode_into(Slot *slot, Chunks chunks, int64_t chunk, Bytes stored, const Span *span, uint8_t *into,
                     Block *block) noexcept nogil:
    """What is wanted of a chunk's values, or the fill value if it is absent, into memory for a whole chunk: 1, 0 if
    they do not fit, or -1 with slot.failure. `block` becomes what is there.
    """
    cdef const uint8_t *values = NULL
    cdef Py_ssize_t stride = chunks.form.itemsize, count
    cdef uint64_t header
    cdef Wanted wanted
    chunks.form.written_block(position_of(chunks, chunk), block)
    if stored.data == NULL:
        count = (span.end - span.begin) // stride
        fill_block(<char *> into + span.begin, &stride, &count, 1, stride, chunks.form.fill)
        return 1
    if open_block(slot, chunks, chunk, &stored, block, &header) != 0:
        return -1
    if block.nbytes > chunks.form.chunk_nbytes:
        return 0
    # What is stored as it is is copied below, as it may be there only in part.
    wanted = exactly(block.nbytes, into if chunks.prepared.chains.stages[chain_of(chunks, chunk)
                                                                         - chunks.first_chain].count else NULL)
    if chunks.form.edge != FRAMED_EDGE and span.begin < span.end:
        wanted.begin = span.begin
        wanted.end = span.end
    if decode_opened(slot, chunks, chunk, stored, header, &wanted, &values) != 0:
        return -1
    if values != into:
        memcpy(into + wanted.begin, values + wanted.begin, wanted.end - wanted.begin)
    return 1


cdef int load_joined(Slot *slot, Chunks chunks, const Neighbours *some, int64_t i, const Span *span, Stored apart,
                     uint8_t *into, Bytes *stored) noexcept nogil:
    """The stored bytes of chunk i, at `into` if they are its values. If it gains by that it is decoded with the next,
    whose bytes come along.
    """
    cdef Block block
    cdef uint64_t most = stored_limit(chunks.form.chunk_nbytes)
    cdef bint plain = is_as_stored(chunks, some.order[i], &block)
    if gains_by_two(chunks) and i + 1 < some.count:
        return load_two(slot, apart, some.order + i, most, stored + i)
    if plain and is_worth_leaving(&block, span):
        return apart.load_part(slot, some.order[i], most, block.nbytes, span, stored + i)
    return apart.load(slot, some.order[i], most, into if plain else NULL, block.nbytes, stored + i)


cdef int begin_joined(Slot *slot, Chunks chunks, const Neighbours *some, int64_t i, const Span *span, Stored apart,
                      uint8_t *into, Bytes *stored) noexcept nogil:
    cdef bint twos = gains_by_two(chunks)
    if twos and i % 2:
        return 0
    forget_ahead(&slot.runner)      # before other bytes lie where those of the last two were
    twos = twos and i + 1 < some.count
    if some.together == NULL:
        if load_joined(slot, chunks, some, i, span, apart, into, stored) != 0:
            return -1
    else:
        stored[i] = some.together[i]
        if twos:
            stored[i + 1] = some.together[i + 1]
    if twos:
        decode_ahead(slot, chunks, some.order + i, stored + i)
    return 0


cdef bint move_as_stored(Slot *slot, Chunks chunks, Selection selection, const Neighbours *some, const Block *block,
                         const Target *target) noexcept nogil:
    """From where their bytes are, if these are the values. False: none was moved."""
    cdef Bytes[MOST_JOINED] plain
    cdef Blocks blocks
    cdef Place place = Place(some.order[0], position_of(chunks, some.order[0]))
    if some.together == NULL or chunks.form.edge == FRAMED_EDGE or not lie_evenly(
            slot, chain_of(chunks, some.order[0]), some.together, some.count, block.nbytes, plain):
        return False
    blocks = Blocks(<char *> plain[0].data, some.count, plain[1].data - plain[0].data, block)
    return move_out_joined(some.how, chunks.form, selection, place, &blocks, target)


cdef int read_joined(Slot *slot, Chunks chunks, Selection selection, const Neighbours *some, Stored apart,
                     const Target *target) noexcept nogil:
    cdef uint64_t each = chunks.form.chunk_nbytes + JOINED_GAP
    cdef const int64_t *order = some.order
    cdef Place place = Place(order[0], position_of(chunks, order[0]))
    cdef Span span
    cdef Block[MOST_JOINED] shapes
    cdef Bytes[MOST_JOINED] stored
    cdef Blocks blocks
    cdef uint8_t *into
    cdef int64_t i
    cdef int[MOST_JOINED] fits
    cdef bint alike = True
    chunks.form.written_block(place.position, &shapes[0])
    if move_as_stored(slot, chunks, selection, some, &shapes[0], target):
        return 0
    span = span_of(chunks.form, selection, place, &shapes[0], target)
    into = reserve(&slot.values, some.count * each)
    if into == NULL:
        return fail(slot, MEMORY_FAILURE, order[0])
    for i in range(some.count):
        if begin_joined(slot, chunks, some, i, &span, apart, into + i * each, stored) != 0:
            return -1
        fits[i] = decode_into(slot, chunks, order[i], stored[i], &span, into + i * each, &shapes[i])
        if fits[i] < 0 or (not fits[i] and read_block(slot, chunks, selection, order[i], stored[i], target) != 0):
            return -1
        alike = alike and fits[i] and is_same_shape(chunks.form, &shapes[i], &shapes[0])
    forget_ahead(&slot.runner)
    blocks = Blocks(<char *> into, some.count, each, &shapes[0])
    if alike and move_out_joined(some.how, chunks.form, selection, place, &blocks, target):
        return 0
    for i in range(some.count):
        if fits[i]:
            place = Place(order[i], position_of(chunks, order[i]))
            move_out(chunks.form, selection, place, <const char *> (into + i * each), &shapes[i], target)
    return 0


cdef bint is_same_shape(Form form, const Block *block, const Block *other) noexcept nogil:
    cdef int axis
    for axis in range(form.ndim):
        if block.shape[axis] != other.shape[axis]:
            return False
    return True


cdef bint is_worth_leaving(const Block *block, const Span *span) noexcept nogil:
    return span.begin < span.end and block.nbytes - (span.end - span.begin) >= WORTH_LEAVING


cdef bint lies_in_part(Chunks chunks, Selection selection, int64_t chunk, const Target *target, uint64_t *size,
                       Span *span) noexcept nogil:
    cdef Block block
    cdef Place place = Place(chunk, position_of(chunks, chunk))
    if not is_as_stored(chunks, chunk, &block):
        return False
    span[0] = span_of(chunks.form, selection, place, &block, target)
    size[0] = block.nbytes
    return is_worth_leaving(&block, span)


cdef uint8_t *place_as_stored(Chunks chunks, Selection selection, int64_t chunk, uint64_t *room,
                              const Target *target) noexcept nogil:
    cdef Place place = Place(chunk, position_of(chunks, chunk))
    cdef Block block
    if not is_as_stored(chunks, chunk, &block):
        return NULL
    room[0] = block.nbytes
    return <uint8_t *> direct_target(chunks.form, selection, place, &block, target)
