"""From the stored bytes of a chunk to its items, in a thread."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from zvcore.codecs.running cimport Bytes, Wanted
from zvcore.engine.chunks cimport Chunks
from zvcore.engine.form cimport Block
from zvcore.engine.load cimport Stored
from zvcore.engine.moving cimport Joining, Span, Target
from zvcore.engine.selection cimport Selection
from zvcore.engine.slots cimport Slot


# The largest stored form of a chunk that is believed. No encoder makes data many times larger. A chunk may claim to be
# of any size: what is more than any object has is no limit, and does not begin at nothing again.
cdef inline uint64_t stored_limit(uint64_t decoded) noexcept nogil:
    return 8 * decoded + (16 << 20) if decoded < <uint64_t> 1 << 59 else <uint64_t> 1 << 62


# A chunk's values; codecs write them straight to `direct` if that is not NULL and they fit into its `room` bytes.
# `block` is laid out here if the chunk's own header says how large it is.
cdef int decode_block(Slot *slot, Chunks chunks, int64_t chunk, Bytes stored, uint8_t *direct, uint64_t room,
                      Block *block, const uint8_t **values) noexcept nogil

# Takes off what a framed chunk says of itself, `header` bytes, and lays out the block by it.
cdef int open_block(Slot *slot, Chunks chunks, int64_t chunk, Bytes *stored, Block *block,
                    uint64_t *header) noexcept nogil
# The values of an opened chunk.
cdef int decode_opened(Slot *slot, Chunks chunks, int64_t chunk, Bytes stored, uint64_t header, const Wanted *wanted,
                       const uint8_t **values) noexcept nogil
# Whether the values of a chunk, laid out as `block`, are its stored bytes.
cdef bint is_as_stored(Chunks chunks, int64_t chunk, Block *block) noexcept nogil
# Whether so much of a chunk that is stored as it is is not wanted that it is not read.
cdef bint is_worth_leaving(const Block *block, const Span *span) noexcept nogil

# Whether chunks are decoded in less time two at a time, which the following two are for.
cdef bint gains_by_two(Chunks chunks) noexcept nogil
# The stored bytes of two chunks, in slot.other and slot.stored unless they are at hand.
cdef int load_two(Slot *slot, Stored stored, const int64_t *two, uint64_t most, Bytes *found) noexcept nogil
# Decodes two chunks for those who ask for their values before `forget_ahead`, if that can be done.
cdef void decode_ahead(Slot *slot, Chunks chunks, const int64_t *two, const Bytes *stored) noexcept nogil
# The same for byte strings of these sizes, ZV_SIZE_UNKNOWN for what only the stored bytes may say.
cdef void decode_ahead_of_sizes(Slot *slot, Chunks chunks, const int64_t *two, const Bytes *stored,
                                const uint64_t *sizes) noexcept nogil

# One chunk, from its stored bytes (NULL: absent) to the values of a selection.
cdef int read_block(Slot *slot, Chunks chunks, Selection selection, int64_t chunk, Bytes stored,
                    const Target *target) noexcept nogil

# Chunks that can be joined.
cdef struct Neighbours:
    const Joining *how
    const int64_t *order                # which they are
    int64_t count
    const Bytes *together               # their bytes; NULL: they are loaded one after the other


# Several chunks at once; `apart` is where they are loaded from.
cdef int read_joined(Slot *slot, Chunks chunks, Selection selection, const Neighbours *some, Stored apart,
                     const Target *target) noexcept nogil

# Whether it is worth it to read no more of a chunk than a selection wants, whose bytes are stored as they are: `span`
# of the `size` bytes that the chunk has.
cdef bint lies_in_part(Chunks chunks, Selection selection, int64_t chunk, const Target *target, uint64_t *size,
                       Span *span) noexcept nogil

# Where the bytes of a chunk can be read to as they are, if there are `room` of them: its place among the values of the
# selection. NULL if its bytes do not lie there in that way.
cdef uint8_t *place_as_stored(Chunks chunks, Selection selection, int64_t chunk, uint64_t *room,
                              const Target *target) noexcept nogil
