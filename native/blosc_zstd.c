/* What c-blosc calls for each block of a chunk in the place of ZSTD_decompress, which makes a context for every call.
 *
 * A context belongs to a thread and goes with it. Where none can be had, it is as it would have been.
 */
#include <pthread.h>
#include <stddef.h>

#include "zstd.h"

size_t zv_blosc_zstd_decompress(void *dst, size_t capacity, const void *src, size_t size);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t contexts;
static int has_key;

static void free_context(void *context) { ZSTD_freeDCtx((ZSTD_DCtx *)context); }

static void make_key(void) { has_key = pthread_key_create(&contexts, free_context) == 0; }

static ZSTD_DCtx *context_of_thread(void) {
    pthread_once(&once, make_key);
    if (!has_key) return NULL;
    ZSTD_DCtx *context = (ZSTD_DCtx *)pthread_getspecific(contexts);
    if (context != NULL) return context;
    context = ZSTD_createDCtx();
    if (context != NULL && pthread_setspecific(contexts, context) != 0) {
        ZSTD_freeDCtx(context);
        context = NULL;
    }
    return context;
}

size_t zv_blosc_zstd_decompress(void *dst, size_t capacity, const void *src, size_t size) {
    ZSTD_DCtx *context = context_of_thread();
    if (context == NULL) return ZSTD_decompress(dst, capacity, src, size);
    return ZSTD_decompressDCtx(context, dst, capacity, src, size);
}
