"""Reading: from stored bytes to items or byte strings, on all threads, without a Python object per chunk."""

import numpy as np

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from zvcore.codecs.abi cimport ZV_NOMEM, ZV_SIZE_UNKNOWN
from zvcore.codecs.failures cimport RAISED
from zvcore.codecs.running cimport MOST_AHEAD, Bytes, Wanted, at_most, decode_chain, exactly, forget_ahead
from zvcore.engine.batches cimport Task
from zvcore.engine.buffers cimport Buffers
from zvcore.engine.chunks cimport Chunks, chain_of, position_of
from zvcore.engine.decoding cimport (
    Neighbours, decode_ahead, decode_ahead_of_sizes, gains_by_two, lies_in_part, load_two, place_as_stored, read_block,
    read_joined, stored_limit,
)
from zvcore.engine.failures cimport (
    CHECKSUM_FAILURE, CODEC_FAILURE, FRAME_FAILURE, MEMORY_FAILURE, RANGE_FAILURE, TOO_LARGE_FAILURE, Failure,
)
from zvcore.engine.load cimport Stored, stored_of
from zvcore.engine.moving cimport MOST_JOINED, MOST_JOINED_BYTES, Items, Span, joining, may_join
from zvcore.engine.prepared cimport Chains
from zvcore.engine.selection cimport Selection
from zvcore.engine.slots cimport Slot, fail, fail_codec
from zvcore.engine.work cimport SMALL_TO_DECODE, Work, is_small
from zvcore.system.gil cimport let_go, take_back


cdef enum:
    READ_AT_ONCE = 264 << 10        # stored bytes of small chunks that a thread may have read together
    FEW = 4                         # of byte strings whose sizes are not known


cdef class Receiver:
    """What becomes of the stored bytes of each chunk."""

    cdef uint8_t *place_of(self, int64_t chunk, uint64_t *room) noexcept nogil:
        return NULL

    cdef bint in_part(self, int64_t chunk, uint64_t *size, Span *span) noexcept nogil:
        return False

    cdef bint in_twos(self) noexcept nogil:
        return False

    cdef void expect(self, Slot *slot, const int64_t *two, const Bytes *stored) noexcept nogil:
        pass

    cdef int receive(self, Slot *slot, int64_t chunk, Bytes stored) noexcept nogil:
        return 0

    cdef int64_t at_once(self, const int64_t *order, int64_t count) noexcept nogil:
        return 1

    cdef int receive_several(self, Slot *slot, const int64_t *order, int64_t count, const Bytes *together,
                             Stored apart) noexcept nogil:
        return 0


@cython.final
cdef class IntoItems(Receiver):
    """Chunks are decoded into the values of a selection."""

    cdef uint8_t *place_of(self, int64_t chunk, uint64_t *room) noexcept nogil:
        return place_as_stored(self.chunks, self.items.selection, chunk, room, &self.items.target)

    cdef bint in_part(self, int64_t chunk, uint64_t *size, Span *span) noexcept nogil:
        return lies_in_part(self.chunks, self.items.selection, chunk, &self.items.target, size, span)

    cdef bint in_twos(self) noexcept nogil:
        return gains_by_two(self.chunks)

    cdef void expect(self, Slot *slot, const int64_t *two, const Bytes *stored) noexcept nogil:
        decode_ahead(slot, self.chunks, two, stored)

    cdef int receive(self, Slot *slot, int64_t chunk, Bytes stored) noexcept nogil:
        return read_block(slot, self.chunks, self.items.selection, chunk, stored, &self.items.target)

    cdef int64_t at_once(self, const int64_t *order, int64_t count) noexcept nogil:
        cdef int64_t found = 0
        while found < min(count, <int64_t> self.joined.most) and self.follows(order[0], order[found], found):
            found += 1
        return max(<int64_t> 1, found if found == self.joined.most or not self.joined.lines else 1)

    cdef bint follows(self, int64_t first, int64_t chunk, int64_t steps) noexcept nogil:
        return (chain_of(self.chunks, chunk) == chain_of(self.chunks, first)
                and may_join(&self.joined, self.chunks.form, self.items.selection, position_of(self.chunks, first),
                             position_of(self.chunks, chunk), steps))

    cdef int receive_several(self, Slot *slot, const int64_t *order, int64_t count, const Bytes *together,
                             Stored apart) noexcept nogil:
        cdef Neighbours some = Neighbours(&self.joined, order, count, together)
        return read_joined(slot, self.chunks, self.items.selection, &some, apart, &self.items.target)


