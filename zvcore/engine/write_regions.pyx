"""Writing many regions at once: a chunk that several of them touch is read, changed and encoded for all."""

cimport cython
from libc.stdint cimport int64_t, uint8_t

from zvcore.engine.chunks cimport Chunks, position_of
from zvcore.engine.encoding cimport begin_block, encode_values
from zvcore.engine.form cimport Block
from zvcore.engine.moving cimport Place, move_in
from zvcore.engine.regions cimport Region, Regions
from zvcore.engine.selection cimport Selection
from zvcore.engine.sinks cimport Sink
from zvcore.engine.slots cimport Slot
from zvcore.engine.work cimport Work
from zvcore.engine.write cimport Encoding, encode_all


@cython.final
@cython.no_gc
cdef class EncodingRegions(Encoding):
    """The values are those of all regions that touch a chunk."""

    cdef int encode(self, Slot *slot, int64_t chunk) noexcept nogil:
        cdef Place place = Place(chunk, position_of(self.chunks, chunk))
        cdef int64_t row = chunk if self.rows == NULL else self.rows[chunk], i
        cdef Region *region
        cdef Block block
        cdef uint8_t *values = begin_block(slot, self.chunks, chunk, self.regions.is_covered(row, place.position),
                                           self.old, self.sink, &block)
        if values == NULL:
            return -1
        for i in range(self.regions.first[row], self.regions.first[row + 1]):
            region = &self.regions.regions[self.regions.which[i]]
            move_in(self.chunks.form, <Selection> region.selection, place, <char *> values, &block, &region.target)
        return encode_values(slot, self.chunks, chunk, values, &block, self.sink)


def encode_regions(Chunks chunks not None, Regions regions not None, Sink sink not None, Work work not None):
    """Encode chunks with the values of the regions, later ones upon earlier ones. `chunks.rows` says which of
    `regions.positions` they are. Those that no region covers are read from the sources first.
    """
    cdef EncodingRegions encoding = EncodingRegions.__new__(EncodingRegions)
    sink.check(chunks.count, chunks.count)
    encoding.regions = regions
    encoding.rows = regions.rows_of(chunks)
    encode_all(encoding, chunks, sink, work)
