"""A failure in a thread, kept until the batch is over."""

from libc.stdint cimport int64_t, uint64_t

from zvcore.codecs.failures cimport CodecFailure


cdef enum FailureKind:
    NO_FAILURE = 0
    CODEC_FAILURE           # `codec`, of the batch's chain number `chain`
    RANGE_FAILURE           # a byte range that the object does not have: `found` is the object's size
    FRAME_FAILURE           # a chunk's own header: `message`, `offset`
    SYSTEM_FAILURE          # `status` is errno
    CHECKSUM_FAILURE        # stored bytes have the checksum `found` where `expected` was said
    STALE_FAILURE           # the object is not the one whose index was read
    TOO_LARGE_FAILURE       # a stored object is larger than its chunk could make it
    MEMORY_FAILURE          # `expected` bytes are not there, if it is known how many
    PYTHON_FAILURE          # `exception`, raised between the items
    STOPPED                 # cancelled from outside


cdef struct Failure:
    int kind
    int status
    int chain
    int64_t job
    uint64_t offset, length, expected, found
    void *exception         # a new reference
    char message[248]
    CodecFailure codec


# The exception that a failure stands for, without where it happened.
cdef object failure_error(const Failure *failure, tuple chains)