@cython.final
cdef class IntoBuffers(Receiver):
    """Chunks are decoded, each on its own."""

    cdef bint in_twos(self) noexcept nogil:
        return self.chunks.decode_two

    cdef void expect(self, Slot *slot, const int64_t *two, const Bytes *stored) noexcept nogil:
        cdef uint64_t[2] sizes
        cdef int i
        for i in range(2):
            sizes[i] = self.expected[two[i]] if self.expected != NULL else ZV_SIZE_UNKNOWN
        decode_ahead_of_sizes(slot, self.chunks, two, stored, sizes)

    cdef int receive(self, Slot *slot, int64_t chunk, Bytes stored) noexcept nogil:
        cdef int chain = chain_of(self.chunks, chunk)
        cdef Wanted wanted
        cdef Bytes decoded
        if stored.data == NULL:
            return 0
        wanted = exactly(self.expected[chunk], NULL) if self.expected != NULL else at_most(self.ceiling)
        if decode_chain(&slot.runner, chain, stored, &wanted, &decoded) != 0:
            return fail_codec(slot, chain, chunk)
        if self.results.store(chunk, NULL, 0, decoded.data, decoded.size) != 0:
            return fail(slot, MEMORY_FAILURE, chunk)
        return 0


@cython.final
@cython.no_gc
cdef class Faults:
    """What is wrong with single chunks of a batch that is to go on all the same: where many are broken, a batch for
    each would cost far more than they do.
    """

    def __cinit__(self, int64_t count):
        self.count = count
        self.of_chunk = <Failure **> calloc(max(count, <int64_t> 1), sizeof(Failure *))
        if self.of_chunk == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef int64_t i
        if self.of_chunk != NULL:
            for i in range(self.count):
                free(self.of_chunk[i])
        free(self.of_chunk)

    cdef bint take(self, const Failure *failure) noexcept nogil:
        cdef Failure *kept
        if failure.job < 0 or failure.job >= self.count or self.of_chunk[failure.job] != NULL:
            return False
        if failure.kind == CODEC_FAILURE:
            # What was raised may be anything, and too little memory is no fault of the chunk.
            if failure.codec.status == RAISED or failure.codec.status == ZV_NOMEM:
                return False
        elif failure.kind not in (RANGE_FAILURE, CHECKSUM_FAILURE, FRAME_FAILURE, TOO_LARGE_FAILURE):
            return False
        kept = <Failure *> malloc(sizeof(Failure))
        if kept == NULL:
            return False
        kept[0] = failure[0]
        self.of_chunk[failure.job] = kept
        return True


