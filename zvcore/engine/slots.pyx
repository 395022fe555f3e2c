"""What a thread of a batch has for itself: memory, and what went wrong. Slots are kept from one batch to the next."""

from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset, strncpy

from zvcore.codecs.failures cimport RAISED
from zvcore.codecs.running cimport forget_ahead, trim_runner
from zvcore.engine.failures cimport (
    CODEC_FAILURE, FRAME_FAILURE, MEMORY_FAILURE, PYTHON_FAILURE, SYSTEM_FAILURE, Failure,
)
from zvcore.stores.file_writes cimport leave_folder
from zvcore.system.fork cimport guard
from zvcore.system.mutex cimport pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock
from zvcore.system.scratch cimport discard, reserve, trim


cdef enum:
    KEPT_SCRATCH = 64 << 20         # a slot that has grown beyond this gives its memory back
    KEPT_SLOTS = 64


# Slots that no thread uses now. The only mutable state of this module, under the lock.
cdef Slot *idle_slots = NULL
cdef int idle_slot_count = 0
cdef pthread_mutex_t slots_lock

guard(&slots_lock, NULL)


cdef Slot *take_slot() noexcept nogil:
    global idle_slots, idle_slot_count
    cdef Slot *slot
    pthread_mutex_lock(&slots_lock)
    slot = idle_slots
    if slot != NULL:
        idle_slots = slot.next
        idle_slot_count -= 1
    pthread_mutex_unlock(&slots_lock)
    if slot == NULL:
        slot = <Slot *> calloc(1, sizeof(Slot))
    return slot


cdef void give_slot(Slot *slot) noexcept nogil:
    global idle_slots, idle_slot_count
    leave_folder(&slot.folder)
    trim(&slot.stored, KEPT_SCRATCH)
    trim(&slot.other, KEPT_SCRATCH)
    trim_runner(&slot.runner, KEPT_SCRATCH)
    trim(&slot.values, KEPT_SCRATCH)
    trim(&slot.cell, KEPT_SCRATCH)
    pthread_mutex_lock(&slots_lock)
    if idle_slot_count < KEPT_SLOTS:
        slot.next = idle_slots
        idle_slots = slot
        idle_slot_count += 1
        slot = NULL
    pthread_mutex_unlock(&slots_lock)
    if slot != NULL:
        discard(&slot.stored)
        discard(&slot.other)
        trim_runner(&slot.runner, 0)
        discard(&slot.values)
        discard(&slot.cell)
        discard(&slot.path)
        free(slot)


cdef uint8_t *reserve_stored(Slot *slot, uint64_t nbytes) noexcept nogil:
    # It is known by where its bytes lay, and how many they were: others of the same length would be taken for them.
    forget_ahead(&slot.runner)
    return reserve(&slot.stored, nbytes)


cdef int fail(Slot *slot, int kind, int64_t job) noexcept nogil:
    memset(&slot.failure, 0, sizeof(Failure))
    slot.failure.kind = kind
    slot.failure.job = job
    return -1


cdef int fail_frame(Slot *slot, int64_t job, const char *text) noexcept nogil:
    fail(slot, FRAME_FAILURE, job)
    strncpy(slot.failure.message, text, sizeof(slot.failure.message) - 1)
    return -1


cdef int fail_memory(Slot *slot, int64_t job, uint64_t nbytes) noexcept nogil:
    fail(slot, MEMORY_FAILURE, job)
    slot.failure.expected = nbytes
    return -1


cdef int fail_system(Slot *slot, int64_t job, int code) noexcept nogil:
    fail(slot, SYSTEM_FAILURE, job)
    slot.failure.status = code
    return -1


cdef int fail_codec(Slot *slot, int chain, int64_t job) noexcept nogil:
    fail(slot, CODEC_FAILURE, job)
    slot.failure.chain = chain
    slot.failure.codec = slot.runner.failure
    if slot.failure.codec.status == RAISED:
        slot.failure.exception = slot.failure.codec.exception
    return -1


cdef int fail_python(Slot *slot, object error) noexcept with gil:
    fail(slot, PYTHON_FAILURE, -1)
    Py_INCREF(error)
    slot.failure.exception = <void *> error
    return -1
