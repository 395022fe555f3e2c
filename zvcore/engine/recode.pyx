"""From the chunks of one array to those of another: each thread decodes and encodes one cell after the other.

The values of a cell stay in the processor's cache between being decoded and being encoded, and no memory is taken for
more of them.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t

from zvcore.codecs.running cimport Bytes, forget_ahead
from zvcore.engine.carrying cimport Carrying
from zvcore.engine.cells cimport Cells
from zvcore.engine.chunks cimport Chunks, position_of
from zvcore.engine.decoding cimport decode_ahead, gains_by_two, load_two, read_block, stored_limit
from zvcore.engine.encoding cimport encode_block, encode_values, fill_beyond
from zvcore.engine.failures cimport MEMORY_FAILURE, Failure
from zvcore.engine.form cimport Block
from zvcore.engine.load cimport stored_of
from zvcore.engine.moving cimport Target
from zvcore.engine.prepared cimport Chains
from zvcore.engine.sinks cimport Sink
from zvcore.engine.slots cimport Slot, fail, fail_memory
from zvcore.engine.work cimport SMALL_TO_ENCODE, Work, is_small
from zvcore.kernels.blocks cimport ZV_MAX_NDIM
from zvcore.system.scratch cimport reserve


@cython.final
@cython.no_gc
cdef class Recoding(Carrying):
    """Decodes the source's chunks of a cell and encodes the target's from their values."""

    cdef Cells cells

    cdef int run(self, Slot *slot, int64_t item) noexcept nogil:
        cdef int64_t cell = self.sink.take(slot, item)
        return self.do_cell(slot, cell, NULL)

    cdef int run_two(self, Slot *slot, int64_t item) noexcept nogil:
        cdef Bytes found[2]
        cdef int64_t cells[2]
        cdef int64_t places[2]
        cdef int64_t chunks[2]
        cdef bint alone = True
        cdef int k
        for k in range(2):
            cells[k] = self.sink.take(slot, item + k)
            places[k] = slot.place
            chunks[k] = self.cells.source_first[cells[k]]
            alone = alone and self.cells.source_first[cells[k] + 1] == chunks[k] + 1
        # What cannot be loaded is loaded on its own, which says why.
        alone = alone and load_two(slot, self.stored, chunks, stored_limit(self.source.form.chunk_nbytes), found) == 0
        if alone:
            decode_ahead(slot, self.source, chunks, found)
        for k in range(2):
            slot.place = places[k]
            if self.do_cell(slot, cells[k], &found[k] if alone else NULL) != 0:
                return -1
        forget_ahead(&slot.runner)
        return 0

    cdef int do_cell(self, Slot *slot, int64_t cell, const Bytes *given) noexcept nogil:
        return self.do_chunk(slot, cell, given) if self.cells.single else self.do_chunks(slot, cell, given)

    cdef int do_chunk(self, Slot *slot, int64_t cell, const Bytes *given) noexcept nogil:
        """A cell that is one chunk of the target is put together as it is stored."""
        cdef int64_t chunk = self.cells.target_first[cell]
        cdef const int64_t *position = position_of(self.target, chunk)
        cdef Block block
        cdef Target shown
        cdef uint8_t *data
        self.target.form.written_block(position, &block)
        data = reserve(&slot.values, max(block.nbytes, 1))
        if data == NULL:
            return self.of_target(slot, fail_memory(slot, chunk, block.nbytes))
        fill_beyond(self.target.form, data, position, &block)
        self.show(cell, data, &block, &shown)
        if self.decode_cell(slot, cell, given, &shown) != 0:
            return -1
        return self.of_target(slot, encode_values(slot, self.target, chunk, data, &block, self.sink))

    cdef int do_chunks(self, Slot *slot, int64_t cell, const Bytes *given) noexcept nogil:
        cdef uint64_t shape[ZV_MAX_NDIM]
        cdef Block block
        cdef Target shown
        cdef uint8_t *data
        cdef int64_t chunk
        cdef int axis
        for axis in range(self.target.form.ndim):
            shape[axis] = self.cells.extent[cell * self.target.form.ndim + axis]
        if self.target.form.lay_out(shape, &block) != 0:
            return fail(slot, MEMORY_FAILURE, -1)
        data = reserve(&slot.cell, max(block.nbytes, 1))
        if data == NULL:
            return self.of_target(slot, fail_memory(slot, self.cells.target_first[cell], block.nbytes))
        self.show(cell, data, &block, &shown)
        if self.decode_cell(slot, cell, given, &shown) != 0:
            return -1
        for chunk in range(self.cells.target_first[cell], self.cells.target_first[cell + 1]):
            if encode_block(slot, self.target, self.cells.target_selection, chunk, &shown, None, self.sink) != 0:
                return self.of_target(slot, -1)
        return 0

    cdef void show(self, int64_t cell, uint8_t *data, const Block *block, Target *shown) noexcept nogil:
        """Where all values of the target's selection would lie if those of a cell lie at `data`."""
        cdef int ndim = self.target.form.ndim
        cdef int64_t before = 0
        cdef int axis
        for axis in range(ndim):
            before += self.cells.begin[cell * ndim + axis] * block.strides[axis]
            shown.strides[axis] = block.strides[axis]
        # Only places within the cell are ever made of this.
        shown.data = <char *> data - before
        shown.begin = NULL

    cdef int decode_cell(self, Slot *slot, int64_t cell, const Bytes *given, const Target *shown) noexcept nogil:
        """From `given`, the bytes of its only chunk, or from what is loaded now if that is NULL."""
        cdef Target ours
        cdef Bytes found[2]
        cdef int64_t chunk, place
        cdef int axis, k, some
        ours.data = shown.data
        ours.begin = NULL
        for axis in range(self.source.form.ndim):
            place = self.cells.axis_of[axis]
            ours.strides[axis] = shown.strides[place] if place >= 0 else 0
        chunk = self.cells.source_first[cell]
        if given != NULL:
            return self.decode_chunk(slot, chunk, given[0], &ours)
        while chunk < self.cells.source_first[cell + 1]:
            some = self.load_some(slot, chunk, self.cells.source_first[cell + 1], found)
            if some < 0:
                return -1
            for k in range(some):
                if self.decode_chunk(slot, chunk + k, found[k], &ours) != 0:
                    return -1
            forget_ahead(&slot.runner)      # before other bytes lie where theirs were
            chunk += some
        return 0

    cdef int load_some(self, Slot *slot, int64_t chunk, int64_t end, Bytes *found) noexcept nogil:
        """How many chunks of a cell are loaded now: two, which are decoded at once, where that gains; -1 if none."""
        cdef uint64_t most = stored_limit(self.source.form.chunk_nbytes)
        cdef int64_t two[2]
        two[0] = chunk
        two[1] = chunk + 1
        # What cannot be loaded is loaded on its own, which says why.
        if self.in_twos and end - chunk >= 2 and load_two(slot, self.stored, two, most, found) == 0:
            decode_ahead(slot, self.source, two, found)
            return 2
        if self.stored.load(slot, chunk, most, NULL, 0, found) != 0:
            self.stored.done_with(slot, chunk)
            return -1
        return 1

    cdef int decode_chunk(self, Slot *slot, int64_t chunk, Bytes stored, const Target *ours) noexcept nogil:
        cdef int status
        if stored.data != NULL:
            slot.bytes_in += stored.size
        status = read_block(slot, self.source, self.cells.source_selection, chunk, stored, ours)
        self.stored.done_with(slot, chunk)
        return status


def recode_chunks(Cells cells not None, Chunks source not None, Chunks target not None, Sink sink not None,
                  Work work not None):
    """Encode the target's chunks from those of the source: how many stored bytes were read.

    Where cells are single chunks of the target, the source's form has to give values as the target stores them, in its
    byte order and with its fill value.
    """
    cdef Recoding recoding = Recoding.__new__(Recoding)
    cdef Failure failure
    cdef int threads = 1
    if cells.count == 0 or target.count == 0:
        return 0
    cells.check(source, target)
    sink.check(target.count, cells.count)
    if not is_small(target.count, target.form.chunk_nbytes, SMALL_TO_ENCODE):
        threads = work.threads_for(0)
    recoding.cells = cells
    recoding.source = source
    recoding.target = target.behind(source.prepared.chains.count)
    recoding.stored = stored_of(source, 0)
    recoding.sink = sink
    recoding.in_twos = gains_by_two(source)
    recoding.chains = Chains([*source.prepared.chains.chains, *target.prepared.chains.chains])
    if not recoding.perform(cells.count, threads, work.progress, &failure):
        raise recoding.error(&failure)
    return recoding.bytes_in
