/* Threads of native code that live as long as the process and are waited for by nobody. */
#ifndef ZV_THREAD_H
#define ZV_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* Starts a thread: 0 or an errno. */
static int zv_start_thread(void *(*run)(void *)) {
    pthread_t thread;
    sigset_t all, before;
    /* Signals belong to the interpreter: they must wake its main thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed) pthread_detach(thread);
    return failed;
}

#endif
