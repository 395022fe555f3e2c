/* What numcodecs' filters do to the items of a chunk, as loops over bytes at any address.
 *
 * Items are in the machine's byte order; counts are of items. `source` and `target` do not overlap, but for delta, where
 * they may be the same.
 */
#ifndef ZV_FILTERS_H
#define ZV_FILTERS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "zv_bytes.h"

/* The types of items, in the order of the tables below. */
enum { ZV_I8, ZV_U8, ZV_I16, ZV_U16, ZV_I32, ZV_U32, ZV_I64, ZV_U64, ZV_INTEGERS, ZV_F32 = ZV_INTEGERS, ZV_F64 };

typedef void (*zv_loop)(const uint8_t *source, size_t count, uint8_t *target);

#define ZV_GET(type, from, i)                                    \
    type value_##from;                                           \
    memcpy(&value_##from, (from) + (i) * sizeof(type), sizeof(type))
#define ZV_PUT(type, to, i, value)                               \
    do {                                                         \
        const type put_ = (value);                               \
        memcpy((to) + (i) * sizeof(type), &put_, sizeof(type));  \
    } while (0)

/* -- delta: differences, which wrap around in the items' type, stored in another type ------------------------------- */

#define ZV_SUMS(D, A)                                                                          \
    static void zv_sums_##D##_##A(const uint8_t *source, size_t count, uint8_t *target) {      \
        D sum = 0;                                                                             \
        for (size_t i = 0; i < count; i++) {                                                   \
            ZV_GET(A, source, i);                                                              \
            sum = (D)(sum + (D)value_source);                                                  \
            ZV_PUT(D, target, i, sum);                                                         \
        }                                                                                      \
    }

/* D is signed or unsigned as the items are, and W unsigned and of the same size. Returns whether a difference is lost
 * because what is stored is too small for it. */
#define ZV_DIFFERENCES(D, W, A)                                                                   \
    static int zv_differences_##D##_##A(const uint8_t *source, size_t count, uint8_t *target) {   \
        W before = 0, lost = 0;                                                                   \
        for (size_t i = 0; i < count; i++) {                                                      \
            ZV_GET(W, source, i);                                                                 \
            const W difference = (W)(value_source - before);                                      \
            const A stored = (A)(D)difference;                                                    \
            ZV_PUT(A, target, i, stored);                                                         \
            lost |= (W)((W)stored ^ difference);                                                  \
            before = value_source;                                                                \
        }                                                                                         \
        return lost != 0;                                                                         \
    }

#if defined(__SSE2__)
/* The prefix sums of a register take log2(items) additions. The sum of all before is carried along in all its items, and
 * only one addition waits for it: what a register adds to it is spread out of the sums of that register alone. */
