"""Locks of native code across a fork: the child has no other thread, so no lock may be held by one that is gone.

A fork takes all locks first, so that what they protect is whole in the child as well. None of them is ever held by a
thread that waits for another of them, or for the GIL, so no order among them matters. The thread that forks is the
exception: what others have to do before a fork comes after this, and may wait for the GIL. So nobody who has the GIL
may wait for one of these locks.
"""

from zvcore.system.imports import at_fork
from zvcore.system.mutex cimport pthread_mutex_init, pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock


cdef enum:
    MOST = 16


cdef struct Guarded:
    pthread_mutex_t *lock
    void (*in_child)() noexcept nogil


cdef Guarded guarded[MOST]
cdef int count = 0


cdef int guard(pthread_mutex_t *lock, void (*in_child)() noexcept nogil) except -1:
    global count
    if count == MOST:
        raise RuntimeError("there are more locks than fork.pyx has room for")
    pthread_mutex_init(lock, NULL)
    guarded[count].lock = lock
    guarded[count].in_child = in_child
    count += 1
    return 0


def _take_all():
    cdef int i
    for i in range(count):
        pthread_mutex_lock(guarded[i].lock)


def _give_all():
    cdef int i
    for i in range(count):
        pthread_mutex_unlock(guarded[i].lock)


def _give_all_in_child():
    cdef int i
    for i in range(count):
        if guarded[i].in_child != NULL:
            guarded[i].in_child()
    _give_all()


at_fork(_take_all, _give_all, _give_all_in_child)
