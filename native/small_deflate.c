/* libdeflate once more, for values of at most a few kilobytes.
 *
 * Its compressor begins each value by filling the hash tables of its search for matches: 192 KiB, for a skeleton of 1 KiB
 * as for a megabyte, which is a fifth to half of the time of small values, and leaves nothing else in the first cache.
 * Here an eighth of each table is used and filled; at most 4096 bytes have no need of more. The streams are of the same
 * kind, and as large to a thousandth.
 *
 * What is compiled is libdeflate's own source, with other names for what it exports, and with a hash and a beginning that
 * keep to the first eighth. A compressor that is made here is only for the functions made here, and is freed as any other.
 */
#define libdeflate_alloc_compressor zv_small_alloc_compressor
#define libdeflate_alloc_compressor_ex zv_small_alloc_compressor_ex
#define libdeflate_free_compressor zv_small_free_compressor
#define libdeflate_get_compression_level zv_small_get_compression_level
#define libdeflate_deflate_compress zv_small_deflate_compress
#define libdeflate_deflate_compress_bound zv_small_deflate_compress_bound
#define libdeflate_gzip_compress zv_small_gzip_compress
#define libdeflate_gzip_compress_bound zv_small_gzip_compress_bound
#define libdeflate_zlib_compress zv_small_zlib_compress
#define libdeflate_zlib_compress_bound zv_small_zlib_compress_bound

#include "deflate_constants.h"
#define MATCHFINDER_WINDOW_ORDER	DEFLATE_WINDOW_ORDER
#include "matchfinder_common.h"

/* Tables of 2^15 and 2^16 positions: of chains, and of 2^15 pairs at level 1. */
#define LEFT_OUT 3
#define FIRST_TABLE (1u << 15)
#define SECOND_TABLE (1u << 16)

static forceinline u32 hash_of_few(u32 seq, unsigned num_bits) { return lz_hash(seq, num_bits - LEFT_OUT); }

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

__attribute__((target("avx2"))) static void fill_avx2(mf_pos_t *data, size_t count) {
    const __m256i empty = _mm256_set1_epi16(MATCHFINDER_INITVAL);
    for (size_t i = 0; i < count; i += sizeof(empty) / sizeof(*data)) _mm256_storeu_si256((__m256i *) (data + i), empty);
}
#define HAS_AVX2 __builtin_cpu_supports("avx2")
#else
#define fill_avx2(data, count)
#define HAS_AVX2 0
#endif

/* All tables are a multiple of MATCHFINDER_SIZE_ALIGNMENT, as are the parts of them that are used. */
static forceinline void fill(mf_pos_t *data, size_t count) {
    if (HAS_AVX2) {
        fill_avx2(data, count);
    } else {
        for (size_t i = 0; i < count; i++) data[i] = MATCHFINDER_INITVAL;
    }
}

static forceinline void begin_with_few(mf_pos_t *data, size_t size) {
    if (size == (FIRST_TABLE + SECOND_TABLE) * sizeof(*data)) {
        fill(data, FIRST_TABLE >> LEFT_OUT);
        fill(data + FIRST_TABLE, SECOND_TABLE >> LEFT_OUT);
    } else if (size == SECOND_TABLE * sizeof(*data)) {
        fill(data, SECOND_TABLE >> LEFT_OUT);
    } else {
        fill(data, size / sizeof(*data));
    }
}

#undef matchfinder_init
#define matchfinder_init begin_with_few
#define lz_hash hash_of_few

/* These tables lie in the first cache. */
#undef prefetchw
#define prefetchw(place) ((void) (place))

#define ZV_SHORT_MATCHES
#define ZV_FEW_BYTES
#include "deflate_compress.c"
#include "gzip_compress.c"
#include "zlib_compress.c"
