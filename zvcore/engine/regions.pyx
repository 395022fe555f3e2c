"""Reading many regions at once: a chunk that several of them touch is loaded and decoded for all."""

import numpy as np

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from zvcore.codecs.running cimport Bytes, Wanted, exactly
from zvcore.engine.chunks cimport Chunks, position_of
from zvcore.engine.decoding cimport (
    decode_ahead, decode_opened, gains_by_two, is_as_stored, is_worth_leaving, lies_in_part, open_block,
    place_as_stored, read_block, stored_limit,
)
from zvcore.engine.form cimport FRAMED_EDGE, Block, Form
from zvcore.engine.moving cimport Items, Place, Span, fill_out, move_out, span_of
from zvcore.engine.read cimport Receiver, parts_of, read_into, threads_to_read
from zvcore.engine.selection cimport Selection, covers
from zvcore.engine.slots cimport Slot
from zvcore.engine.work cimport Work
from zvcore.kernels.blocks cimport ZV_MAX_NDIM


@cython.final
cdef class Regions:
    """Selections of integers and slices of one array, and memory for the values of each.

    `positions` are the chunks that they touch, each once, as int64[n, ndim] in C order. Make one with `of`.
    """

    def __cinit__(self, Py_ssize_t count):
        self._items = []
        self.regions = <Region *> malloc(max(count, 1) * sizeof(Region))
        if self.regions == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.regions)

    @staticmethod
    def of(list selections not None, list values not None, Form form not None, tuple shape not None,
           int64_t most, bint writable):
        """`shape` is that of chunks. None if they touch more than `most`, counted for each region."""
        cdef Regions regions = Regions.__new__(Regions, len(selections))
        cdef Py_ssize_t total = 0, count
        for selection, memory in zip(selections, values, strict=True):
            count = 1
            for n in (<Selection?> selection).chunk_counts(shape):
                if n > most:
                    return None
                count = min(count * n, most + 1)
            total += count
            if total > most:
                return None
            if count:
                regions.add(selection, memory, form, writable)
        regions.group(form, shape, total)
        return regions

    cdef int add(self, Selection selection, values, Form form, bint writable) except -1:
        cdef Items items
        cdef Region *region = &self.regions[len(self._items)]
        if selection.is_points or selection.has_lists:
            raise ValueError("regions are of integers and slices")
        items = Items(selection, values, form, None, 0, writable)
        region.selection = <void *> selection
        region.target = items.target
        # What is written is encoded next, and stays in the caches.
        region.target.far = region.target.far and writable
        self._items.append(items)
        return 0

    cdef tuple pairs(self, Form form, tuple shape, Py_ssize_t total):
        cdef Selection selection
        cdef Py_ssize_t at = 0, count, i, number
        cdef int axis
        cdef int64_t rest
        cdef int64_t[ZV_MAX_NDIM] low
        cdef int64_t[ZV_MAX_NDIM] length
        cdef int64_t[:, ::1] place
        cdef int64_t[::1] region
        cdef bint simple
        positions = np.empty((total, form.ndim), np.int64)
        regions = np.empty(total, np.int64)
        place = positions
        region = regions
        for number in range(len(self._items)):
            selection = <Selection> self.regions[number].selection
            simple = True
            count = 1
            for axis, n in enumerate(selection.chunk_counts(shape)):
                low[axis] = selection.axes[axis].start // form.chunk[axis]
                length[axis] = n
                count *= n
                simple = simple and selection.axes[axis].step <= form.chunk[axis]
            region[at:at + count] = number
            if not simple:
                positions[at:at + count] = selection.positions(shape)
            else:
                for i in range(count):
                    rest = i
                    for axis in range(form.ndim - 1, -1, -1):
                        place[at + i, axis] = low[axis] + rest % length[axis]
                        rest = rest // length[axis]
            at += count
        return positions, regions

    cdef int group(self, Form form, tuple shape, Py_ssize_t total) except -1:
        cdef const int64_t[::1] first, which
        positions, regions = self.pairs(form, shape, total)
        order = np.lexsort(np.flip(positions.T, 0)) if form.ndim else np.arange(total)
        positions = positions[order]
        begins = np.ones(len(positions), np.bool_)
        if total:
            begins[1:] = (np.diff(positions, axis=0) != 0).any(axis=1)
        self._columns = (
            np.append(np.flatnonzero(begins), len(positions)).astype(np.int64),
            np.ascontiguousarray(regions[order], np.int64),
        )
        self.positions = np.ascontiguousarray(positions[begins])
        self.count = len(self.positions)
        first, which = self._columns
        if self.count:
            self.first = &first[0]
            self.which = &which[0]
        self.form = form
        return 0

    def covered(self):
        """For each chunk, whether one of the regions covers every item of it that lies inside the array."""
        cdef const int64_t[:, ::1] position = self.positions
        cdef unsigned char[::1] view
        cdef int64_t i
        found = np.zeros(self.count, np.bool_)
        view = found.view(np.uint8)
        for i in range(self.count):
            view[i] = self.is_covered(i, &position[i, 0] if self.form.ndim else NULL)
        return found

    cdef bint is_covered(self, int64_t row, const int64_t *position) noexcept nogil:
        cdef int64_t i
        for i in range(self.first[row], self.first[row + 1]):
            if covers(<Selection> self.regions[self.which[i]].selection, position, self.form.chunk):
                return True
        return False

    cdef const int64_t *rows_of(self, Chunks chunks) except? NULL:
        """`chunks.rows`, checked; NULL: they are all."""
        cdef const int64_t[::1] view
        if chunks.rows is None:
            if chunks.count != self.count:
                raise ValueError("the regions do not fit the chunks")
            return NULL
        if (len(chunks.rows) != chunks.count or chunks.rows.dtype != np.int64
                or (chunks.count and (chunks.rows.min() < 0 or chunks.rows.max() >= self.count))):
            raise ValueError("the rows do not fit the chunks")
        if not chunks.count:
            return NULL
        view = chunks.rows
        return &view[0]


