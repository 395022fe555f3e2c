"""What every batch is made of: threads, scratch memory, failures, and the running of codec chains.

A batch is a number of items and a C function that does one of them. The calling thread takes part in the work, so a
small batch costs no hand-over, and looks after signals ten times a second. The first failure stops the batch.
"""

import atexit
import os

from cpython.exc cimport PyErr_CheckSignals
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from zvcore.codecs.abi cimport ZV_NOMEM, ZV_OK, ZV_SIZE_UNKNOWN, ZV_SPACE, zv_codec, zv_error
from zvcore.codecs.chain cimport CodecChain, Stages, give_workers, take_workers
from zvcore.codecs.native cimport status_error

from zvcore.errors import CorruptDataError, ZvcoreError
from zvcore.threads import default_thread_count as find_default_thread_count


cdef extern from "pool.h" nogil:
    ctypedef struct zv_task:
        pass
    void zv_pool_start(zv_task *task, void (*run)(void *, int) noexcept nogil, void *context, int helpers)
    int zv_pool_wait(zv_task *task, int milliseconds)
    void zv_pool_stop()
    void zv_pool_before_fork()
    void zv_pool_after_fork_in_parent()
    void zv_pool_after_fork_in_child()


cdef extern from *:
    """
    static pthread_mutex_t zv_slots_lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_mutex_t zv_failure_lock = PTHREAD_MUTEX_INITIALIZER;
    """
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_lock(pthread_mutex_t *) nogil
    int pthread_mutex_unlock(pthread_mutex_t *) nogil
    pthread_mutex_t zv_slots_lock
    pthread_mutex_t zv_failure_lock


cdef enum:
    SIGNAL_MILLISECONDS = 100
    KEPT_SCRATCH = 64 << 20         # a slot that has grown beyond this gives its memory back
    KEPT_SLOTS = 64


# Slots that no thread uses now. The only mutable state of this module, under zv_slots_lock.
cdef Slot *idle_slots = NULL
cdef int idle_slot_count = 0


cdef void _before_fork() noexcept:
    # No lock may be held by a thread that the child does not have.
    pthread_mutex_lock(&zv_slots_lock)
    pthread_mutex_lock(&zv_failure_lock)
    zv_pool_before_fork()


def _fork_hooks():
    def before():
        _before_fork()

    def after_in_parent():
        zv_pool_after_fork_in_parent()
        pthread_mutex_unlock(&zv_failure_lock)
        pthread_mutex_unlock(&zv_slots_lock)

    def after_in_child():
        zv_pool_after_fork_in_child()
        pthread_mutex_unlock(&zv_failure_lock)
        pthread_mutex_unlock(&zv_slots_lock)

    os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=after_in_child)


_fork_hooks()
atexit.register(lambda: _stop_pool())


def _stop_pool():
    with nogil:
        zv_pool_stop()


