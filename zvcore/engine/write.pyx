"""Writing: from items or byte strings to stored bytes, on all threads, without a Python object per chunk."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free

from zvcore.codecs.running cimport Bytes, encode_chain
from zvcore.engine.batches cimport Task
from zvcore.engine.buffers cimport Buffers
from zvcore.engine.chunks cimport Chunks
from zvcore.engine.encoding cimport encode_block
from zvcore.engine.failures cimport MEMORY_FAILURE, Failure, failure_error
from zvcore.engine.load cimport stored_of
from zvcore.engine.moving cimport Items
from zvcore.engine.prepared cimport Chains
from zvcore.engine.selection cimport Selection
from zvcore.engine.sinks cimport Sink
from zvcore.engine.slots cimport Slot, fail, fail_codec
from zvcore.engine.work cimport SMALL_TO_ENCODE, Work, is_small


cdef enum:
    FEW = 4                         # of byte strings


@cython.final
@cython.no_gc
cdef class Encoding(Task):
    """Puts together chunks from new values and old ones, and encodes them."""

    cdef int run(self, Slot *slot, int64_t item) noexcept nogil:
        cdef int64_t chunk = self.sink.take(slot, item)
        cdef int status = encode_block(slot, self.chunks, self.items.selection, chunk, &self.items.target, self.old,
                                       self.sink)
        if self.old is not None:
            self.old.done_with(slot, chunk)
        return status

    cdef void leave(self, Slot *slot) noexcept nogil:
        if self.old is not None:
            self.old.leave(slot)


def encode_chunks(Chunks chunks not None, Selection selection not None, values, Sink sink not None,
                  Work work not None):
    """Encode chunks with the values that the selection assigns to them.

    `values` has the selection's `result_shape` (strides of zero are welcome). Chunks that the selection covers only in
    part are read from the sources first; where the chunks have no sources, what it does not cover is the fill value.
    """
    cdef Encoding encoding = Encoding.__new__(Encoding)
    cdef Failure failure
    cdef int threads = 1
    sink.check(chunks.count, chunks.count)
    encoding.items = Items(selection, values, chunks.form, chunks.rows, chunks.count, False)
    if chunks.count == 0:
        return
    if not is_small(chunks.count, chunks.form.chunk_nbytes, SMALL_TO_ENCODE):
        threads = work.threads_for(0)
    if chunks.sources is not None:
        encoding.old = stored_of(chunks, 0)
    encoding.chunks = chunks
    encoding.sink = sink
    encoding.chains = chunks.prepared.chains
    if not encoding.perform(chunks.count, threads, work.progress, &failure):
        raise chunks.error(&failure, encoding.chains)


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
