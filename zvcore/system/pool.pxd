"""The pool of threads in `zv_pool.h`. Only one module may cimport this: the pool is then its own."""

from zvcore.system.mutex cimport pthread_mutex_t


cdef extern from "zv_pool.h" nogil:
    ctypedef struct zv_task:
        pass
    pthread_mutex_t zv_pool_lock "zv_pool.mutex"
    void zv_pool_begin()
    void zv_pool_start(zv_task *task, void (*run)(void *, int) noexcept nogil, void *context)
    void zv_pool_ask(zv_task *task, int helpers)
    int zv_pool_wait(zv_task *task, int milliseconds)
    void zv_pool_stop()
