/* What c-blosc calls to shuffle bits, where the processor has AVX2: in 0.5 to 0.7 of the time, bytes back in a fifth; with
 * GFNI in a quarter to a half, and bytes back in a ninth.
 *
 * Shuffled, bit b of byte p of all elements lie together: a row of n / 8 bytes for each of the 8 * size bits. c-blosc takes
 * bits together with `movemask`, 32 at a time, and writes four bytes for each. Here the same byte of eight neighbouring
 * rows, which says all of a byte of eight elements, is brought together first, as in any transposition of bytes; then what
 * is left are squares of eight by eight bits in 64, four to a register, which GFNI turns at once, and AVX2 in three steps.
 * What is behind the last 32 bytes of a row, or is no more than that, is done square by square.
 *
 * Elements of several bytes are turned a plane of bytes at a time, and c-blosc puts the planes together.
 */
#include "blosc_bits.h"

#if defined(SHUFFLE_AVX2_ENABLED)
#include "bitshuffle-avx2.h"
#include "shuffle-avx2.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

enum { STEP = 32 }; /* bytes of each row at once: of 256 elements */

/* Byte i of the result has bit i of each byte. */
static inline uint64_t turn_square(uint64_t bits) {
    uint64_t swapped = (bits ^ (bits >> 7)) & 0x00AA00AA00AA00AAu;
    bits ^= swapped ^ (swapped << 7);
    swapped = (bits ^ (bits >> 14)) & 0x0000CCCC0000CCCCu;
    bits ^= swapped ^ (swapped << 14);
    swapped = (bits ^ (bits >> 28)) & 0x00000000F0F0F0F0u;
    return bits ^ swapped ^ (swapped << 28);
}

#define AVX2 __attribute__((target("avx2")))
#define GFNI __attribute__((target("avx2,gfni")))
#define INLINE static inline __attribute__((always_inline))

/* Four squares, as `turn_square` does one. */
INLINE AVX2 __m256i turn_by_steps(__m256i bits) {
#define SWAP(by, mask)                                                                                  \
    swapped = _mm256_and_si256(_mm256_xor_si256(bits, _mm256_srli_epi64(bits, by)), _mm256_set1_epi64x(mask)); \
    bits = _mm256_xor_si256(bits, _mm256_xor_si256(swapped, _mm256_slli_epi64(swapped, by)));
    __m256i swapped;
    SWAP(7, 0x00AA00AA00AA00AA)
    SWAP(14, 0x0000CCCC0000CCCC)
    SWAP(28, 0x00000000F0F0F0F0)
#undef SWAP
    return bits;
}

/* The same of squares whose bytes lie the other way round: each is a matrix by which the unit vectors are multiplied. */
INLINE GFNI __m256i turn_at_once(__m256i bits) {
    return _mm256_gf2p8affine_epi64_epi8(_mm256_set1_epi64x((long long) 0x8040201008040201u), bits, 0);
}

/* Eight registers transposed: items of the width of A, then of B, then of C brought together. */
#define INTERLEAVE(r, A, B, C)                                                                         \
    {                                                                                                  \
        __m256i pairs[8], fours[8];                                                                    \
        int i;                                                                                         \
        for (i = 0; i < 4; i++) {                                                                      \
            pairs[i] = _mm256_unpacklo_##A(r[2 * i], r[2 * i + 1]);                                    \
            pairs[i + 4] = _mm256_unpackhi_##A(r[2 * i], r[2 * i + 1]);                                \
        }                                                                                              \
        for (i = 0; i < 8; i += 2) {                                                                   \
            fours[i] = _mm256_unpacklo_##B(pairs[i], pairs[i + 1]);                                    \
            fours[i + 1] = _mm256_unpackhi_##B(pairs[i], pairs[i + 1]);                                \
        }                                                                                              \
        for (i = 0; i < 2; i++) {                                                                      \
            r[4 * i] = _mm256_unpacklo_##C(fours[4 * i], fours[4 * i + 2]);                            \
            r[4 * i + 1] = _mm256_unpackhi_##C(fours[4 * i], fours[4 * i + 2]);                        \
            r[4 * i + 2] = _mm256_unpacklo_##C(fours[4 * i + 1], fours[4 * i + 3]);                    \
            r[4 * i + 3] = _mm256_unpackhi_##C(fours[4 * i + 1], fours[4 * i + 3]);                    \
        }                                                                                              \
    }

/* Of the 32 bytes of eight rows: squares 2 t and 2 t + 1, and 16 of them on, in register t. */
#define GATHER_SQUARES(r) INTERLEAVE(r, epi8, epi16, epi32)

/* The other way. */
#define SCATTER_SQUARES(r)                                                                             \
    {                                                                                                  \
        const __m256i together = _mm256_broadcastsi128_si256(                                          \
            _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));                      \
        int k;                                                                                         \
        for (k = 0; k < 8; k++) r[k] = _mm256_shuffle_epi8(r[k], together);                            \
        INTERLEAVE(r, epi16, epi32, epi64)                                                             \
    }