#define ZV_SUMS_SSE2(bits, first, more, spread)                                                         \
    static void zv_sums_of_##bits(const uint8_t *source, size_t count, uint8_t *target) {               \
        const size_t lanes = 128 / (bits);                                                              \
        __m128i carried = _mm_setzero_si128();                                                          \
        size_t i = 0;                                                                                   \
        for (; i + lanes <= count; i += lanes) {                                                        \
            __m128i sum = _mm_loadu_si128((const __m128i *)(source + i * (bits) / 8));                  \
            first more                                                                                  \
            _mm_storeu_si128((__m128i *)(target + i * (bits) / 8), _mm_add_epi##bits(sum, carried));    \
            carried = _mm_add_epi##bits(carried, spread);                                               \
        }                                                                                               \
        uint##bits##_t rest = 0;                                                                        \
        if (i) memcpy(&rest, target + (i - 1) * (bits) / 8, (bits) / 8);                                \
        for (; i < count; i++) {                                                                        \
            ZV_GET(uint##bits##_t, source, i);                                                          \
            rest = (uint##bits##_t)(rest + value_source);                                               \
            ZV_PUT(uint##bits##_t, target, i, rest);                                                    \
        }                                                                                               \
    }
#define ZV_SHIFTED(bits, bytes) sum = _mm_add_epi##bits(sum, _mm_slli_si128(sum, bytes));
/* The last item in all places. */
#define ZV_LAST_OF_16(sum) _mm_shuffle_epi32(_mm_shufflehi_epi16(sum, 0xFF), 0xFF)
ZV_SUMS_SSE2(8, ZV_SHIFTED(8, 1), ZV_SHIFTED(8, 2) ZV_SHIFTED(8, 4) ZV_SHIFTED(8, 8),
             ZV_LAST_OF_16(_mm_unpackhi_epi8(sum, sum)))
ZV_SUMS_SSE2(16, ZV_SHIFTED(16, 2), ZV_SHIFTED(16, 4) ZV_SHIFTED(16, 8), ZV_LAST_OF_16(sum))
ZV_SUMS_SSE2(32, ZV_SHIFTED(32, 4), ZV_SHIFTED(32, 8), _mm_shuffle_epi32(sum, 0xFF))
#else
ZV_SUMS(uint8_t, uint8_t)
ZV_SUMS(uint16_t, uint16_t)
ZV_SUMS(uint32_t, uint32_t)
#define zv_sums_of_8 zv_sums_uint8_t_uint8_t
#define zv_sums_of_16 zv_sums_uint16_t_uint16_t
#define zv_sums_of_32 zv_sums_uint32_t_uint32_t
#endif
ZV_SUMS(uint64_t, uint64_t)
#define zv_sums_of_64 zv_sums_uint64_t_uint64_t

ZV_SUMS(uint8_t, uint16_t)
ZV_SUMS(uint8_t, uint32_t)
ZV_SUMS(uint8_t, uint64_t)
ZV_SUMS(uint16_t, int8_t)
ZV_SUMS(uint16_t, uint8_t)
ZV_SUMS(uint16_t, uint32_t)
ZV_SUMS(uint16_t, uint64_t)
ZV_SUMS(uint32_t, int8_t)
ZV_SUMS(uint32_t, uint8_t)
ZV_SUMS(uint32_t, int16_t)
ZV_SUMS(uint32_t, uint16_t)
ZV_SUMS(uint32_t, uint64_t)
ZV_SUMS(uint64_t, int8_t)
ZV_SUMS(uint64_t, uint8_t)
ZV_SUMS(uint64_t, int16_t)
ZV_SUMS(uint64_t, uint16_t)
ZV_SUMS(uint64_t, int32_t)
ZV_SUMS(uint64_t, uint32_t)

/* [log2 of the bytes of an item][type that is stored] */
static const zv_loop zv_sums[4][ZV_INTEGERS] = {
    {zv_sums_of_8, zv_sums_of_8, zv_sums_uint8_t_uint16_t, zv_sums_uint8_t_uint16_t, zv_sums_uint8_t_uint32_t,
     zv_sums_uint8_t_uint32_t, zv_sums_uint8_t_uint64_t, zv_sums_uint8_t_uint64_t},
    {zv_sums_uint16_t_int8_t, zv_sums_uint16_t_uint8_t, zv_sums_of_16, zv_sums_of_16, zv_sums_uint16_t_uint32_t,
     zv_sums_uint16_t_uint32_t, zv_sums_uint16_t_uint64_t, zv_sums_uint16_t_uint64_t},
    {zv_sums_uint32_t_int8_t, zv_sums_uint32_t_uint8_t, zv_sums_uint32_t_int16_t, zv_sums_uint32_t_uint16_t,
     zv_sums_of_32, zv_sums_of_32, zv_sums_uint32_t_uint64_t, zv_sums_uint32_t_uint64_t},
    {zv_sums_uint64_t_int8_t, zv_sums_uint64_t_uint8_t, zv_sums_uint64_t_int16_t, zv_sums_uint64_t_uint16_t,
     zv_sums_uint64_t_int32_t, zv_sums_uint64_t_uint32_t, zv_sums_of_64, zv_sums_of_64},
};

#define ZV_DIFFERENCES_OF(D, W)                                     \
    ZV_DIFFERENCES(D, W, int8_t) ZV_DIFFERENCES(D, W, uint8_t)      \
    ZV_DIFFERENCES(D, W, int16_t) ZV_DIFFERENCES(D, W, uint16_t)    \
    ZV_DIFFERENCES(D, W, int32_t) ZV_DIFFERENCES(D, W, uint32_t)    \
    ZV_DIFFERENCES(D, W, int64_t) ZV_DIFFERENCES(D, W, uint64_t)
ZV_DIFFERENCES_OF(int8_t, uint8_t)
ZV_DIFFERENCES_OF(uint8_t, uint8_t)
ZV_DIFFERENCES_OF(int16_t, uint16_t)
ZV_DIFFERENCES_OF(uint16_t, uint16_t)
ZV_DIFFERENCES_OF(int32_t, uint32_t)
ZV_DIFFERENCES_OF(uint32_t, uint32_t)
ZV_DIFFERENCES_OF(int64_t, uint64_t)
ZV_DIFFERENCES_OF(uint64_t, uint64_t)

typedef int (*zv_subtraction)(const uint8_t *source, size_t count, uint8_t *target);

#define ZV_STORED_AS(D)                                                                              \
    {zv_differences_##D##_int8_t,  zv_differences_##D##_uint8_t,  zv_differences_##D##_int16_t,      \
     zv_differences_##D##_uint16_t, zv_differences_##D##_int32_t, zv_differences_##D##_uint32_t,     \
     zv_differences_##D##_int64_t, zv_differences_##D##_uint64_t}
/* [type of the items][type that is stored] */
static const zv_subtraction zv_differences[ZV_INTEGERS][ZV_INTEGERS] = {
    ZV_STORED_AS(int8_t),  ZV_STORED_AS(uint8_t),  ZV_STORED_AS(int16_t), ZV_STORED_AS(uint16_t),
    ZV_STORED_AS(int32_t), ZV_STORED_AS(uint32_t), ZV_STORED_AS(int64_t), ZV_STORED_AS(uint64_t),
};

/* Behind a difference that is NaN or infinite all sums are: every other value there is lost. It is that of a NaN or an
 * infinity, or of two values too far from each other, of which the second is lost, too. */
#define ZV_DELTA_OF_FLOATS(type)                                                                   \
    static void zv_sums_##type(const uint8_t *source, size_t count, uint8_t *target) {             \
        type sum = 0;                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            ZV_GET(type, source, i);                                                               \
            sum = i ? sum + value_source : value_source;                                           \
            ZV_PUT(type, target, i, sum);                                                          \
        }                                                                                          \
    }                                                                                              \
    static int zv_differences_##type(const uint8_t *source, size_t count, uint8_t *target) {      \
        type before = 0;                                                                           \
        int endless = 0, lost = 0;                                                                 \
        for (size_t i = 0; i < count; i++) {                                                       \
            ZV_GET(type, source, i);                                                               \
            type const difference = i ? value_source - before : value_source;                      \
            int const is_endless = !(difference - difference == 0);                                \
            lost |= endless & (value_source == value_source);                                      \
            lost |= is_endless & (value_source - value_source == 0);                               \
            endless |= is_endless;                                                                 \
            ZV_PUT(type, target, i, difference);                                                   \
            before = value_source;                                                                 \
        }                                                                                          \
        return lost;                                                                               \
    }
ZV_DELTA_OF_FLOATS(float)
ZV_DELTA_OF_FLOATS(double)

static inline int zv_log2_size(int type) { return type == ZV_F32 ? 2 : type == ZV_F64 ? 3 : type / 2; }

static zv_subtraction zv_delta_encoder(int items, int stored) {
    if (items >= ZV_INTEGERS) return items == ZV_F32 ? zv_differences_float : zv_differences_double;
    return zv_differences[items][stored];
}

static zv_loop zv_delta_decoder(int items, int stored) {
    if (items >= ZV_INTEGERS) return items == ZV_F32 ? zv_sums_float : zv_sums_double;
    return zv_sums[zv_log2_size(items)][stored];
}

/* -- the predictor of TIFF: within each row, differences from the same sample of the pixel before -------------------------- */

#define ZV_ROWS(bits)                                                                                             \
    static void zv_row_sums_##bits(uint8_t *items, size_t count, size_t samples) {                                \
        for (size_t i = samples; i < count; i++) {                                                                \
            ZV_GET(uint##bits##_t, items, i);                                                                     \
            uint##bits##_t before;                                                                                \
            memcpy(&before, items + (i - samples) * sizeof before, sizeof before);                                \
            ZV_PUT(uint##bits##_t, items, i, (uint##bits##_t)(before + value_items));                             \
        }                                                                                                         \
    }                                                                                                             \
    static void zv_row_differences_##bits(uint8_t *items, size_t count, size_t samples) {                         \
        for (size_t i = count; i-- > samples;) {                                                                  \
            ZV_GET(uint##bits##_t, items, i);                                                                     \
            uint##bits##_t before;                                                                                \
            memcpy(&before, items + (i - samples) * sizeof before, sizeof before);                                \
            ZV_PUT(uint##bits##_t, items, i, (uint##bits##_t)(value_items - before));                             \
        }                                                                                                         \
    }
ZV_ROWS(8)
ZV_ROWS(16)
ZV_ROWS(32)
ZV_ROWS(64)

/* In place, integers of 1, 2, 4 or 8 bytes. */
static void zv_row_sums(uint8_t *items, size_t count, size_t size, size_t samples) {
    switch (size) {
    case 1: samples == 1 ? zv_sums_of_8(items, count, items) : zv_row_sums_8(items, count, samples); break;
    case 2: samples == 1 ? zv_sums_of_16(items, count, items) : zv_row_sums_16(items, count, samples); break;
    case 4: samples == 1 ? zv_sums_of_32(items, count, items) : zv_row_sums_32(items, count, samples); break;
    default: samples == 1 ? zv_sums_of_64(items, count, items) : zv_row_sums_64(items, count, samples);
    }
}

static void zv_row_differences(uint8_t *items, size_t count, size_t size, size_t samples) {
    switch (size) {
    case 1: zv_row_differences_8(items, count, samples); break;
    case 2: zv_row_differences_16(items, count, samples); break;
    case 4: zv_row_differences_32(items, count, samples); break;
    default: zv_row_differences_64(items, count, samples);
    }
}

/* -- items in the other byte order ------------------------------------------------------------------------------------ */

#define ZV_TURN(bits)                                                                                             \
    static void zv_turn_##bits(const uint8_t *restrict source, size_t count, uint8_t *restrict target) {          \
        for (size_t i = 0; i < count; i++) {                                                                      \
            ZV_GET(uint##bits##_t, source, i);                                                                    \
            ZV_PUT(uint##bits##_t, target, i, (uint##bits##_t)__builtin_bswap##bits(value_source));               \
        }                                                                                                         \
    }                                                                                                             \
    static void zv_turn_in_place_##bits(uint8_t *items, size_t count) {                                           \
        for (size_t i = 0; i < count; i++) {                                                                      \
            ZV_GET(uint##bits##_t, items, i);                                                                     \
            ZV_PUT(uint##bits##_t, items, i, (uint##bits##_t)__builtin_bswap##bits(value_items));                 \
        }                                                                                                         \
    }
ZV_TURN(16)
ZV_TURN(32)
ZV_TURN(64)

/* Items of 2, 4 or 8 bytes, from one place to another or where they are. */
static void zv_turn(const uint8_t *source, size_t count, size_t size, uint8_t *target) {
    const int in_place = source == target;
    switch (size) {
    case 2: in_place ? zv_turn_in_place_16(target, count) : zv_turn_16(source, count, target); break;
    case 4: in_place ? zv_turn_in_place_32(target, count) : zv_turn_32(source, count, target); break;
    default: in_place ? zv_turn_in_place_64(target, count) : zv_turn_64(source, count, target);
    }
}

/* -- shuffle: the first bytes of all items, then the second ones ... A rest that is no whole item stays at the end. --- */

static inline void zv_take_apart(const uint8_t *source, size_t items, size_t size, uint8_t *target) {
    for (size_t i = 0; i < items; i++)
        for (size_t j = 0; j < size; j++) target[j * items + i] = source[i * size + j];
}

static inline void zv_put_together(const uint8_t *source, size_t items, size_t size, uint8_t *target) {
    for (size_t i = 0; i < items; i++)
        for (size_t j = 0; j < size; j++) target[i * size + j] = source[j * items + i];
}

/* Compilers make the most of constant sizes. */
#define ZV_BY_SIZE(work, source, items, size, target)             \
    switch (size) {                                               \
    case 2: work(source, items, 2, target); break;                \
    case 4: work(source, items, 4, target); break;                \
    case 8: work(source, items, 8, target); break;                \
    default: work(source, items, size, target);                   \
    }

static void zv_shuffle(const uint8_t *restrict source, size_t n, size_t size, uint8_t *restrict target) {
    const size_t items = n / size, whole = items * size;
    ZV_BY_SIZE(zv_take_apart, source, items, size, target)
    if (n > whole) memcpy(target + whole, source + whole, n - whole);
}

static void zv_unshuffle(const uint8_t *restrict source, size_t n, size_t size, uint8_t *restrict target) {
    const size_t items = n / size, whole = items * size;
    ZV_BY_SIZE(zv_put_together, source, items, size, target)
    if (n > whole) memcpy(target + whole, source + whole, n - whole);
}

/* -- packbits: one bit for each item that is not zero, the first in the highest bit ----------------------------------- */

#define ZV_EACH_BYTE 0x0101010101010101u

static void zv_pack_bits(const uint8_t *restrict source, size_t count, uint8_t *restrict target) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        uint64_t items = zv_load_le64(source + i);
        items = ((((items & 0x7F * ZV_EACH_BYTE) + 0x7F * ZV_EACH_BYTE) | items) >> 7) & ZV_EACH_BYTE;
        *target++ = (uint8_t)((items * 0x8040201008040201u) >> 56);
    }
    if (i < count) {
        unsigned bits = 0;
        for (size_t j = 0; i + j < count; j++) bits |= (unsigned)(source[i + j] != 0) << (7 - j);
        *target = (uint8_t)bits;
    }
}

static void zv_unpack_bits(const uint8_t *restrict source, size_t count, uint8_t *restrict target) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const uint64_t bits = (*source++ * ZV_EACH_BYTE) & 0x0102040810204080u;
        zv_store_le64(target + i, ((bits + 0x7F * ZV_EACH_BYTE) >> 7) & ZV_EACH_BYTE);
    }
    for (size_t j = 0; i + j < count; j++) target[i + j] = (*source >> (7 - j)) & 1;
}

/* -- bitround: floats with fewer bits, as the integers of their bits ---------------------------------------------------- */

#define ZV_ROUND_BITS(type)                                                                               \
    static void zv_round_bits_##type(const uint8_t *source, size_t count, int dropped, uint8_t *target) { \
        const type half = (type)(((type)1 << (dropped - 1)) - 1), mask = (type)((type)~(type)0 << dropped); \
        for (size_t i = 0; i < count; i++) {                                                              \
            ZV_GET(type, source, i);                                                                      \
            const type odd = (value_source >> dropped) & 1;                                               \
            ZV_PUT(type, target, i, (type)(value_source + odd + half) & mask);                            \
        }                                                                                                 \
    }
