/* libdeflate's compressor for small values, where the library was built with one (native/small_deflate.c): `make native`
 * says so by ZV_OUR_LIBDEFLATE. Elsewhere it is the same as for all others.
 */
#ifndef ZV_SMALL_DEFLATE_H
#define ZV_SMALL_DEFLATE_H

#include "libdeflate.h"

#ifdef ZV_OUR_LIBDEFLATE
/* Bytes. Larger values gain nothing by smaller tables. */
#define ZV_SMALL_MOST 4096
struct libdeflate_compressor *zv_small_alloc_compressor(int level);
size_t zv_small_gzip_compress(struct libdeflate_compressor *c, const void *in, size_t n, void *out, size_t cap);
size_t zv_small_zlib_compress(struct libdeflate_compressor *c, const void *in, size_t n, void *out, size_t cap);
#else
#define ZV_SMALL_MOST 0
#define zv_small_alloc_compressor libdeflate_alloc_compressor
#define zv_small_gzip_compress libdeflate_gzip_compress
#define zv_small_zlib_compress libdeflate_zlib_compress
#endif

#endif
