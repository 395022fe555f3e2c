/* To be preloaded: counts how often locks are taken, whoever takes them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

static long counted;

long locks_taken(void) { return __atomic_load_n(&counted, __ATOMIC_SEQ_CST); }

#define COUNTED(name, type)                                                   \
    int name(type *lock) {                                                    \
        static int (*next)(type *);                                           \
        if (next == NULL) next = (int (*)(type *))dlsym(RTLD_NEXT, #name);    \
        __atomic_fetch_add(&counted, 1, __ATOMIC_SEQ_CST);                    \
        return next(lock);                                                    \
    }

COUNTED(pthread_mutex_lock, pthread_mutex_t)
COUNTED(pthread_mutex_trylock, pthread_mutex_t)
COUNTED(pthread_spin_lock, pthread_spinlock_t)
COUNTED(pthread_rwlock_rdlock, pthread_rwlock_t)
COUNTED(pthread_rwlock_wrlock, pthread_rwlock_t)
