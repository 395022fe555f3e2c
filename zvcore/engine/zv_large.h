/* Memory for large results, in huge pages where the system has them. */
#ifndef ZV_LARGE_H
#define ZV_LARGE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <sys/mman.h>
#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif
#endif

#define ZV_HUGE_PAGE ((size_t)2 << 20)
#define ZV_ANY_PAGE ((size_t)64 << 10) /* a multiple of every system's ordinary pages */

/* The size of memory for so many bytes. */
static size_t zv_large_size(size_t size) {
    return size > SIZE_MAX - 2 * ZV_HUGE_PAGE ? 0 : (size + ZV_ANY_PAGE - 1) & ~(ZV_ANY_PAGE - 1);
}

typedef struct {
    char *data;
    size_t size;
} zv_large;

#if defined(_WIN32)

/* NULL when memory is short. */
static zv_large *zv_large_new(size_t size) {
    zv_large *large = (zv_large *)malloc(sizeof(zv_large));
    if (large == NULL) return NULL;
    large->size = zv_large_size(size);
    large->data = large->size == 0 ? NULL : (char *)VirtualAlloc(NULL, large->size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    if (large->data == NULL) {
        free(large);
        return NULL;
    }
    return large;
}

static void zv_large_free(zv_large *large) {
    VirtualFree(large->data, 0, MEM_RELEASE);
    free(large);
}

/* What is in it is not needed any more: the system may have its pages if it is short of them. */
static void zv_large_rest(zv_large *large) { VirtualAlloc(large->data, large->size, MEM_RESET, PAGE_READWRITE); }

#else

/* NULL when memory is short. */
static zv_large *zv_large_new(size_t size) {
    zv_large *large = (zv_large *)malloc(sizeof(zv_large));
    if (large == NULL) return NULL;
    size = zv_large_size(size);
    if (size == 0) {
        free(large);
        return NULL;
    }
    char *all = (char *)mmap(NULL, size + ZV_HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == (char *)MAP_FAILED) {
        free(large);
        return NULL;
    }
    const size_t before = (size_t)(-(uintptr_t)all & (ZV_HUGE_PAGE - 1));
    large->data = all + before;
    large->size = size;
    if (before) munmap(all, before);
    if (before < ZV_HUGE_PAGE) munmap(large->data + size, ZV_HUGE_PAGE - before);
#ifdef MADV_HUGEPAGE
    /* The rest, which is less than a huge page, is not to take one. */
    madvise(large->data, size & ~(ZV_HUGE_PAGE - 1), MADV_HUGEPAGE);
#endif
    return large;
}

static void zv_large_free(zv_large *large) {
    munmap(large->data, large->size);
    free(large);
}

/* What is in it is not needed any more: the system may have its pages if it is short of them. */
static void zv_large_rest(zv_large *large) {
#ifdef MADV_FREE
    madvise(large->data, large->size, MADV_FREE);
#endif
}

#endif

#endif
