"""What each thread of a batch has for itself: memory, and the failure that it met."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from zvcore.codecs.running cimport Runner
from zvcore.engine.failures cimport Failure
from zvcore.stores.file_writes cimport Folder
from zvcore.system.scratch cimport Scratch


cdef struct Slot:
    Scratch stored              # bytes as they were read
    Scratch other               # those of another chunk, which is decoded together with it
    Scratch values              # a chunk that is being put together
    Scratch cell                # several of them, on their way from one array into another
    Scratch path
    Runner runner               # of the batch's chains
    Failure failure
    Folder folder               # of the files that are being written, open as long as the batch runs
    int64_t place               # where in its plan this thread is; -1 when a batch begins
    int64_t object              # the one that it reads from; see `Stored.done_with`
    int64_t finished            # runs that it has done of that object and not yet told the others of
    uint64_t bytes_in           # stored bytes that it has read, for callers that count them
    int64_t handed_on           # stored chunks that it has handed on, for the same
    Slot *next


# A slot that no other thread uses; NULL when memory is short. Give it back.
cdef Slot *take_slot() noexcept nogil
cdef void give_slot(Slot *slot) noexcept nogil

# `slot.stored` for so many bytes, or NULL. What was decoded of the bytes that lay there is forgotten.
cdef uint8_t *reserve_stored(Slot *slot, uint64_t nbytes) noexcept nogil

# Notes a failure of the slot's thread and returns -1; the caller may add more to `slot.failure`.
cdef int fail(Slot *slot, int kind, int64_t job) noexcept nogil
cdef int fail_frame(Slot *slot, int64_t job, const char *text) noexcept nogil
# Notes that there are not so many bytes of memory.
cdef int fail_memory(Slot *slot, int64_t job, uint64_t nbytes) noexcept nogil
# Notes an errno.
cdef int fail_system(Slot *slot, int64_t job, int code) noexcept nogil
# Notes the failure of `slot.runner` with this chain.
cdef int fail_codec(Slot *slot, int chain, int64_t job) noexcept nogil
# Notes an exception that was raised between the items.
cdef int fail_python(Slot *slot, object error) noexcept with gil