cdef uint8_t *reserve(Scratch *scratch, uint64_t size) noexcept nogil:
    if scratch.capacity < size or scratch.data == NULL:
        free(scratch.data)
        scratch.capacity = 0
        size = max(<uint64_t> 4096, size + size // 8)
        scratch.data = <uint8_t *> malloc(size)
        if scratch.data != NULL:
            scratch.capacity = size
    return scratch.data


cdef uint8_t *grow(Scratch *scratch, uint64_t size, uint64_t keep) noexcept nogil:
    cdef uint8_t *data
    if scratch.capacity < size:
        if keep == 0:
            return reserve(scratch, size)
        size = size + size // 8
        data = <uint8_t *> realloc(scratch.data, size)
        if data == NULL:
            return NULL
        scratch.data = data
        scratch.capacity = size
    return scratch.data


cdef void trim(Scratch *scratch) noexcept nogil:
    if scratch.capacity > KEPT_SCRATCH:
        free(scratch.data)
        scratch.data = NULL
        scratch.capacity = 0


cdef Slot *take_slot() noexcept nogil:
    global idle_slots, idle_slot_count
    cdef Slot *slot
    pthread_mutex_lock(&zv_slots_lock)
    slot = idle_slots
    if slot != NULL:
        idle_slots = slot.next
        idle_slot_count -= 1
    pthread_mutex_unlock(&zv_slots_lock)
    if slot == NULL:
        slot = <Slot *> calloc(1, sizeof(Slot))
    return slot


cdef void give_slot(Slot *slot) noexcept nogil:
    global idle_slots, idle_slot_count
    trim(&slot.stored)
    trim(&slot.first)
    trim(&slot.second)
    trim(&slot.values)
    trim(&slot.cell)
    pthread_mutex_lock(&zv_slots_lock)
    if idle_slot_count < KEPT_SLOTS:
        slot.next = idle_slots
        idle_slots = slot
        idle_slot_count += 1
        slot = NULL
    pthread_mutex_unlock(&zv_slots_lock)
    if slot != NULL:
        free(slot.stored.data)
        free(slot.first.data)
        free(slot.second.data)
        free(slot.values.data)
        free(slot.cell.data)
        free(slot.path.data)
        free(slot)


cdef int fail(Slot *slot, int kind, int64_t job) noexcept nogil:
    memset(&slot.failure, 0, sizeof(Failure))
    slot.failure.kind = kind
    slot.failure.job = job
    slot.failure.stage = UNKNOWN_STAGE
    return -1


cdef int fail_codec(Slot *slot, int64_t job, int chain, int stage, int status, const zv_error *error) noexcept nogil:
    fail(slot, MEMORY_FAILURE if status == ZV_NOMEM else CODEC_FAILURE, job)
    slot.failure.status = status
    slot.failure.chain = chain
    slot.failure.stage = stage
    slot.failure.lib_code = error.lib_code
    memcpy(slot.failure.message, error.msg, sizeof(error.msg))
    slot.failure.message[sizeof(slot.failure.message) - 1] = 0
    return -1


cdef int fail_python(Slot *slot, int64_t job, int chain, int stage, object error) noexcept with gil:
    fail(slot, PYTHON_FAILURE, job)
    slot.failure.chain = chain
    slot.failure.stage = stage
    Py_INCREF(error)
    slot.failure.exception = <void *> error
    return -1


cdef int fail_size(Slot *slot, int64_t job, int chain, int stage, uint64_t expected, uint64_t found) noexcept nogil:
    fail(slot, SIZE_FAILURE, job)
    slot.failure.chain = chain
    slot.failure.stage = stage
    slot.failure.expected = expected
    slot.failure.found = found
    return -1


cdef void **workers_of(Batch *batch, Slot *slot, int chain) noexcept nogil:
    if slot.workers[chain] == NULL:
        slot.workers[chain] = take_workers(batch.chains[chain])
    return slot.workers[chain]


cdef int run_python_stage(Slot *slot, Stages *stages, int chain, int stage, int64_t job, bint encoding,
                          const uint8_t *src, uint64_t n, uint64_t ceiling, Scratch *out, uint8_t *dst,
                          uint64_t capacity, uint64_t *size) noexcept with gil:
    """One codec without a C table: its result goes to `dst` if that is not NULL, else into `out`."""
    cdef Py_buffer view
    cdef object codec = <object> stages.stage[stage].codec
    cdef object given = None
    cdef bint held = False
    cdef char nothing = 0
    try:
        given = PyMemoryView_FromMemory(<char *> src if n else &nothing, n, PyBUF_READ)
        result = codec.encode(given) if encoding else codec.decode(given, max_size=ceiling)
        PyObject_GetBuffer(result, &view, PyBUF_SIMPLE)
        held = True
        size[0] = view.len
        if dst != NULL:
            if <uint64_t> view.len != capacity:
                return fail_size(slot, job, chain, stage, capacity, view.len)
        else:
            dst = reserve(out, max(<uint64_t> view.len, 1))
            if dst == NULL:
                return fail(slot, MEMORY_FAILURE, job)
        if view.len:
            memcpy(dst, view.buf, view.len)
        return 0
    except BaseException as error:
        return fail_python(slot, job, chain, stage, error)
    finally:
        if held:
            PyBuffer_Release(&view)
        if given is not None:
            try:
                given.release()     # a codec that kept the view must not read freed memory later
            except BufferError:
                pass


cdef int decode_chain(Batch *batch, Slot *slot, int chain, int64_t job, const uint8_t *src, uint64_t n, uint8_t *dst,
                      uint64_t expected, uint64_t ceiling, const uint8_t **result, uint64_t *size) noexcept nogil:
    cdef Stages *stages = batch.chains[chain]
    cdef int count = stages.count
    cdef void **workers
    cdef const zv_codec *table
    cdef Scratch *out = &slot.first
    cdef Scratch *other = &slot.second
    cdef Scratch *swap
    cdef uint64_t limit, capacity, written, hint
    cdef uint8_t *target
    cdef zv_error error
    cdef int stage, i, status
    cdef bint last, exact

    if count == 0:
        if expected != ZV_SIZE_UNKNOWN and n != expected:
            return fail_size(slot, job, chain, UNKNOWN_STAGE, expected, n)
        if expected == ZV_SIZE_UNKNOWN and n > ceiling:
            return fail_size(slot, job, chain, UNKNOWN_STAGE, ceiling, n)
        if dst != NULL:
            memcpy(dst, src, n)
            src = dst
        result[0] = src
        size[0] = n
        return 0

    workers = workers_of(batch, slot, chain)
    if workers == NULL:
        return fail(slot, MEMORY_FAILURE, job)
    for stage in range(count - 1, -1, -1):
        last = stage == 0
        exact = last and expected != ZV_SIZE_UNKNOWN
        table = stages.stage[stage].table
        # The most that this stage may give: what is left to decode can have taken no more when it was encoded, with
        # some room for encoders that are worse than ours.
        limit = expected if expected != ZV_SIZE_UNKNOWN else ceiling
        if not last:
            for i in range(stage):
                if stages.stage[i].table != NULL:
                    limit = max(limit, stages.stage[i].table.bound(stages.stage[i].table.cfg, limit))
            limit = limit + limit // 2 + (1 << 20)
        if table == NULL:
            if run_python_stage(slot, stages, chain, stage, job, False, src, n, limit, out,
                                dst if exact else NULL, expected, &written) != 0:
                return -1
            target = dst if exact and dst != NULL else out.data
        else:
            if exact:
                capacity = expected
            else:
                hint = table.decoded_hint(table.cfg, src, n) if table.decoded_hint != NULL else ZV_SIZE_UNKNOWN
                # A declared size is believed only as far as the input makes it likely; beyond that memory grows step
                # by step.
                capacity = min(hint, 64 * n + 65536) if hint != ZV_SIZE_UNKNOWN else 4 * n + 1024
                capacity = min(capacity, limit)
            while True:
                if exact and dst != NULL:
                    target = dst
                else:
                    target = reserve(out, max(capacity, 1))
                    if target == NULL:
                        return fail(slot, MEMORY_FAILURE, job)
                written = 0
                error.struct_size = sizeof(zv_error)
                error.lib_code = 0
                error.msg[0] = 0
                status = table.decode(table.cfg, workers[stage], src, n, target, capacity, &written, &error)
                if status != ZV_SPACE:
                    break
                # What says of itself that it is longer than it may be gets no room to prove it.
                if capacity >= limit or written > limit:
                    return fail_size(slot, job, chain, stage, limit, ZV_SIZE_UNKNOWN)
                # A hint of 0 may be a lie: room must grow from nothing too.
                capacity = min(limit, max(2 * capacity + 256, written))
            if status != ZV_OK:
                return fail_codec(slot, job, chain, stage, status, &error)
            if written > capacity:
                return fail_size(slot, job, chain, stage, capacity, written)
        if exact and written != expected:
            return fail_size(slot, job, chain, stage, expected, written)
        src = target
        n = written
        swap = out
        out = other
        other = swap
    result[0] = src
    size[0] = n
    if dst != NULL and src != dst:
        if n:
            memcpy(dst, src, n)
        result[0] = dst
    return 0


cdef int encode_chain(Batch *batch, Slot *slot, int chain, int64_t job, const uint8_t *src, uint64_t n,
                      const uint8_t **result, uint64_t *size) noexcept nogil:
    cdef Stages *stages = batch.chains[chain]
    cdef Scratch *out
    cdef void **workers
    cdef const zv_codec *table
    cdef uint64_t capacity, written
    cdef zv_error error
    cdef int stage, status
    if stages.count:
        workers = workers_of(batch, slot, chain)
        if workers == NULL:
            return fail(slot, MEMORY_FAILURE, job)
    for stage in range(stages.count):
        out = &slot.second if src == slot.first.data else &slot.first
        table = stages.stage[stage].table
        if table == NULL:
            if run_python_stage(slot, stages, chain, stage, job, True, src, n, 0, out, NULL, 0, &written) != 0:
                return -1
        else:
            capacity = table.bound(table.cfg, n)
            if reserve(out, max(capacity, 1)) == NULL:
                return fail(slot, MEMORY_FAILURE, job)
            written = 0
            error.struct_size = sizeof(zv_error)
            error.lib_code = 0
            error.msg[0] = 0
            status = table.encode(table.cfg, workers[stage], src, n, out.data, capacity, &written, &error)
            if status != ZV_OK or written > capacity:
                return fail_codec(slot, job, chain, stage, status, &error)
        src = out.data
        n = written
    result[0] = src
    size[0] = n
    return 0


cdef struct Shared:
    Batch *batch
    int64_t checked     # when signals were last looked after, by slot 0
    void *progress


cdef void record_failure(Batch *batch, Slot *slot) noexcept nogil:
    cdef void *unused = NULL
    pthread_mutex_lock(&zv_failure_lock)
    if not batch.has_failure:
        batch.has_failure = 1
        batch.failure = slot.failure
    else:
        unused = slot.failure.exception
    pthread_mutex_unlock(&zv_failure_lock)
    zv_store(&batch.stop, 1)
    if unused != NULL:
        with gil:
            Py_XDECREF(<PyObject *> unused)


cdef int look_around(Shared *shared, Slot *slot) noexcept with gil:
    """Signals and progress, in the calling thread. An exception stops the batch."""
    try:
        PyErr_CheckSignals()
        if shared.progress != NULL:
            (<object> shared.progress)(zv_load64(&shared.batch.done), shared.batch.items)
        return 0
    except BaseException as error:
        fail_python(slot, -1, 0, UNKNOWN_STAGE, error)
        record_failure(shared.batch, slot)
        return -1


cdef void participate(void *context, int number) noexcept nogil:
    """What each thread of a batch does. Number 0 is the calling thread."""
    cdef Shared *shared = <Shared *> context
    cdef Batch *batch = shared.batch
    cdef Slot *slot = take_slot()
    cdef int64_t item, now
    cdef int i
    if slot == NULL:
        zv_store(&batch.stop, 1)
        pthread_mutex_lock(&zv_failure_lock)
        if not batch.has_failure:
            batch.has_failure = 1
            batch.failure.kind = MEMORY_FAILURE
            batch.failure.job = -1
        pthread_mutex_unlock(&zv_failure_lock)
        return
    slot.place = -1
    slot.workers = <void ***> calloc(max(batch.chain_count, 1), sizeof(void **))
    if slot.workers == NULL:
        fail(slot, MEMORY_FAILURE, -1)
        record_failure(batch, slot)
    while slot.workers != NULL and not zv_load(&batch.stop):
        item = zv_fetch_add(&batch.next, 1)
        if item >= batch.items:
            break
        if batch.run(batch, slot, item) != 0:
            record_failure(batch, slot)
            break
        zv_fetch_add(&batch.done, 1)
        if number == 0:
            now = zv_milliseconds()
            if now - shared.checked >= SIGNAL_MILLISECONDS:
                shared.checked = now
                if look_around(shared, slot) != 0:
                    break
    if slot.workers != NULL:
        for i in range(batch.chain_count):
            give_workers(batch.chains[i], slot.workers[i])
        free(slot.workers)
        slot.workers = NULL
    give_slot(slot)


cdef bint run_batch(Batch *batch, int threads, object progress) except -1:
    cdef Shared shared
    cdef zv_task task
    cdef int helpers
    batch.next = 0
    batch.done = 0
    batch.stop = 0
    batch.has_failure = 0
    if batch.items == 0:
        return True
    shared.batch = batch
    shared.checked = zv_milliseconds()
    shared.progress = NULL if progress is None else <void *> progress
    helpers = <int> min(<int64_t> threads, batch.items) - 1
    with nogil:
        zv_pool_start(&task, participate, &shared, helpers)
        participate(&shared, 0)
    cdef object interrupted = None
    cdef bint done = False
    while not done:
        with nogil:
            done = zv_pool_wait(&task, SIGNAL_MILLISECONDS)
        if not done and interrupted is None:
            try:
                PyErr_CheckSignals()
                if progress is not None:
                    progress(zv_load64(&batch.done), batch.items)
            except BaseException as error:
                # The threads still write to the batch's memory: it must not go before they are done.
                interrupted = error
                zv_store(&batch.stop, 1)
    cdef object exception
    if batch.has_failure and batch.failure.kind == PYTHON_FAILURE and batch.failure.job < 0:
        exception = <object> batch.failure.exception
        Py_XDECREF(<PyObject *> batch.failure.exception)
        raise exception
    if interrupted is not None:
        if batch.has_failure:
            Py_XDECREF(<PyObject *> batch.failure.exception)
        raise interrupted
    if batch.has_failure:
        return False
    if progress is not None:
        progress(batch.items, batch.items)
    return True


cdef object failure_error(const Failure *failure, list chains):
    cdef int kind = failure.kind
    cdef CodecChain chain
    cdef object codec = None
    cdef object error
    cdef const zv_codec *table = NULL
    if failure.stage >= 0 and failure.chain < len(chains):
        chain = chains[failure.chain]
        codec = chain.codecs[failure.stage].name
        table = chain.stages.stage[failure.stage].table
    if kind == PYTHON_FAILURE:
        error = <object> failure.exception
        Py_XDECREF(<PyObject *> failure.exception)
        if isinstance(error, ZvcoreError) or not isinstance(error, Exception) or isinstance(error, MemoryError):
            return error
        wrapped = CorruptDataError(f"{type(error).__name__}: {error}", codec=codec)
        wrapped.__cause__ = error
        return wrapped
    if kind == CODEC_FAILURE:
        return status_error(table, failure.status, failure.lib_code, failure.message, True, ZV_SIZE_UNKNOWN, 0)
    text = failure.message.decode(errors="replace")
    if kind == SIZE_FAILURE:
        if failure.found == ZV_SIZE_UNKNOWN:
            return CorruptDataError("the decoded data is too long", codec=codec,
                                    expected=f"at most {failure.expected} bytes", found="more")
        return CorruptDataError("the decoded data has the wrong size", codec=codec,
                                expected=f"{failure.expected} bytes", found=f"{failure.found}")
    if kind == RANGE_FAILURE:
        return CorruptDataError("the byte range reaches beyond the end of the object", offset=failure.offset,
                                length=failure.length, expected=f"at least {failure.offset + failure.length} bytes",
                                found=f"{failure.found}")
    if kind == FRAME_FAILURE:
        if failure.expected:
            return CorruptDataError(text, offset=failure.offset, expected=f"at most {failure.expected} bytes",
                                    found=f"{failure.found}")
        return CorruptDataError(text, offset=failure.offset)
    if kind == TOO_LARGE_FAILURE:
        return CorruptDataError("the stored object is larger than its chunk can be",
                                expected=f"at most {failure.expected} bytes", found=f"{failure.found}")
    if kind == SYSTEM_FAILURE:
        return OSError(failure.status, os.strerror(failure.status))
    if kind == MEMORY_FAILURE:
        return MemoryError("not enough memory for a chunk")
    return ZvcoreError(f"internal failure {kind}")


cdef int default_threads = 0


cdef int thread_count(object threads) except -1:
    """How many threads to use: the argument, else ZVCORE_THREADS, else the CPUs that this process may use."""
    global default_threads
    cdef int count
    if threads is not None:
        count = int(threads)
        if count < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        return min(count, 256)
    if default_threads == 0:
        default_threads = find_default_thread_count()
    return default_threads


def default_thread_count():
    """How many threads are used when nobody says otherwise."""
    return thread_count(None)