ZV_ROUND_BITS(uint16_t)
ZV_ROUND_BITS(uint32_t)
ZV_ROUND_BITS(uint64_t)

/* -- fixedscaleoffset and quantize --------------------------------------------------------------------------------------- */

/* To the nearest whole number, halves to even, without instructions that only newer processors have. */
static inline double zv_nearest_double(double value) {
    const double far = 4503599627370496.0, size = fabs(value);
    return size < far ? copysign((size + far) - far, value) : value;
}

static inline float zv_nearest_float(float value) {
    const float far = 8388608.0f, size = fabsf(value);
    return size < far ? copysignf((size + far) - far, value) : value;
}

/* On every machine what x86 makes of a number that no int64 holds; others are truncated to the type. */
static inline int64_t zv_integer(double value) {
    return value >= -9223372036854775808.0 && value < 9223372036854775808.0 ? (int64_t)value : INT64_MIN;
}

#define ZV_AS_INTEGER(type, value) ((type)zv_integer(value))
#define ZV_AS_FLOAT(type, value) ((type)(value))

#define ZV_SCALING_LOOP(name, S, T, F, value)                                                            \
    static void name(const uint8_t *source, size_t count, double scale, double offset, uint8_t *target) { \
        const F by = (F)scale, from = (F)offset;                                                         \
        for (size_t i = 0; i < count; i++) {                                                             \
            ZV_GET(S, source, i);                                                                        \
            ZV_PUT(T, target, i, value);                                                                 \
        }                                                                                                \
    }
