"""A number of items that threads do one after the other.

The calling thread takes part in the work, so a small batch costs no hand-over, and looks after signals ten times a
second. The first failure stops the batch.
"""

import atexit

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport Py_XDECREF, PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcmp, memcpy, memset

from zvcore.codecs.running cimport begin_running, end_running
from zvcore.engine.failures cimport MEMORY_FAILURE, PYTHON_FAILURE, Failure
from zvcore.engine.slots cimport Slot, fail, fail_python, give_slot, take_slot
from zvcore.engine.work cimport Work
from zvcore.stores.files cimport stamp_object
from zvcore.system.atomics cimport (
    zv_compare_and_set64, zv_fetch_add, zv_load, zv_load64, zv_milliseconds, zv_store,
)
from zvcore.system.files cimport file_stamp
from zvcore.system.fork cimport guard
from zvcore.system.interpreter cimport zv_need_python
from zvcore.system.mutex cimport pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock
from zvcore.system.pool cimport (
    zv_pool_ask, zv_pool_begin, zv_pool_lock, zv_pool_start, zv_pool_stop, zv_pool_wait, zv_task,
)


cdef enum:
    SIGNAL_MILLISECONDS = 100
    TELL_MILLISECONDS = 10
    # How long a caller works alone that found others at work: a small read is done before a helper has got one of the
    # processors, which the others have.
    ALONE_MILLISECONDS = 2
    LINE = 64               # bytes of the caches that only one processor can write at a time
    CLAIMS = 4


cdef pthread_mutex_t failure_lock       # of `failure` and `has_failure` of all batches
cdef int64_t callers = 0                # that are at work now, each on a batch of its own; changed atomically


cdef void _begin_pool() noexcept nogil:
    global callers
    callers = 0         # a child of a fork has none of the threads
    zv_pool_begin()


def _stop_pool():
    with nogil:
        zv_pool_stop()


guard(&failure_lock, NULL)
guard(&zv_pool_lock, _begin_pool)
zv_pool_begin()
atexit.register(_stop_pool)


# What the threads of one batch share. What is written again and again has lines of the caches for itself. In front of
# it there may be anything: it lies on the stack of a thread that takes part.
cdef struct Batch:
    char[LINE] ahead
    void *task
    Failure *failure
    int64_t items
    int threads
    int spare               # threads that have no items, but may take part in one
    int stop
    int has_failure
    int64_t checked         # when signals were last looked after, by the calling thread
    int64_t asking          # when that is to ask for all helpers; 0: it has
    zv_task *helpers
    void *progress
    char[LINE] apart
    int64_t next            # taken atomically
    int64_t done            # counted only where there is a callback for progress, some items at a time
    char[LINE] behind


cdef void record_failure(Batch *batch, const Failure *failure) noexcept nogil:
    cdef void *unused = NULL
    pthread_mutex_lock(&failure_lock)
    if not batch.has_failure:
        batch.has_failure = 1
        batch.failure[0] = failure[0]
    else:
        unused = failure.exception
    pthread_mutex_unlock(&failure_lock)
    zv_store(&batch.stop, 1)
    if unused != NULL:
        zv_need_python()
        with gil:
            Py_XDECREF(<PyObject *> unused)


cdef void work_together(void (*run)(void *, int) noexcept nogil, void *context, int count) noexcept nogil:
    """With threads of the pool that have nothing to do: a `Together` of codecs/parts.pxd."""
    cdef zv_task helpers
    zv_pool_start(&helpers, run, context)
    zv_pool_ask(&helpers, count)
    run(context, 0)
    while not zv_pool_wait(&helpers, SIGNAL_MILLISECONDS):
        pass


cdef int look_around(Batch *batch, Slot *slot) noexcept with gil:
    """Signals and progress, in the calling thread. What was raised is to be recorded without the GIL, as that waits."""
    try:
        PyErr_CheckSignals()
        if batch.progress != NULL:
            (<object> batch.progress)(zv_load64(&batch.done), batch.items)
        return 0
    except BaseException as error:
        fail_python(slot, error)
        return -1


cdef void participate(void *context, int number) noexcept nogil:
    """What each thread of a batch does. Number 0 is the calling thread."""
    cdef Batch *batch = <Batch *> context
    cdef Failure no_memory
    cdef Slot *slot = take_slot()
    if slot == NULL:
        memset(&no_memory, 0, sizeof(Failure))
        no_memory.kind = MEMORY_FAILURE
        no_memory.job = -1
        record_failure(batch, &no_memory)
        return
    slot.place = slot.object = -1
    slot.finished = slot.bytes_in = slot.handed_on = 0
    slot.runner.helpers.together = work_together
    slot.runner.helpers.count = batch.spare // batch.threads + (number < batch.spare % batch.threads)
    if begin_running(&slot.runner, (<Task> batch.task).chains.stages, (<Task> batch.task).chains.count) != 0:
        fail(slot, MEMORY_FAILURE, -1)
        record_failure(batch, &slot.failure)
    else:
        do_items(batch, slot, number == 0)
        (<Task> batch.task).leave(slot)
        end_running(&slot.runner)
    give_slot(slot)


