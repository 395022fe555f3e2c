/* Atomics and the clock, for which Cython has no syntax. */
#ifndef ZV_ATOMICS_H
#define ZV_ATOMICS_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

static inline int64_t zv_fetch_add(int64_t *value, int64_t n) { return __atomic_fetch_add(value, n, __ATOMIC_RELAXED); }
static inline int zv_load(int *value) { return __atomic_load_n(value, __ATOMIC_ACQUIRE); }
static inline void zv_store(int *value, int n) { __atomic_store_n(value, n, __ATOMIC_RELEASE); }
static inline void zv_store64(int64_t *value, int64_t n) { __atomic_store_n(value, n, __ATOMIC_RELAXED); }
static inline int64_t zv_load64(int64_t *value) { return __atomic_load_n(value, __ATOMIC_RELAXED); }

static inline int zv_compare_and_set(int *value, int expected, int wanted) {
    return __atomic_compare_exchange_n(value, &expected, wanted, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Whether a number was still what was expected and now is the one that is wanted; otherwise `expected` is what it is. */
static inline int zv_compare_and_set64(int64_t *value, int64_t *expected, int64_t wanted) {
    return __atomic_compare_exchange_n(value, expected, wanted, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* For two threads that each say something and then look what the other has said: at least one of them sees it. */
static inline int zv_load_in_order(int *value) { return __atomic_load_n(value, __ATOMIC_SEQ_CST); }
static inline void zv_store_in_order(int *value, int n) { __atomic_store_n(value, n, __ATOMIC_SEQ_CST); }
static inline void *zv_load_pointer(void **place) { return __atomic_load_n(place, __ATOMIC_SEQ_CST); }

/* Puts one in front of a list, in the same order. `next` is where it keeps what is behind it; only all are taken at once. */
static inline void zv_push(void **first, void *one, void **next) {
    void *behind = __atomic_load_n(first, __ATOMIC_RELAXED);
    do *next = behind;
    while (!__atomic_compare_exchange_n(first, &behind, one, 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
}

/* Takes the pointer from a place and leaves NULL there. */
static inline void *zv_take_pointer(void **place) { return __atomic_exchange_n(place, NULL, __ATOMIC_ACQUIRE); }

/* Puts a pointer into a place that holds NULL; returns whether it did. */
static inline int zv_put_pointer(void **place, void *pointer) {
    void *empty = NULL;
    return __atomic_compare_exchange_n(place, &empty, pointer, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static inline int64_t zv_milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#endif