#define ZV_SCALED(F, A, convert) \
    ZV_SCALING_LOOP(zv_scaled_##F##_##A, F, A, F, convert(A, zv_nearest_##F((value_source - from) * by)))
/* F: the type in which numbers are computed, D: the type of the items. */
#define ZV_UNSCALED(D, A, F) \
    ZV_SCALING_LOOP(zv_unscaled_##D##_##A, A, D, F, (D)((F)value_source / by + from))
#define ZV_SCALING(A, convert, F)        \
    ZV_SCALED(float, A, convert)         \
    ZV_SCALED(double, A, convert)        \
    ZV_UNSCALED(float, A, F)             \
    ZV_UNSCALED(double, A, F)
ZV_SCALING(int8_t, ZV_AS_INTEGER, double)
ZV_SCALING(uint8_t, ZV_AS_INTEGER, double)
ZV_SCALING(int16_t, ZV_AS_INTEGER, double)
ZV_SCALING(uint16_t, ZV_AS_INTEGER, double)
ZV_SCALING(int32_t, ZV_AS_INTEGER, double)
ZV_SCALING(uint32_t, ZV_AS_INTEGER, double)
ZV_SCALING(int64_t, ZV_AS_INTEGER, double)
ZV_SCALING(float, ZV_AS_FLOAT, float)
ZV_SCALING(double, ZV_AS_FLOAT, double)

typedef void (*zv_scaling)(const uint8_t *source, size_t count, double scale, double offset, uint8_t *target);

/* [float, double][type that is stored]; numpy alone turns floats into uint64. */
#define ZV_SCALING_OF(way, D)                                                                                       \
    {zv_##way##_##D##_int8_t,  zv_##way##_##D##_uint8_t,  zv_##way##_##D##_int16_t, zv_##way##_##D##_uint16_t,      \
     zv_##way##_##D##_int32_t, zv_##way##_##D##_uint32_t, zv_##way##_##D##_int64_t, NULL, zv_##way##_##D##_float,   \
     zv_##way##_##D##_double}
static const zv_scaling zv_scaled[2][ZV_F64 + 1] = {ZV_SCALING_OF(scaled, float), ZV_SCALING_OF(scaled, double)};
static const zv_scaling zv_unscaled[2][ZV_F64 + 1] = {ZV_SCALING_OF(unscaled, float), ZV_SCALING_OF(unscaled, double)};

/* Zarr's `scale_offset` rounds nothing: the way back is that of fixedscaleoffset. */
#define ZV_STRETCHED(F) ZV_SCALING_LOOP(zv_stretched_##F, F, F, F, (value_source - from) * by)
ZV_STRETCHED(float)
ZV_STRETCHED(double)
static const zv_scaling zv_stretched[2] = {zv_stretched_float, zv_stretched_double};

#define ZV_QUANTIZED(F, A)                                                                                   \
    static void zv_quantized_##F##_##A(const uint8_t *source, size_t count, double scale, uint8_t *target) { \
        const F by = (F)scale;                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                 \
            ZV_GET(F, source, i);                                                                            \
            ZV_PUT(A, target, i, (A)(zv_nearest_##F(by * value_source) / by));                               \
        }                                                                                                    \
    }                                                                                                        \
    /* What reading does with quantized items. */                                                            \
    static void zv_##F##_as_##A(const uint8_t *source, size_t count, uint8_t *target) {                      \
        for (size_t i = 0; i < count; i++) {                                                                 \
            ZV_GET(F, source, i);                                                                            \
            ZV_PUT(A, target, i, (A)value_source);                                                           \
        }                                                                                                    \
    }
ZV_QUANTIZED(float, float)
ZV_QUANTIZED(float, double)
ZV_QUANTIZED(double, float)
ZV_QUANTIZED(double, double)

typedef void (*zv_quantization)(const uint8_t *source, size_t count, double scale, uint8_t *target);

/* [float, double][float, double]: from the first to the second. */
static const zv_quantization zv_quantized[2][2] = {{zv_quantized_float_float, zv_quantized_float_double},
                                                   {zv_quantized_double_float, zv_quantized_double_double}};
static const zv_loop zv_floats[2][2] = {{zv_float_as_float, zv_float_as_double},
                                        {zv_double_as_float, zv_double_as_double}};

/* -- astype: integers as other integers, floats as other floats --------------------------------------------------------- */

#define ZV_CAST(from, to)                                                                         \
    static void zv_cast_##from##_##to(const uint8_t *source, size_t count, uint8_t *target) {     \
        for (size_t i = 0; i < count; i++) {                                                      \
            ZV_GET(from, source, i);                                                              \
            ZV_PUT(to, target, i, (to)value_source);                                              \
        }                                                                                         \
    }
/* What is made of an integer are the same bits, whether they are signed or not. */
#define ZV_CAST_OF(from) \
    ZV_CAST(from, uint8_t) ZV_CAST(from, uint16_t) ZV_CAST(from, uint32_t) ZV_CAST(from, uint64_t)
ZV_CAST_OF(int8_t)
ZV_CAST_OF(uint8_t)
ZV_CAST_OF(int16_t)
ZV_CAST_OF(uint16_t)
ZV_CAST_OF(int32_t)
ZV_CAST_OF(uint32_t)
ZV_CAST_OF(int64_t)
ZV_CAST_OF(uint64_t)

#define ZV_CASTS(from) \
    {zv_cast_##from##_uint8_t, zv_cast_##from##_uint16_t, zv_cast_##from##_uint32_t, zv_cast_##from##_uint64_t}
/* [type][log2 of the bytes of the other type] */
static const zv_loop zv_casts[ZV_INTEGERS][4] = {
    ZV_CASTS(int8_t),  ZV_CASTS(uint8_t),  ZV_CASTS(int16_t), ZV_CASTS(uint16_t),
    ZV_CASTS(int32_t), ZV_CASTS(uint32_t), ZV_CASTS(int64_t), ZV_CASTS(uint64_t),
};

/* Either both are integers or both are floats. */
static zv_loop zv_cast(int from, int to) {
    if (from < ZV_INTEGERS) return zv_casts[from][zv_log2_size(to)];
    return zv_floats[from - ZV_F32][to - ZV_F32];
}

#endif