@cython.final
@cython.no_gc
cdef class Reading(Task):
    """Loads chunks, run by run, and gives them to a receiver."""

    cdef int run(self, Slot *slot, int64_t item) noexcept nogil:
        cdef int status
        if self.stored.runs == NULL:
            status = self.read_one(slot, item)
        elif self.stored.runs[item + 1] - self.stored.runs[item] == 1:
            status = self.read_one(slot, self.stored.order[self.stored.runs[item]])
        elif self.stored.offset == NULL:
            status = self.read_apart(slot, item)
        else:
            status = self.read_several(slot, item)
        self.stored.done_with(slot, item)
        return 0 if status == 0 or self.noted(slot) else -1

    cdef void leave(self, Slot *slot) noexcept nogil:
        self.stored.leave(slot)

    cdef int read_one(self, Slot *slot, int64_t chunk) noexcept nogil:
        cdef Bytes found
        cdef uint64_t room = 0
        cdef Span part
        cdef uint8_t *place = self.receiver.place_of(chunk, &room)
        if place == NULL and self.receiver.in_part(chunk, &room, &part):
            if self.stored.load_part(slot, chunk, self.receiver.most, room, &part, &found) != 0:
                return -1
        elif self.stored.load(slot, chunk, self.receiver.most, place, room, &found) != 0:
            return -1
        return self.receiver.receive(slot, chunk, found)

    cdef int64_t only_chunk(self, int64_t run) noexcept nogil:
        if self.stored.runs == NULL:
            return run
        if self.stored.runs[run + 1] - self.stored.runs[run] != 1:
            return -1
        return self.stored.order[self.stored.runs[run]]

    cdef int run_two(self, Slot *slot, int64_t item) noexcept nogil:
        cdef int64_t two[2]
        cdef Bytes found[2]
        cdef int k, status
        two[0] = self.only_chunk(item)
        two[1] = self.only_chunk(item + 1)
        # What cannot be loaded is read on its own, which says why.
        if two[0] < 0 or two[1] < 0 or load_two(slot, self.stored, two, self.receiver.most_of_two, found) != 0:
            return -1 if self.run(slot, item) != 0 else self.run(slot, item + 1)
        self.receiver.expect(slot, two, found)
        for k in range(2):
            status = self.receiver.receive(slot, two[k], found[k])
            self.stored.done_with(slot, item + k)
            if status != 0 and not self.noted(slot):
                return -1
        forget_ahead(&slot.runner)
        return 0

    cdef int read_apart(self, Slot *slot, int64_t run) noexcept nogil:
        cdef int64_t first = self.stored.runs[run]
        return self.receiver.receive_several(slot, &self.stored.order[first], self.stored.runs[run + 1] - first, NULL,
                                             self.stored)

    cdef int read_several(self, Slot *slot, int64_t run) noexcept nogil:
        cdef Bytes together
        cdef Bytes[MOST_JOINED] some
        cdef uint64_t base = 0
        cdef int64_t i = self.stored.runs[run], end = self.stored.runs[run + 1]
        cdef int64_t count, k, told = i
        cdef int status
        if self.stored.load_run(slot, run, &together, &base) != 0:
            if self.faults is not None and slot.failure.kind in (RANGE_FAILURE, CHECKSUM_FAILURE):
                return self.read_each(slot, run)
            return -1
        while i < end:
            count = self.receiver.at_once(&self.stored.order[i], end - i)
            # One more than is taken now, to be told of.
            for k in range(min(max(count, <int64_t> 2), end - i)):
                some[k] = self.in_span(together, base, self.stored.order[i + k])
            if self.in_twos and count == 1 and i >= told and i + 1 < end:
                self.receiver.expect(slot, &self.stored.order[i], some)
                told = i + 2
            if count == 1:
                status = self.receiver.receive(slot, self.stored.order[i], some[0])
            else:
                status = self.receiver.receive_several(slot, &self.stored.order[i], count, some, None)
            if status != 0 and not self.noted(slot):
                return -1
            i += count
        forget_ahead(&slot.runner)
        return 0

    cdef Bytes in_span(self, Bytes together, uint64_t base, int64_t chunk) noexcept nogil:
        cdef Bytes found
        found.data = together.data + (self.stored.offset[chunk] - base)
        found.size = self.stored.length[chunk]
        return found

    cdef int read_each(self, Slot *slot, int64_t run) noexcept nogil:
        cdef int64_t i
        for i in range(self.stored.runs[run], self.stored.runs[run + 1]):
            if self.read_one(slot, self.stored.order[i]) != 0 and not self.noted(slot):
                return -1
        return 0

    cdef bint noted(self, Slot *slot) noexcept nogil:
        return self.faults is not None and self.faults.take(&slot.failure)


cdef int join_objects(Receiver receiver, Stored stored) except -1:
    """Have chunks that are objects of their own read together where the receiver takes several at once."""
    cdef int64_t i = 0
    cdef const int64_t[::1] order_view
    cdef int64_t[::1] run_view
    order = np.arange(stored.count)
    runs = np.empty(stored.count + 1, np.int64)
    order_view = order
    run_view = runs
    stored.run_count = 0
    while i < stored.count:
        run_view[stored.run_count] = i
        stored.run_count += 1
        i += receiver.at_once(&order_view[i], stored.count - i)
    run_view[stored.run_count] = i
    return stored.take_plan(order, runs)


cdef bint read_into(Receiver receiver, Chunks chunks, int threads, Work work, Faults faults=None) except -1:
    """Whether the array's document was unchanged after it, if that is watched."""
    cdef Reading reading = Reading.__new__(Reading)
    cdef Failure failure
    receiver.chunks = chunks
    reading.receiver = receiver
    reading.faults = faults
    reading.chains = chunks.prepared.chains
    reading.in_twos = receiver.in_twos()
    reading.watch(work)
    reading.stored = stored_of(chunks, threads)
    if receiver.joined.most and reading.stored.offset == NULL and chunks.count > 1 and chunks.sources.parts is None:
        join_objects(receiver, reading.stored)
    if not reading.perform(reading.stored.run_count, threads, work.progress, &failure):
        raise chunks.error(&failure, reading.chains)
    return reading.unchanged


cdef int threads_to_read(Receiver receiver, Chunks chunks, Work work) except -1:
    cdef uint64_t each = chunks.form.chunk_nbytes
    cdef Span part
    if receiver.in_part(0, &each, &part):
        each = part.end - part.begin
    return 1 if is_small(chunks.count, each, SMALL_TO_DECODE) else work.threads_for(held_to_read(chunks))


cdef uint64_t held_to_read(Chunks chunks) noexcept:
    """How many bytes a thread holds."""
    cdef uint64_t nbytes = chunks.form.chunk_nbytes
    # As it is stored, or several small ones; and between two codecs, and decoded.
    cdef uint64_t held = 2 * nbytes + max(nbytes, <uint64_t> READ_AT_ONCE)
    # The stored bytes of another, and the values of two.
    return held + 3 * nbytes if gains_by_two(chunks) else held


