"""Batches: a number of items, and a C function that does one of them, run on threads.

The calling thread takes part in the work, so a small batch costs no hand-over, and looks after signals ten times a
second. The first failure stops the batch.
"""

import atexit

from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport Py_XDECREF, PyObject
from libc.stdint cimport int64_t
from libc.string cimport memset

from zvcore.codecs.running cimport begin_running, end_running
from zvcore.engine.failures cimport MEMORY_FAILURE, PYTHON_FAILURE, Failure
from zvcore.engine.slots cimport fail, fail_python, give_slot, take_slot
from zvcore.system.atomics cimport zv_fetch_add, zv_load, zv_load64, zv_milliseconds, zv_store
from zvcore.system.fork cimport guard
from zvcore.system.mutex cimport pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock
from zvcore.system.pool cimport zv_pool_begin, zv_pool_lock, zv_pool_start, zv_pool_stop, zv_pool_wait, zv_task

from zvcore.threads import default_thread_count as find_default_thread_count


cdef enum:
    SIGNAL_MILLISECONDS = 100


cdef pthread_mutex_t failure_lock       # of `failure` and `has_failure` of all batches


cdef void _begin_pool() noexcept nogil:
    zv_pool_begin()


def _stop_pool():
    with nogil:
        zv_pool_stop()


guard(&failure_lock, NULL)
guard(&zv_pool_lock, _begin_pool)
zv_pool_begin()
atexit.register(_stop_pool)


cdef struct Shared:
    Batch *batch
    int64_t checked     # when signals were last looked after, by slot 0
    void *progress


cdef void record_failure(Batch *batch, Slot *slot) noexcept nogil:
    cdef void *unused = NULL
    pthread_mutex_lock(&failure_lock)
    if not batch.has_failure:
        batch.has_failure = 1
        batch.failure = slot.failure
    else:
        unused = slot.failure.exception
    pthread_mutex_unlock(&failure_lock)
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
        fail_python(slot, error)
        record_failure(shared.batch, slot)
        return -1


cdef void participate(void *context, int number) noexcept nogil:
    """What each thread of a batch does. Number 0 is the calling thread."""
    cdef Shared *shared = <Shared *> context
    cdef Batch *batch = shared.batch
    cdef Slot *slot = take_slot()
    cdef int64_t item, now
    cdef bint running
    if slot == NULL:
        zv_store(&batch.stop, 1)
        pthread_mutex_lock(&failure_lock)
        if not batch.has_failure:
            batch.has_failure = 1
            memset(&batch.failure, 0, sizeof(Failure))
            batch.failure.kind = MEMORY_FAILURE
            batch.failure.job = -1
        pthread_mutex_unlock(&failure_lock)
        return
    slot.place = -1
    running = begin_running(&slot.runner, batch.chains, batch.chain_count) == 0
    if not running:
        fail(slot, MEMORY_FAILURE, -1)
        record_failure(batch, slot)
    while running and not zv_load(&batch.stop):
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
    if running:
        end_running(&slot.runner)
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
