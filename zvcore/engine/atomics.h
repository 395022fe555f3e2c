/* Atomics and the clock, which Cython has no words for. */
#ifndef ZV_ATOMICS_H
#define ZV_ATOMICS_H

#include <stdint.h>
#include <time.h>

static inline int64_t zv_fetch_add(int64_t *value, int64_t n) { return __atomic_fetch_add(value, n, __ATOMIC_RELAXED); }
static inline int zv_load(int *value) { return __atomic_load_n(value, __ATOMIC_ACQUIRE); }
static inline void zv_store(int *value, int n) { __atomic_store_n(value, n, __ATOMIC_RELEASE); }
static inline int64_t zv_load64(int64_t *value) { return __atomic_load_n(value, __ATOMIC_RELAXED); }
static inline int64_t zv_milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline int zv_compare_and_set(int *value, int expected, int wanted) {
    return __atomic_compare_exchange_n(value, &expected, wanted, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

#endif
