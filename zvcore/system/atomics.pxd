"""The functions of `zv_atomics.h`: numbers and pointers that threads share without a lock."""

from libc.stdint cimport int64_t


cdef extern from "zv_atomics.h" nogil:
    int64_t zv_fetch_add(int64_t *value, int64_t n)
    int zv_load(int *value)
    void zv_store(int *value, int n)
    int64_t zv_load64(int64_t *value)
    void zv_store64(int64_t *value, int64_t n)
    int zv_load_in_order(int *value)
    void zv_store_in_order(int *value, int n)
    int zv_compare_and_set(int *value, int expected, int wanted)
    int zv_compare_and_set64(int64_t *value, int64_t *expected, int64_t wanted)
    void *zv_take_pointer(void **place)
    int zv_put_pointer(void **place, void *pointer)
    void *zv_load_pointer(void **place)
    void zv_push(void **first, void *one, void **next)
    int64_t zv_milliseconds()