@cython.final
cdef class IntoRegions(Receiver):
    """Chunks are decoded into the values of all regions that touch them."""

    cdef int64_t row_of(self, int64_t chunk) noexcept nogil:
        return chunk if self.rows == NULL else self.rows[chunk]

    cdef Region *only(self, int64_t chunk) noexcept nogil:
        cdef int64_t row = self.row_of(chunk)
        if self.regions.first[row + 1] - self.regions.first[row] != 1:
            return NULL
        return &self.regions.regions[self.regions.which[self.regions.first[row]]]

    cdef Span span(self, int64_t chunk, const Block *block) noexcept nogil:
        cdef Place place = Place(chunk, position_of(self.chunks, chunk))
        cdef Span found = Span(block.nbytes, 0), one
        cdef int64_t row = self.row_of(chunk), i
        cdef Region *region
        for i in range(self.regions.first[row], self.regions.first[row + 1]):
            region = &self.regions.regions[self.regions.which[i]]
            one = span_of(self.chunks.form, <Selection> region.selection, place, block, &region.target)
            if one.begin < one.end:
                found.begin = min(found.begin, one.begin)
                found.end = max(found.end, one.end)
        return found if found.begin < found.end else Span(0, 0)

    cdef uint8_t *place_of(self, int64_t chunk, uint64_t *room) noexcept nogil:
        cdef Region *region = self.only(chunk)
        if region == NULL:
            return NULL
        return place_as_stored(self.chunks, <Selection> region.selection, chunk, room, &region.target)

    cdef bint in_part(self, int64_t chunk, uint64_t *size, Span *span) noexcept nogil:
        cdef Region *region = self.only(chunk)
        cdef Block block
        if region != NULL:
            return lies_in_part(self.chunks, <Selection> region.selection, chunk, &region.target, size, span)
        if not is_as_stored(self.chunks, chunk, &block):
            return False
        span[0] = self.span(chunk, &block)
        size[0] = block.nbytes
        return is_worth_leaving(&block, span)

    cdef bint in_twos(self) noexcept nogil:
        return gains_by_two(self.chunks)

    cdef void expect(self, Slot *slot, const int64_t *two, const Bytes *stored) noexcept nogil:
        decode_ahead(slot, self.chunks, two, stored)

    cdef int receive(self, Slot *slot, int64_t chunk, Bytes stored) noexcept nogil:
        cdef Region *region = self.only(chunk)
        if region == NULL:
            return self.receive_for_many(slot, chunk, stored)
        return read_block(slot, self.chunks, <Selection> region.selection, chunk, stored, &region.target)

    cdef int receive_for_many(self, Slot *slot, int64_t chunk, Bytes stored) noexcept nogil:
        cdef Place place = Place(chunk, position_of(self.chunks, chunk))
        cdef int64_t row = self.row_of(chunk), i
        cdef Region *region
        cdef Block block
        cdef Span span
        cdef Wanted wanted
        cdef uint64_t header
        cdef const uint8_t *values = NULL
        if stored.data != NULL:
            self.chunks.form.written_block(place.position, &block)
            if open_block(slot, self.chunks, chunk, &stored, &block, &header) != 0:
                return -1
            wanted = exactly(block.nbytes, NULL)
            if self.chunks.form.edge != FRAMED_EDGE:
                span = self.span(chunk, &block)
                if span.begin < span.end:
                    wanted.begin = span.begin
                    wanted.end = span.end
            if decode_opened(slot, self.chunks, chunk, stored, header, &wanted, &values) != 0:
                return -1
        for i in range(self.regions.first[row], self.regions.first[row + 1]):
            region = &self.regions.regions[self.regions.which[i]]
            if stored.data == NULL:
                fill_out(self.chunks.form, <Selection> region.selection, place, &region.target)
            else:
                move_out(self.chunks.form, <Selection> region.selection, place, <const char *> values, &block,
                         &region.target)
        return 0


cdef IntoRegions receiver_of(Regions regions, Chunks chunks):
    cdef IntoRegions receiver = IntoRegions.__new__(IntoRegions)
    receiver.regions = regions
    receiver.chunks = chunks
    receiver.rows = regions.rows_of(chunks)
    return receiver


def read_regions(Chunks chunks not None, Regions regions not None, Work work not None):
    """Read all that these chunks have of the regions: whether the array's document, if that is watched, was seen to be
    as before when that was done. `chunks.rows` says which of `regions.positions` they are.
    """
    cdef IntoRegions receiver = receiver_of(regions, chunks)
    if chunks.count == 0:
        return False
    receiver.most = receiver.most_of_two = stored_limit(chunks.form.chunk_nbytes)
    return read_into(receiver, chunks, threads_to_read(receiver, chunks, work), work)


def parts_of_regions(Chunks chunks not None, Regions regions not None):
    """`parts_wanted` of `read_regions`."""
    return parts_of(receiver_of(regions, chunks), chunks)