def read_chunks(Chunks chunks not None, Selection selection not None, out, Work work not None):
    """Read the selected items of these chunks into `out`, whose shape is the selection's `result_shape`: whether the
    array's document, if that is watched, was seen to be as before when that was done.
    """
    cdef IntoItems receiver = IntoItems.__new__(IntoItems)
    cdef uint64_t nbytes = chunks.form.chunk_nbytes
    cdef int threads
    receiver.items = Items(selection, out, chunks.form, chunks.rows, chunks.count, True)
    if chunks.count == 0:
        return False
    receiver.most = receiver.most_of_two = stored_limit(nbytes)
    receiver.chunks = chunks
    threads = threads_to_read(receiver, chunks, work)
    # No thread has nothing to do because another has many.
    receiver.joined = joining(chunks.form, selection, &receiver.items.target,
                              min(chunks.count // threads, work.ahead(MOST_JOINED_BYTES) // max(nbytes, <uint64_t> 1)))
    if receiver.joined.most and threads > 1:
        threads = work.threads_for(held_to_read(chunks) + receiver.joined.most * nbytes)
    return read_into(receiver, chunks, threads, work)


def parts_wanted(Chunks chunks not None, Selection selection not None, out):
    """`Sources.parts` of what `read_chunks` looks at in the chunks that are stored as they are; None where it needs all
    of all chunks.
    """
    cdef IntoItems receiver = IntoItems.__new__(IntoItems)
    receiver.chunks = chunks
    if chunks.form is not None:
        receiver.items = Items(selection, out, chunks.form, chunks.rows, chunks.count, True)
    return parts_of(receiver, chunks)


cdef object parts_of(Receiver receiver, Chunks chunks):
    cdef Chains chains = chunks.prepared.chains
    cdef Span span
    cdef uint64_t size = 0
    cdef uint64_t[:, ::1] wanted
    cdef int64_t i
    cdef bint any_part = False
    if chunks.form is None or not any(chains.stages[i].count == 0 for i in range(chains.count)):
        return None
    wanted = parts = np.zeros((chunks.count, 3), np.uint64)
    python = let_go(chunks.count)
    for i in range(chunks.count):
        if receiver.in_part(i, &size, &span):
            wanted[i, 0], wanted[i, 1], wanted[i, 2] = span.begin, span.end, size
            any_part = True
    take_back(python)
    return parts if any_part else None


def narrow(uint64_t[:, ::1] parts not None, uint64_t[::1] offset not None, uint64_t[::1] length not None):
    """From the ranges of stored chunks to those of `parts`, in place. What is wrong with those of another size is said
    when all of it is there.
    """
    cdef Py_ssize_t i
    if not parts.shape[0] == offset.shape[0] == length.shape[0]:
        raise ValueError("columns of different lengths")
    for i in range(parts.shape[0]):
        if length[i] != parts[i, 2]:
            parts[i, 0] = parts[i, 1] = parts[i, 2] = 0
        elif parts[i, 1]:
            offset[i] += parts[i, 0]
            length[i] = parts[i, 1] - parts[i, 0]


def fetch_chunks(Chunks chunks not None, Work work not None, expected=None, max_size=None, list faults=None):
    """Read and decode these chunks: a `Buffers` with a row for each.

    `expected` gives the decoded sizes where they are known; no row may decode to more than `max_size`. With a list of
    `faults`, a row that cannot be read does not end it: it is absent, and (row, error) is in the list.
    """
    cdef Faults noted = None if faults is None else Faults(chunks.count)
    cdef int64_t row
    cdef IntoBuffers receiver = IntoBuffers.__new__(IntoBuffers)
    cdef const uint64_t[::1] view
    receiver.results = Buffers(chunks.count)
    if chunks.count == 0:
        return receiver.results
    if expected is not None:
        receiver._expected = np.ascontiguousarray(expected, np.uint64)
        if len(receiver._expected) != chunks.count:
            raise ValueError("the expected sizes do not fit the chunks")
        view = receiver._expected
        receiver.expected = &view[0]
    receiver.ceiling = <uint64_t> 1 << 31 if max_size is None else max_size
    receiver.most = stored_limit(receiver.ceiling)
    receiver.most_of_two = min(receiver.most, <uint64_t> MOST_AHEAD)
    read_into(receiver, chunks, 1 if chunks.count < FEW else work.threads_for(0), work, noted)
    if noted is not None:
        for row in range(noted.count):
            if noted.of_chunk[row] != NULL:
                faults.append((row, chunks.error(noted.of_chunk[row], chunks.prepared.chains)))
    return receiver.results
