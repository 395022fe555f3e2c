"""The running of codec chains in the threads of a batch."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from zvcore.engine.batches cimport Batch
from zvcore.engine.slots cimport Slot


# The bytes that `src` decodes to through a chain. With `expected` known, exactly that many, at `dst` if it is not NULL;
# else as many as come, at most `ceiling`. `*result` may point to src itself or into the slot's scratch.
cdef int decode_chain(Batch *batch, Slot *slot, int chain, int64_t job, const uint8_t *src, uint64_t n, uint8_t *dst,
                      uint64_t expected, uint64_t ceiling, const uint8_t **result, uint64_t *size) noexcept nogil

# The encoded form of `src`, in the slot's scratch (or src itself for an empty chain). `src` may be slot.first.data.
cdef int encode_chain(Batch *batch, Slot *slot, int chain, int64_t job, const uint8_t *src, uint64_t n,
                      const uint8_t **result, uint64_t *size) noexcept nogil