/* Square by square, from `at` on. */
static void rows_to_bytes_from(size_t at, const uint8_t *rows, size_t length, uint8_t *bytes) {
    for (; at < length; at++) {
        uint64_t square = 0;
        int b;
        for (b = 0; b < 8; b++) square |= (uint64_t) rows[b * length + at] << (8 * b);
        square = turn_square(square);
        memcpy(bytes + 8 * at, &square, 8);
    }
}

static void bytes_to_rows_from(size_t at, const uint8_t *bytes, size_t length, uint8_t *rows) {
    for (; at < length; at++) {
        uint64_t square;
        int b;
        memcpy(&square, bytes + 8 * at, 8);
        square = turn_square(square);
        for (b = 0; b < 8; b++) rows[b * length + at] = (uint8_t) (square >> (8 * b));
    }
}

/* A plane: `length` bytes in each of eight rows, and 8 * length bytes. FLIP: the squares are wanted upside down. */
#define PLANES(name, TARGET, TURN, FLIP)                                                               \
    static TARGET void rows_to_bytes_##name(const uint8_t *rows, size_t length, uint8_t *bytes) {      \
        size_t at = 0;                                                                                 \
        for (; at + STEP <= length; at += STEP) {                                                      \
            __m256i r[8];                                                                              \
            int t;                                                                                     \
            for (t = 0; t < 8; t++)                                                                    \
                r[t] = _mm256_loadu_si256((const __m256i *) (rows + (FLIP ? 7 - t : t) * length + at)); \
            GATHER_SQUARES(r)                                                                          \
            for (t = 0; t < 8; t++) {                                                                  \
                __m256i const turned = TURN(r[t]);                                                     \
                uint8_t *const to = bytes + 8 * at + 16 * t;                                           \
                _mm_storeu_si128((__m128i *) to, _mm256_castsi256_si128(turned));                      \
                _mm_storeu_si128((__m128i *) (to + 128), _mm256_extracti128_si256(turned, 1));         \
            }                                                                                          \
        }                                                                                              \
        rows_to_bytes_from(at, rows, length, bytes);                                                   \
    }                                                                                                  \
    static TARGET void bytes_to_rows_##name(const uint8_t *bytes, size_t length, uint8_t *rows) {      \
        const __m256i flip = _mm256_broadcastsi128_si256(                                              \
            _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));                      \
        size_t at = 0;                                                                                 \
        for (; at + STEP <= length; at += STEP) {                                                      \
            __m256i r[8];                                                                              \
            int t;                                                                                     \
            for (t = 0; t < 8; t++) {                                                                  \
                const uint8_t *const from = bytes + 8 * at + 16 * t;                                   \
                r[t] = _mm256_inserti128_si256(                                                        \
                    _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *) from)),                   \
                    _mm_loadu_si128((const __m128i *) (from + 128)), 1);                               \
                if (FLIP) r[t] = _mm256_shuffle_epi8(r[t], flip);                                      \
                r[t] = TURN(r[t]);                                                                     \
            }                                                                                          \
            SCATTER_SQUARES(r)                                                                         \
            for (t = 0; t < 8; t++) _mm256_storeu_si256((__m256i *) (rows + t * length + at), r[t]);   \
        }                                                                                              \
        bytes_to_rows_from(at, bytes, length, rows);                                                   \
    }                                                                                                  \
    static int64_t shuffle_##name(void *in, void *out, size_t count, size_t size, void *room) {        \
        const uint8_t *bytes = size > 1 ? room : in;                                                   \
        size_t p;                                                                                      \
        if (size > 1) blosc_internal_shuffle_avx2(size, count * size, in, room);                       \
        for (p = 0; p < size; p++) bytes_to_rows_##name(bytes + p * count, count / 8, (uint8_t *) out + p * count); \
        return (int64_t) (count * size);                                                               \
    }                                                                                                  \
    static int64_t unshuffle_##name(void *in, void *out, size_t count, size_t size, void *room) {      \
        uint8_t *const bytes = size > 1 ? room : out;                                                  \
        size_t p;                                                                                      \
        for (p = 0; p < size; p++)                                                                     \
            rows_to_bytes_##name((const uint8_t *) in + p * count, count / 8, bytes + p * count);      \
        if (size > 1) blosc_internal_unshuffle_avx2(size, count * size, room, out);                    \
        return (int64_t) (count * size);                                                               \
    }

PLANES(avx2, AVX2, turn_by_steps, 0)
PLANES(gfni, GFNI, turn_at_once, 1)

/* Its instructions on registers of AVX2 need what c-blosc has found by then, and this. */
static int has_gfni(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & bit_GFNI);
}

zv_bits zv_blosc_bitshuffle(void) { return has_gfni() ? shuffle_gfni : shuffle_avx2; }
zv_bits zv_blosc_bitunshuffle(void) { return has_gfni() ? unshuffle_gfni : unshuffle_avx2; }

#else
zv_bits zv_blosc_bitshuffle(void) { return (zv_bits) blosc_internal_bshuf_trans_bit_elem_avx2; }
zv_bits zv_blosc_bitunshuffle(void) { return (zv_bits) blosc_internal_bshuf_untrans_bit_elem_avx2; }
#endif
#endif
