"""What goes wrong when codecs run, noted without the GIL."""

from libc.stdint cimport int32_t, uint64_t

from zvcore.codecs.abi cimport zv_codec, zv_error


cdef enum:
    UNKNOWN_STAGE = -1


# Beyond the statuses of zv_codec.h: failures that the caller of a codec finds.
cdef enum:
    WRONG_SIZE = 64     # `expected` bytes were due, `found` came
    TOO_LONG            # at most `expected` bytes were due
    RAISED              # `exception`, from a codec that works through Python


cdef struct CodecFailure:
    int32_t status
    int stage                   # which codec of the chain; UNKNOWN_STAGE if it concerns none of them
    bint decoding
    uint64_t expected
    uint64_t found              # ZV_SIZE_UNKNOWN: it is not known how many
    void *exception             # a new reference
    zv_error said               # what the codec itself said


cdef inline int32_t fail_size(CodecFailure *failure, int32_t status, uint64_t expected, uint64_t found) noexcept nogil:
    failure.status = status
    failure.expected = expected
    failure.found = found
    return status


# The exception that a failure stands for: the one place where that is decided. `table` is that of the stage, NULL if it
# has none, `name` the codec's. A raised exception stays owned by the failure.
cdef object codec_error(const CodecFailure *failure, const zv_codec *table, object name)