cdef int64_t claim(Batch *batch, int64_t *end) noexcept nogil:
    """Items that a thread is to do next, up to `end`. The fewer are left the fewer they are: threads seldom meet here,
    and still come to an end together.
    """
    cdef int64_t first = zv_load64(&batch.next), left, count
    while first < batch.items:
        left = batch.items - first
        count = left
        if batch.threads > 1:
            count = max(<int64_t> 1, left // (CLAIMS * batch.threads))
            if (<Task> batch.task).in_twos and left >= 2 * batch.threads:
                count += count % 2
        end[0] = first + count
        if zv_compare_and_set64(&batch.next, &first, end[0]):
            return first
    end[0] = batch.items
    return batch.items


cdef void do_items(Batch *batch, Slot *slot, bint looking) noexcept nogil:
    cdef int64_t item = 0, end = 0, now = 0, done = 0, told = 0, some
    while not zv_load(&batch.stop):
        if item == end:
            item = claim(batch, &end)
            if item == end:
                return
        some = 2 if (<Task> batch.task).in_twos and end - item >= 2 else 1
        if ((<Task> batch.task).run_two(slot, item) if some == 2 else (<Task> batch.task).run(slot, item)) != 0:
            record_failure(batch, &slot.failure)
            return
        item += some
        done += some
        if looking or batch.progress != NULL:
            now = zv_milliseconds()
        if looking and batch.asking and now >= batch.asking:
            batch.asking = 0
            zv_pool_ask(batch.helpers, batch.threads - 1)
        if batch.progress != NULL and (item == end or now - told >= TELL_MILLISECONDS):
            zv_fetch_add(&batch.done, done)
            done = 0
            told = now
        if looking and now - batch.checked >= SIGNAL_MILLISECONDS:
            batch.checked = now
            zv_need_python()
            if look_around(batch, slot) != 0:
                record_failure(batch, &slot.failure)
                return


cdef void ask_for_helpers(Batch *batch, int64_t room) noexcept nogil:
    """As many as there are threads that other callers do not use; for the others, if it takes longer."""
    if room < batch.threads - 1:
        batch.asking = batch.checked + ALONE_MILLISECONDS
    zv_pool_ask(batch.helpers, <int> min(room, <int64_t> (batch.threads - 1)))


cdef object wait_for(Batch *batch, object progress):
    """Until the helpers are done: what was raised meanwhile, or None."""
    cdef object interrupted = None
    cdef bint done = False
    while not done:
        if interrupted is None:
            try:
                PyErr_CheckSignals()
                if progress is not None:
                    progress(zv_load64(&batch.done), batch.items)
            except BaseException as error:
                # The threads still write to the batch's memory: it must not go before they are done.
                interrupted = error
                zv_store(&batch.stop, 1)
        with nogil:
            done = zv_pool_wait(batch.helpers, SIGNAL_MILLISECONDS)
    return interrupted


# What a task holds does not lead back to it, so there is nothing for the garbage collector to find.
@cython.no_gc
cdef class Task:
    """What threads do with items. A class of each kind of work says how to do one."""

    cdef int run(self, Slot *slot, int64_t item) noexcept nogil:
        return 0

    cdef int run_two(self, Slot *slot, int64_t item) noexcept nogil:
        return -1 if self.run(slot, item) != 0 else self.run(slot, item + 1)

    cdef void leave(self, Slot *slot) noexcept nogil:
        pass

    cdef int watch(self, Work work) except -1:
        stamp = None if work.watched is None else work.watched.stamp
        if stamp is not None and PyBytes_GET_SIZE(stamp) == sizeof(file_stamp):
            memcpy(&self.expected, PyBytes_AS_STRING(stamp), sizeof(file_stamp))
            self.path = work.watched.path
        return 0

    cdef bint perform(self, int64_t items, int threads, object progress, Failure *failure) except -1:
        cdef Batch batch
        cdef zv_task helpers
        cdef bint done
        cdef file_stamp found
        cdef const char *path = NULL if self.path is None else PyBytes_AS_STRING(self.path)
        if items == 0:
            return True
        memset(&batch, 0, sizeof(Batch))
        batch.task = <void *> self
        batch.failure = failure
        batch.items = items
        batch.threads = <int> min(<int64_t> threads, items)
        batch.spare = threads - batch.threads
        batch.checked = zv_milliseconds()
        batch.progress = NULL if progress is None else <void *> progress
        batch.helpers = &helpers
        with nogil:
            zv_pool_start(&helpers, participate, &batch)
            ask_for_helpers(&batch, threads - 1 - zv_fetch_add(&callers, 1))
            participate(&batch, 0)
            zv_fetch_add(&callers, -1)
            done = zv_pool_wait(&helpers, SIGNAL_MILLISECONDS)
            if done and path != NULL and stamp_object(path, &found) == 0:
                self.unchanged = memcmp(&found, &self.expected, sizeof(file_stamp)) == 0
        interrupted = None if done else wait_for(&batch, progress)
        if batch.has_failure and failure.kind == PYTHON_FAILURE:
            exception = <object> failure.exception
            Py_XDECREF(<PyObject *> failure.exception)
            raise exception
        if interrupted is not None:
            if batch.has_failure:
                Py_XDECREF(<PyObject *> failure.exception)
            raise interrupted
        if batch.has_failure:
            return False
        if progress is not None:
            progress(items, items)
        return True
