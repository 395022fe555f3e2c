"""A number of items, and a C function that does one of them, run on threads."""

from libc.stdint cimport int64_t

from zvcore.codecs.running cimport Stages
from zvcore.engine.failures cimport Failure
from zvcore.engine.slots cimport Slot


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


# Runs all items on `threads` threads, the caller's among them. False when batch.failure says what went wrong; a Python
# exception when one came up meanwhile (Ctrl-C, the progress callback).
cdef bint run_batch(Batch *batch, int threads, object progress) except -1

cdef int thread_count(object threads) except -1
