from libc.stdint cimport int64_t, uint8_t, uint64_t

from zvcore.engine.batches cimport Batch
from zvcore.engine.form cimport Block, Form, Target
from zvcore.engine.selection cimport Selection
from zvcore.engine.slots cimport Slot


cdef struct WritePlan:
    void *loader            # of the chunks' present bytes; NULL: all are covered
    void *form
    void *selection
    void *results           # Buffers, or NULL: files are written
    void *packer            # Packer, or NULL: every chunk is an object
    void *files             # Loader used for its paths
    const int64_t *positions
    const uint8_t *chain
    const uint8_t *covered
    Target target
    const int64_t *point_begin
    const int64_t *point_end
    const int64_t *point_source
    const int64_t *point_target
    int store_empty
    int sync


# One chunk, from the values of the selection to where it is stored.
cdef int encode_block(Batch *batch, Slot *slot, WritePlan *plan, Form form, Selection selection,
                      int64_t chunk) noexcept nogil
# The same for values that lie as they are stored, in a block as it is written.
cdef int encode_values(Batch *batch, Slot *slot, WritePlan *plan, Form form, int64_t chunk, const Block *block,
                       const uint8_t *values) noexcept nogil
# The chunk's place in slot.values, if it reaches over the end of the array and is written whole: filled.
cdef int fill_beyond(Form form, Slot *slot, const int64_t *position, const Block *block) noexcept nogil
