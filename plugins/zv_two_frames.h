/* libzstd's decoder for two frames at once, where the library was built with one (native/two_frames.h): `make native`
 * says so by ZV_OUR_LIBZSTD.
 */
#ifndef ZV_TWO_FRAMES_H
#define ZV_TWO_FRAMES_H

#include "zstd.h"

#ifdef ZV_OUR_LIBZSTD
#define ZV_KNOWS_TWO_FRAMES 1
#define ZV_KNOWS_FIRST_BLOCKS 1
/* Whether the first bytes were decoded of a single frame that decodes to `out_size` and has no checksum, so that what is
 * behind them need not be. */
int zv_zstd_decompress_first(ZSTD_DCtx *context, void *out, size_t out_size, size_t first, const void *in, size_t in_size);
/* Whether both were decoded, each to exactly so many bytes, because that is faster than one after the other. Where not,
 * each remains to be decoded alone, also to say what is wrong with it. */
int zv_zstd_decompress_two(ZSTD_DCtx *const contexts[2], void *const out[2], const size_t out_size[2],
                           const void *const in[2], const size_t in_size[2]);
#else
#define ZV_KNOWS_TWO_FRAMES 0
#define ZV_KNOWS_FIRST_BLOCKS 0
static inline int zv_zstd_decompress_first(ZSTD_DCtx *context, void *out, size_t out_size, size_t first, const void *in,
                                           size_t in_size) {
    (void) context, (void) out, (void) out_size, (void) first, (void) in, (void) in_size;
    return 0;
}
static inline int zv_zstd_decompress_two(ZSTD_DCtx *const contexts[2], void *const out[2], const size_t out_size[2],
                                         const void *const in[2], const size_t in_size[2]) {
    (void) contexts, (void) out, (void) out_size, (void) in, (void) in_size;
    return 0;
}
#endif

#endif
