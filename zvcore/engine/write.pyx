"""Writing: from items or byte strings to stored bytes, on all threads, without a Python object per chunk."""

import numpy as np

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free

from zvcore.codecs.running cimport Bytes, encode_chain
from zvcore.engine.batches cimport Task
from zvcore.engine.buffers cimport Buffers
from zvcore.engine.chunks cimport Chunks, position_of
from zvcore.engine.encoding cimport encode_block, encode_joined
from zvcore.engine.failures cimport MEMORY_FAILURE, Failure, failure_error
from zvcore.engine.load cimport stored_of
from zvcore.engine.moving cimport MOST_JOINED_BYTES, Items, joining, may_join
from zvcore.engine.prepared cimport Chains
from zvcore.engine.selection cimport Selection, covers
from zvcore.engine.sinks cimport Sink
from zvcore.engine.slots cimport Slot, fail, fail_codec
from zvcore.engine.work cimport SMALL_TO_ENCODE, Work, is_small


cdef enum:
    FEW = 4                         # of byte strings


@cython.no_gc
cdef class Encoding(Task):
    """Puts together chunks from new values and old ones, and encodes them. A class of each kind of values says how."""

    cdef int encode(self, Slot *slot, int64_t chunk) noexcept nogil:
        return 0

    cdef int64_t prepare(self, int threads) except -1:
        return self.chunks.count

    cdef int run(self, Slot *slot, int64_t item) noexcept nogil:
        cdef int64_t chunk = self.sink.take(slot, item)
        cdef int status = self.encode(slot, chunk)
        if self.old is not None:
            self.old.done_with(slot, chunk)
        return status

    cdef void leave(self, Slot *slot) noexcept nogil:
        if self.old is not None:
            self.old.leave(slot)


cdef int encode_all(Encoding encoding, Chunks chunks, Sink sink, Work work) except -1:
    cdef Failure failure
    cdef int threads = 1
    if chunks.count == 0:
        return 0
    if not is_small(chunks.count, chunks.form.chunk_nbytes, SMALL_TO_ENCODE):
        threads = work.threads_for(0)
    if chunks.sources is not None:
        encoding.old = stored_of(chunks, 0)
    encoding.chunks = chunks
    encoding.sink = sink
    encoding.chains = chunks.prepared.chains
    if not encoding.perform(encoding.prepare(threads), threads, work.progress, &failure):
        raise chunks.error(&failure, encoding.chains)
    return 0


@cython.final
@cython.no_gc
cdef class EncodingItems(Encoding):
    """The values are those of a selection."""

    cdef int encode(self, Slot *slot, int64_t chunk) noexcept nogil:
        return encode_block(slot, self.chunks, self.items.selection, chunk, &self.items.target, self.old, self.sink)

    cdef int run(self, Slot *slot, int64_t item) noexcept nogil:
        cdef int64_t first, i, count
        cdef int status
        if self.groups == NULL:
            return Encoding.run(self, slot, item)
        first = self.groups[item]
        count = self.groups[item + 1] - first
        if count == 1:
            status = self.encode(slot, first)
        else:
            status = encode_joined(slot, self.chunks, self.items.selection, &self.joined, first, count,
                                   &self.items.target, self.sink)
        if self.old is not None:
            for i in range(count):
                self.old.done_with(slot, first + i)
        return status

    cdef int64_t prepare(self, int threads) except -1:
        """Put neighbours together whose values share cache lines: each line is read once and not again and again."""
        cdef int64_t chunk
        cdef int64_t[::1] view
        cdef int64_t most = MOST_JOINED_BYTES // max(self.chunks.form.chunk_nbytes, <uint64_t> 1)
        self.joined = joining(self.chunks.form, self.items.selection, &self.items.target,
                              min(self.chunks.count // threads, most))
        if self.joined.most == 0 or self.joined.lines or not self.sink.in_any_order():
            return self.chunks.count
        self._groups = np.empty(self.chunks.count + 1, np.int64)
        view = self._groups
        for chunk in range(self.chunks.count):
            if (chunk == 0 or chunk - view[self.group_count - 1] == self.joined.most
                    or not self.follows(view[self.group_count - 1], chunk)):
                view[self.group_count] = chunk
                self.group_count += 1
        view[self.group_count] = self.chunks.count
        self.groups = &view[0]
        return self.group_count

    cdef bint follows(self, int64_t first, int64_t chunk) noexcept nogil:
        cdef const int64_t *begin = position_of(self.chunks, first)
        cdef const int64_t *position = position_of(self.chunks, chunk)
        return (may_join(&self.joined, self.chunks.form, self.items.selection, begin, begin, 0)
                and may_join(&self.joined, self.chunks.form, self.items.selection, begin, position, chunk - first)
                and (self.old is None or covers(self.items.selection, begin, self.chunks.form.chunk)))


def encode_chunks(Chunks chunks not None, Selection selection not None, values, Sink sink not None,
                  Work work not None):
    """Encode chunks with the values that the selection assigns to them.

    `values` has the selection's `result_shape` (strides of zero are welcome). Chunks that the selection covers only in
    part are read from the sources first; where the chunks have no sources, what it does not cover is the fill value.
    """
    cdef EncodingItems encoding = EncodingItems.__new__(EncodingItems)
    sink.check(chunks.count, chunks.count)
    encoding.items = Items(selection, values, chunks.form, chunks.rows, chunks.count, False)
    encode_all(encoding, chunks, sink, work)


@cython.final
@cython.no_gc
cdef class StringEncoding(Task):
    """Encodes byte strings."""

    def __cinit__(self, items):
        cdef Py_ssize_t i
        self.views = <Py_buffer *> calloc(max(<Py_ssize_t> len(items), 1), sizeof(Py_buffer))
        if self.views == NULL:
            raise MemoryError
        for i in range(len(items)):
            PyObject_GetBuffer(items[i], &self.views[i], PyBUF_SIMPLE)
            self.count += 1

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.count):
            PyBuffer_Release(&self.views[i])
        free(self.views)

    cdef int run(self, Slot *slot, int64_t item) noexcept nogil:
        cdef Bytes plain, encoded
        plain.data = <const uint8_t *> self.views[item].buf
        plain.size = self.views[item].len
        if encode_chain(&slot.runner, 0, plain, &encoded) != 0:
            return fail_codec(slot, 0, item)
        if self.results.store(item, NULL, 0, encoded.data, encoded.size) != 0:
            return fail(slot, MEMORY_FAILURE, item)
        return 0


def encode_many(items, chain, Work work not None):
    """Encode byte strings through a chain: a `Buffers` with a row for each."""
    cdef StringEncoding encoding = StringEncoding(items)
    cdef Failure failure
    cdef int threads
    encoding.results = Buffers(encoding.count)
    encoding.chains = Chains((chain,))
    threads = 1 if encoding.count < FEW else work.threads_for(0)
    if not encoding.perform(encoding.count, threads, work.progress, &failure):
        raise failure_error(&failure, encoding.chains.chains)
    return encoding.results
