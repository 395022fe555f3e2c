/* Threads of native code. */
#ifndef ZV_THREAD_H
#define ZV_THREAD_H

#include <pthread.h>
#include <stddef.h>

#if defined(_WIN32)
/* No signals arrive at threads here. */
static inline int zv_start_quietly(pthread_t *thread, void *(*run)(void *)) { return pthread_create(thread, NULL, run, NULL); }
#else
#include <signal.h>

/* Starts a thread at which no signals arrive, since they belong to the interpreter: they must wake its main thread. */
static inline int zv_start_quietly(pthread_t *thread, void *(*run)(void *)) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}
#endif

/* Starts a thread that lives as long as the process and is waited for by nobody: 0 or an errno. */
static inline int zv_start_thread(void *(*run)(void *)) {
    pthread_t thread;
    const int failed = zv_start_quietly(&thread, run);
    if (!failed) pthread_detach(thread);
    return failed;
}

/* A number of the calling thread, from 0 on in the order in which they first ask. Each module counts for itself. */
static inline unsigned zv_thread_number(void) {
    static unsigned asked;
    static __thread unsigned number; /* and one more */
    if (number == 0) number = __atomic_add_fetch(&asked, 1, __ATOMIC_RELAXED);
    return number - 1;
}

#endif
