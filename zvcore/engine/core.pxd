"""What every batch is made of: threads, scratch memory, failures, and the running of codec chains."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from zvcore.codecs.chain cimport CodecChain, Stages


cdef extern from "atomics.h" nogil:
    int64_t zv_fetch_add(int64_t *value, int64_t n)
    int zv_load(int *value)
    void zv_store(int *value, int n)
    int64_t zv_load64(int64_t *value)
    int zv_compare_and_set(int *value, int expected, int wanted)
    int64_t zv_milliseconds()


cdef enum:
    UNKNOWN_STAGE = -1


cdef enum FailureKind:
    NO_FAILURE = 0
    CODEC_FAILURE           # `status` of zv_codec.h, `stage`, `message`
    SIZE_FAILURE            # decoded size: `expected`, `found`
    RANGE_FAILURE           # a byte range that the object does not have: `found` is the object's size
    FRAME_FAILURE           # a chunk's own header: `message`, `offset`
    SYSTEM_FAILURE          # `status` is errno
    STALE_FAILURE           # the object is not the one whose index was read
    TOO_LARGE_FAILURE       # a stored object larger than it can sensibly be
    MEMORY_FAILURE
    PYTHON_FAILURE          # `exception`
    STOPPED                 # cancelled from outside


cdef struct Failure:
    int kind
    int status
    int stage
    int chain
    int lib_code
    int64_t job
    uint64_t offset, length, expected, found
    void *exception
    char message[248]


cdef struct Scratch:
    uint8_t *data
    uint64_t capacity


cdef struct Slot:
    Scratch stored              # bytes as they were read
    Scratch first
    Scratch second
    Scratch values              # a chunk that is being put together
    Scratch cell                # several of them, on their way from one array into another
    Scratch path
    Failure failure
    void ***workers             # per chain of the batch, taken on first use
    int64_t place               # where in its plan this thread is; -1 when a batch begins
    Slot *next


cdef struct Batch:
    int (*run)(Batch *batch, Slot *slot, int64_t item) noexcept nogil     # 0, or -1 with slot.failure
    void *plan
    int64_t items
    Stages **chains
    int chain_count
    # filled in by run_batch
    int64_t next
    int64_t done
    int stop
    int has_failure
    Failure failure


# At least `size` bytes, contents not kept; NULL when memory is short.
cdef uint8_t *reserve(Scratch *scratch, uint64_t size) noexcept nogil
# The same, contents kept.
cdef uint8_t *grow(Scratch *scratch, uint64_t size, uint64_t keep) noexcept nogil

cdef int fail(Slot *slot, int kind, int64_t job) noexcept nogil

# The bytes that `src` decodes to through a chain. With `expected` known, exactly that many, at `dst` if it is not NULL;
# else as many as come, at most `ceiling`. `*result` may point to src itself or into the slot's scratch.
cdef int decode_chain(Batch *batch, Slot *slot, int chain, int64_t job, const uint8_t *src, uint64_t n, uint8_t *dst,
                      uint64_t expected, uint64_t ceiling, const uint8_t **result, uint64_t *size) noexcept nogil

# The encoded form of `src`, in the slot's scratch (or src itself for an empty chain). `src` may be slot.first.data.
cdef int encode_chain(Batch *batch, Slot *slot, int chain, int64_t job, const uint8_t *src, uint64_t n,
                      const uint8_t **result, uint64_t *size) noexcept nogil

# Runs all items on `threads` threads, the caller's among them. False when batch.failure says what went wrong; a Python
# exception when one came up meanwhile (Ctrl-C, the progress callback).
cdef bint run_batch(Batch *batch, int threads, object progress) except -1

# The exception that a failure stands for, without the where.
cdef object failure_error(const Failure *failure, list chains)

cdef int thread_count(object threads) except -1
