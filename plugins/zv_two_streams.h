/* libdeflate's decoder for two streams at once, where the library was built with one (native/two_streams.h): `make native`
 * says so by ZV_OUR_LIBDEFLATE.
 */
#ifndef ZV_TWO_STREAMS_H
#define ZV_TWO_STREAMS_H

#include <stddef.h>

#ifdef ZV_OUR_LIBDEFLATE
/* Whether there is one for this processor. */
int zv_knows_two_streams(void);
/* What it needs, to be freed by `free`; NULL when memory is short. */
void *zv_alloc_two_streams(void);
/* Whether both streams of deflate take exactly so many bytes, and give exactly so many. */
int zv_deflate_decompress_two(void *streams, const void *const in[2], const size_t in_size[2], void *const out[2],
                              const size_t out_size[2]);
#else
static inline int zv_knows_two_streams(void) { return 0; }
static inline void *zv_alloc_two_streams(void) { return NULL; }
static inline int zv_deflate_decompress_two(void *streams, const void *const in[2], const size_t in_size[2],
                                            void *const out[2], const size_t out_size[2]) {
    (void) streams, (void) in, (void) in_size, (void) out, (void) out_size;
    return 0;
}
#endif

#endif
