"""Runs codecs: one of them for users, chains of them for the engine's threads. Needs no GIL."""

from libc.stdint cimport int32_t, uint8_t, uint64_t

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN, zv_codec
from zvcore.codecs.failures cimport CodecFailure
from zvcore.codecs.parts cimport Helpers
from zvcore.codecs.workers cimport Workers
from zvcore.system.scratch cimport Scratch


cdef struct Bytes:
    const uint8_t *data
    uint64_t size


# -- one codec ------------------------------------------------------------------------------------------------------

# A codec's table at work on the bytes of one chunk.
cdef struct Attempt:
    const zv_codec *table
    void *worker
    Bytes given
    uint64_t limit          # the most bytes that the result may have
    uint64_t room           # how many bytes of memory the codec gets
    uint64_t size           # of the result


# All three return the status that they leave in `failure`.
#
# Sets the room for a first try to decode; ZV_OK, or TOO_LONG when the stream itself declares more than the limit.
cdef int32_t begin_decoding(Attempt *attempt, CodecFailure *failure) noexcept nogil
# Tries. After ZV_SPACE `more_room` sets the room for another try, or makes it a TOO_LONG.
cdef int32_t try_decoding(Attempt *attempt, uint8_t *into, CodecFailure *failure) noexcept nogil
cdef int32_t more_room(Attempt *attempt, CodecFailure *failure) noexcept nogil

# Decodes into memory of exactly the expected size, which is the room.
cdef int32_t decode_exactly(Attempt *attempt, uint8_t *into, CodecFailure *failure) noexcept nogil
# Encodes with room for `bound` bytes.
cdef int32_t encode_once(Attempt *attempt, uint8_t *into, CodecFailure *failure) noexcept nogil


# -- chains of codecs -------------------------------------------------------------------------------------------------

cdef struct Stage:
    const zv_codec *table       # NULL: this codec works through Python
    Workers *workers            # of the table
    void *codec                 # the Python object, borrowed from the chain


cdef struct Stages:
    Stage *stage                # in the order of encoding
    int count


# What was decoded before it is asked for.
cdef struct Ahead:
    const uint8_t *given        # NULL: nothing
    uint64_t given_size
    int chain
    Scratch values
    uint64_t size


# What one thread runs chains with. Zeros to begin with.
cdef struct Runner:
    Stages **chains             # borrowed between begin_running and end_running
    int chain_count
    Scratch workers             # one for each stage of each chain, taken on first use
    Scratch first, second       # what comes out of the stages in turn
    Ahead ahead[2]              # between decode_two_ahead and forget_ahead
    Helpers helpers             # threads that may take part in decoding one chunk
    CodecFailure failure        # after -1


# What decoding is to give.
cdef struct Wanted:
    uint8_t *into               # where exactly `size` bytes are to go; NULL: anywhere
    uint64_t size               # ZV_SIZE_UNKNOWN: as many bytes as there are,
    uint64_t most               # but no more than this
    uint64_t begin, end         # where `size` is known: which of the bytes count, the others may be anything


cdef inline Wanted exactly(uint64_t size, uint8_t *into) noexcept nogil:
    cdef Wanted wanted
    wanted.into = into
    wanted.size = wanted.most = wanted.end = size
    wanted.begin = 0
    return wanted


cdef inline Wanted at_most(uint64_t size) noexcept nogil:
    cdef Wanted wanted
    wanted.into = NULL
    wanted.size = ZV_SIZE_UNKNOWN
    wanted.most = size
    wanted.begin = wanted.end = 0
    return wanted


# Between these two a runner runs the given chains, by their number. -1 when memory is short.
cdef int begin_running(Runner *runner, Stages **chains, int chain_count) noexcept nogil
cdef void end_running(Runner *runner) noexcept nogil
# Frees each piece of its memory that has grown beyond `most` bytes.
cdef void trim_runner(Runner *runner, uint64_t most) noexcept nogil

# Whether a chunk of `size` bytes lies in `stored` as it is, without anything to decode: then `result` is where. What is
# wrong with `stored` is not told; `decode_chain` does that.
cdef bint find_plain(const Runner *runner, int chain, Bytes stored, uint64_t size, Bytes *result) noexcept nogil

cdef enum:
    MOST_AHEAD = 4 << 20            # bytes that two chunks decoded at once may each have

# Whether chunks of these stages gain by this, as far as is known without a look at any stream.
cdef bint decodes_two(const Stages *stages) noexcept nogil
# Decodes two chunks of `size[i]` bytes at once, if that can be done: `decode_chain`, asked for them before
# `forget_ahead`, then has less to do. That is all; what is wrong with any of them, it says.
cdef void decode_two_ahead(Runner *runner, int chain, const Bytes *stored, const uint64_t *size) noexcept nogil
cdef void forget_ahead(Runner *runner) noexcept nogil

# What `stored` decodes to. The result may lie in `stored`, or lie in the runner until it runs again. 0, or -1 with
# `runner.failure`.
cdef int decode_chain(Runner *runner, int chain, Bytes stored, const Wanted *wanted, Bytes *result) noexcept nogil
# The stored form of `plain`, in the runner, or `plain` itself if the chain is empty.
cdef int encode_chain(Runner *runner, int chain, Bytes plain, Bytes *result) noexcept nogil
