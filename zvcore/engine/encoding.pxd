"""From the items of a chunk to its stored bytes, in a thread."""

from libc.stdint cimport int64_t, uint8_t

from zvcore.engine.chunks cimport Chunks
from zvcore.engine.form cimport Block, Form
from zvcore.engine.load cimport Stored
from zvcore.engine.moving cimport Joining, Target
from zvcore.engine.selection cimport Selection
from zvcore.engine.sinks cimport Sink
from zvcore.engine.slots cimport Slot


# Memory for a chunk's values, which have to be put there unless they come from `old` and are not covered by others;
# `block` is how they lie. NULL with a failure.
cdef uint8_t *begin_block(Slot *slot, Chunks chunks, int64_t chunk, bint covered, Stored old, Sink sink,
                          Block *block) noexcept nogil
# One chunk, from the values of the selection to the sink. Items that the selection does not cover come from `old`;
# None: it covers all that matter.
cdef int encode_block(Slot *slot, Chunks chunks, Selection selection, int64_t chunk, const Target *target, Stored old,
                      Sink sink) noexcept nogil
# Several chunks that can be joined, the first one and those that follow it, all of whose items the selection covers.
cdef int encode_joined(Slot *slot, Chunks chunks, Selection selection, const Joining *how, int64_t first, int64_t count,
                       const Target *target, Sink sink) noexcept nogil
# The same for values that already lie as they are stored, in a block as large as the one that is written.
cdef int encode_values(Slot *slot, Chunks chunks, int64_t chunk, const uint8_t *values, const Block *block,
                       Sink sink) noexcept nogil
# Sets the values to the fill value for a chunk that reaches beyond the end of the array and is written whole.
cdef void fill_beyond(Form form, uint8_t *values, const int64_t *position, const Block *block) noexcept nogil
