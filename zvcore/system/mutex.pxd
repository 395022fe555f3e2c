"""Locks that need no GIL. Those that live as long as the process are registered with `fork.guard`."""


cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_init(pthread_mutex_t *lock, void *attributes)
    int pthread_mutex_destroy(pthread_mutex_t *lock)
    int pthread_mutex_lock(pthread_mutex_t *lock)
    int pthread_mutex_trylock(pthread_mutex_t *lock)
    int pthread_mutex_unlock(pthread_mutex_t *lock)

    ctypedef struct pthread_cond_t:
        pass
    int pthread_cond_init(pthread_cond_t *condition, void *attributes)
    int pthread_cond_signal(pthread_cond_t *condition)
    int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock)
