from libc.stdint cimport int64_t, uint8_t, uint64_t

from zvcore.codecs.running cimport Stages
from zvcore.engine.batches cimport Batch
from zvcore.engine.failures cimport Failure
from zvcore.engine.form cimport Block, Form, Target
from zvcore.engine.load cimport Loader
from zvcore.engine.selection cimport Selection
from zvcore.engine.slots cimport Slot


cdef struct ReadPlan:
    void *loader
    void *form
    void *selection
    const int64_t *positions
    const uint8_t *chain
    Target target
    # points
    const int64_t *point_begin
    const int64_t *point_end
    const int64_t *point_source
    const int64_t *point_target


cdef uint64_t stored_limit(uint64_t decoded) noexcept nogil

# From a chunk's stored bytes to its values. `block` is laid out here if the chunk says itself how large it is.
cdef int decode_block(Batch *batch, Slot *slot, Form form, int chain, int64_t chunk, const uint8_t *data, uint64_t size,
                      uint8_t *direct, Block *block, const uint8_t **values) noexcept nogil

# One chunk, from its stored bytes (NULL: absent) into the result.
cdef int read_block(Batch *batch, Slot *slot, ReadPlan *plan, Form form, Selection selection, int64_t chunk,
                    const uint8_t *data, uint64_t size) noexcept nogil

cdef object located(const Failure *failure, list chains, Loader loader, object positions, object names)
cdef Stages **stages_of(list chains) except NULL
