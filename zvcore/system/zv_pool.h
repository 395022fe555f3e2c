/* A pool of plain POSIX threads that knows nothing of Python.
 *
 * zv_pool_start begins a task and zv_pool_ask asks for helpers, which may be done again for more; both return at once.
 * The caller does its own share of the work and then waits with zv_pool_wait, which returns after `milliseconds` at the
 * latest so that the caller can handle signals. Threads are made when first needed and kept. zv_pool_begin makes an empty pool, also in the child of a fork, which has none of the
 * threads; zv_pool.mutex is made by `fork.guard`. zv_pool_stop joins all threads before the interpreter goes away.
 *
 * To be included by one module only: that one has the pool.
 */
#ifndef ZV_POOL_H
#define ZV_POOL_H

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "zv_thread.h"

#define ZV_POOL_MAX_THREADS 256

typedef struct zv_task {
    void (*run)(void *context, int slot);
    void *context;
    int wanted;   /* helpers that were asked for */
    int started;  /* helpers that took a slot */
    int running;  /* helpers that have not finished */
    struct zv_task *next;
} zv_task;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t work;     /* a task waits for helpers */
    pthread_cond_t finished; /* a helper finished */
    pthread_t threads[ZV_POOL_MAX_THREADS];
    int count;
    int stopping;
    zv_task *queue;
} zv_pool;

static void zv_pool_unlink(zv_task *task) {
    zv_task **place = &zv_pool.queue;
    while (*place != NULL && *place != task) place = &(*place)->next;
    if (*place == task) *place = task->next;
    task->next = NULL;
}

static void *zv_pool_thread(void *unused) {
    (void)unused;
    pthread_mutex_lock(&zv_pool.mutex);
    while (!zv_pool.stopping) {
        zv_task *task = zv_pool.queue;
        if (task == NULL) {
            pthread_cond_wait(&zv_pool.work, &zv_pool.mutex);
            continue;
        }
        int slot = ++task->started;
        task->running++;
        if (task->started == task->wanted) zv_pool_unlink(task);
        pthread_mutex_unlock(&zv_pool.mutex);
        task->run(task->context, slot);
        pthread_mutex_lock(&zv_pool.mutex);
        if (--task->running == 0) pthread_cond_broadcast(&zv_pool.finished);
    }
    pthread_mutex_unlock(&zv_pool.mutex);
    return NULL;
}

static void zv_pool_start(zv_task *task, void (*run)(void *, int), void *context) {
    task->run = run;
    task->context = context;
    task->wanted = 0;
    task->started = 0;
    task->running = 0;
    task->next = NULL;
}

/* Asks for `helpers` threads in all to call run(context, slot) with slots 1, 2, ...; fewer may come. */
static void zv_pool_ask(zv_task *task, int helpers) {
    if (helpers > ZV_POOL_MAX_THREADS) helpers = ZV_POOL_MAX_THREADS;
    if (helpers <= task->wanted) return; /* which only the caller changes */
    pthread_mutex_lock(&zv_pool.mutex);
    while (zv_pool.count < helpers && !zv_pool.stopping &&
           zv_start_quietly(&zv_pool.threads[zv_pool.count], zv_pool_thread) == 0)
        zv_pool.count++;
    int more = helpers - task->wanted;
    task->wanted = helpers;
    zv_task **place = &zv_pool.queue;
    while (*place != NULL && *place != task) place = &(*place)->next;
    *place = task;
    if (more == 1)
        pthread_cond_signal(&zv_pool.work);
    else
        pthread_cond_broadcast(&zv_pool.work);
    pthread_mutex_unlock(&zv_pool.mutex);
}

/* Takes back the offer to helpers that have not come, and waits for the others. Returns 1 when all are done. */
static int zv_pool_wait(zv_task *task, int milliseconds) {
    struct timespec until;
    if (task->wanted <= 0) return 1;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)milliseconds * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&zv_pool.mutex);
    zv_pool_unlink(task);
    while (task->running > 0) {
        if (pthread_cond_timedwait(&zv_pool.finished, &zv_pool.mutex, &until) == ETIMEDOUT) break;
    }
    int done = task->running == 0;
    pthread_mutex_unlock(&zv_pool.mutex);
    return done;
}

static void zv_pool_stop(void) {
    pthread_mutex_lock(&zv_pool.mutex);
    zv_pool.stopping = 1;
    pthread_cond_broadcast(&zv_pool.work);
    int count = zv_pool.count;
    zv_pool.count = 0;
    pthread_mutex_unlock(&zv_pool.mutex);
    for (int i = 0; i < count; i++) pthread_join(zv_pool.threads[i], NULL);
}

static void zv_pool_begin(void) {
    pthread_cond_init(&zv_pool.work, NULL);
    pthread_cond_init(&zv_pool.finished, NULL);
    zv_pool.count = 0;
    zv_pool.queue = NULL;
    zv_pool.stopping = 0;
}

#endif
