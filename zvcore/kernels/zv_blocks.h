/* The inner loops of blocks.pyx: moves of a plane, that is of two axes, of any strides.
 *
 * The parts that are written are small and spread over an array far larger than the caches, so most of the time goes
 * into waiting for its cache lines. Lines are therefore asked for a little before they are written, and where source
 * and destination disagree about which axis is the fastest, squares are transposed in registers and put into whole
 * lines.
 *
 * Items are loaded and stored through memcpy: nothing needs to be aligned. */
#ifndef ZV_BLOCKS_H
#define ZV_BLOCKS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "zv_cpu.h"

#if defined(__GNUC__)
#define ZV_INLINE static inline __attribute__((always_inline))
#define ZV_PREFETCH(address) __builtin_prefetch(address)
#define ZV_UNROLLED _Pragma("GCC unroll 16")
#define ZV_UNROLLED_4 _Pragma("GCC unroll 4")
#else
#define ZV_INLINE static inline
#define ZV_UNROLLED_4
#define ZV_PREFETCH(address) ((void)(address))
#endif

enum {
    ZV_LINE = 64,
    ZV_LINES_AHEAD = 16,
    ZV_CALL = 256, /* the fewest bytes for which a call of libc's functions is worth it */
};

/* Axis 0 is the outer axis, axis 1 the inner one. n: extents; d, s: byte strides of destination and source. The
 * destination's are positive. `by_source`: the source is the array that lies far apart, and is walked in its order.
 *
 * For the movers of split axes, `parts` items follow each other along one of them where only one of the arrays has them
 * next to each other, such as the colours of a pixel; in the other they lie `part` bytes apart, and whole pixels as far
 * as the stride says. */
typedef struct {
    ptrdiff_t n0, n1, d0, d1, s0, s1;
    int by_source;
    ptrdiff_t parts, part;
} zv_plane;

/* `next` is where the plane after this one begins (or this one, if there is none), in the array that is walked in its
 * order. */
typedef void (*zv_mover)(char *d, const char *s, const zv_plane *p, const char *next);

static inline uint16_t zv_reversed_2(uint16_t v) { return (uint16_t)(v << 8 | v >> 8); }

static inline uint32_t zv_reversed_4(uint32_t v) {
#if defined(__GNUC__)
    return __builtin_bswap32(v);
#else
    return (uint32_t)zv_reversed_2((uint16_t)v) << 16 | zv_reversed_2((uint16_t)(v >> 16));
#endif
}

static inline uint64_t zv_reversed_8(uint64_t v) {
#if defined(__GNUC__)
    return __builtin_bswap64(v);
#else
    return (uint64_t)zv_reversed_4((uint32_t)v) << 32 | zv_reversed_4((uint32_t)(v >> 32));
#endif
}

/* One item. `unit` is the number of bytes to reverse as one, 0 for none. Wherever this is used, `size` and `unit` are
 * constants, here and below, and the compiler keeps only the branches for them. */
ZV_INLINE void zv_move_item(char *d, const char *s, int size, int unit) {
    uint16_t two;
    uint32_t four;
    uint64_t first, second;
    switch (size) {
    case 1: *d = *s; break;
    case 2:
        memcpy(&two, s, 2);
        if (unit) two = zv_reversed_2(two);
        memcpy(d, &two, 2);
        break;
    case 4:
        memcpy(&four, s, 4);
        if (unit) four = zv_reversed_4(four);
        memcpy(d, &four, 4);
        break;
    case 8:
        memcpy(&first, s, 8);
        if (unit) first = zv_reversed_8(first);
        if (unit == 4) first = first << 32 | first >> 32;
        memcpy(d, &first, 8);
        break;
    case 16:
        memcpy(&first, s, 8);
        memcpy(&second, s + 8, 8);
        if (unit) {
            first = zv_reversed_8(first);
            second = zv_reversed_8(second);
        }
        memcpy(d, unit == 16 ? &second : &first, 8);
        memcpy(d + 8, unit == 16 ? &first : &second, 8);
        break;
    default: memcpy(d, s, size);
    }
}

/* The rows of a plane that will be moved soon, in the array that lies far apart. */
typedef struct {
    const char *begin, *next;
    ptrdiff_t count, stride, bytes;
} zv_rows;

ZV_INLINE const char *zv_row(const zv_rows *rows, ptrdiff_t i) {
    return i < rows->count ? rows->begin + i * rows->stride : rows->next + (i - rows->count) * rows->stride;
}

/* Asks for a line, and for the last of the row if `last`: rows need not begin where lines do. */
ZV_INLINE void zv_expect_line(const zv_rows *rows, ptrdiff_t i, ptrdiff_t offset, int last) {
    const char *const row = zv_row(rows, i);
    ZV_PREFETCH(row + offset);
    if (last) ZV_PREFETCH(row + rows->bytes - 1);
}

ZV_INLINE void zv_expect_row(const zv_rows *rows, ptrdiff_t i) {
    const ptrdiff_t bytes = rows->bytes < ZV_LINES_AHEAD * ZV_LINE ? rows->bytes : ZV_LINES_AHEAD * ZV_LINE;
    for (ptrdiff_t k = 0; k < bytes; k += ZV_LINE) zv_expect_line(rows, i, k, k + ZV_LINE >= bytes);
}

ZV_INLINE zv_rows zv_rows_of(const char *d, const char *s, const zv_plane *p, const char *next, ptrdiff_t bytes) {
    if (p->by_source) return (zv_rows){s, next, p->n0, p->s0, bytes};
    return (zv_rows){d, next, p->n0, p->d0, bytes};
}

/* How many rows to look ahead: none where the processor itself sees what comes next. */
ZV_INLINE ptrdiff_t zv_rows_ahead(const zv_rows *rows) {
    const ptrdiff_t stride = rows->stride < 0 ? -rows->stride : rows->stride;
    if (rows->bytes > 64 * ZV_LINE || stride < 2 * ZV_LINE) return 0;
    ptrdiff_t ahead = ZV_LINES_AHEAD / (rows->bytes / ZV_LINE + 1);
    if (ahead < 1) ahead = 1;
    return ahead < rows->count ? ahead : rows->count;
}

#if ZV_X86
#include <immintrin.h>
#endif

#if defined(__GNUC__)
#define ZV_VECTORS 1

typedef uint8_t zv_u8 __attribute__((vector_size(16)));
typedef uint16_t zv_u16 __attribute__((vector_size(16)));
typedef uint32_t zv_u32 __attribute__((vector_size(16)));
typedef uint64_t zv_u64 __attribute__((vector_size(16)));
typedef uint8_t zv_wide __attribute__((vector_size(32)));

#if defined(__clang__) || __GNUC__ >= 12
#define ZV_SHUFFLE(type, a, b, ...) __builtin_shufflevector((type)(a), (type)(b), __VA_ARGS__)
#else
#define ZV_SHUFFLE(type, a, b, ...) __builtin_shuffle((type)(a), (type)(b), (type){__VA_ARGS__})
#endif

#else
#define ZV_VECTORS 0
#endif

/* The loops themselves, once for every machine and once with wider vectors and byte shuffles. */
#define ZV_NAME(name) name##_portable
#define ZV_TARGET
#define ZV_WIDE 0
#define ZV_BYTE_SHUFFLES ZV_ARM
#include "zv_blocks_loops.h"
#undef ZV_NAME
#undef ZV_TARGET
#undef ZV_WIDE
#undef ZV_BYTE_SHUFFLES

#if ZV_X86 && ZV_VECTORS
#define ZV_NAME(name) name##_avx2
#define ZV_TARGET __attribute__((target("avx2")))
#define ZV_WIDE 1
#define ZV_BYTE_SHUFFLES 1
#include "zv_blocks_loops.h"
#undef ZV_NAME
#undef ZV_TARGET
#undef ZV_WIDE
#undef ZV_BYTE_SHUFFLES
#endif

/* The mover for items of 1, 2, 4, 8 or 16 bytes and a unit that fits them, or of three times 1, 2, 4 or 8 bytes (pixels
 * of three colours, positions) and no unit; NULL for anything else. */
static zv_mover zv_find_mover(uint32_t features, ptrdiff_t size, int unit, int tiles) {
#if ZV_X86 && ZV_VECTORS
    if (features & ZV_CPU_AVX2) return zv_find_mover_avx2(size, unit, tiles);
#endif
    (void)features;
    return zv_find_mover_portable(size, unit, tiles);
}

/* The mover where axis 1 of the source is split, or (`in`) axis 0 of the destination; NULL if there is none for such
 * items. Neighbours of the source lie along axis 0, of the destination along axis 1, and both have room for a square. */
static zv_mover zv_find_splitter(uint32_t features, ptrdiff_t size, int unit, int in) {
#if ZV_X86 && ZV_VECTORS
    if (features & ZV_CPU_AVX2) return zv_find_splitter_avx2(size, unit, in);
#endif
    (void)features;
    return zv_find_splitter_portable(size, unit, in);
}

/* Rows of n1 bytes, ZV_CALL or more. */
static void zv_copy_rows(char *d, const char *s, const zv_plane *p, const char *next) {
    const zv_rows rows = zv_rows_of(d, s, p, next, p->n1);
    /* Long rows of a source need no help: loads do not wait for each other as stores do. */
    const ptrdiff_t ahead = p->by_source ? 0 : zv_rows_ahead(&rows);
    for (ptrdiff_t i = 0; i < p->n0; i++) {
        if (ahead) zv_expect_row(&rows, i + ahead);
        memcpy(d + i * p->d0, s + i * p->s0, (size_t)p->n1);
    }
}

/* Whether rows of this plane are whole lines of the destination. */
static inline int zv_is_whole_lines(const char *d, const zv_plane *p, ptrdiff_t bytes) {
    return (((uintptr_t)d | (uintptr_t)p->d0 | (uintptr_t)bytes) & (ZV_LINE - 1)) == 0;
}

/* Rows of whole lines of a destination so large that it will not stay in the caches: lines are written past them, so
 * none is read before it is overwritten. Every caller ends with zv_end_streaming. */
#if ZV_X86
enum { ZV_STREAMS = 1 };

static void zv_stream_rows(char *d, const char *s, const zv_plane *p, const char *next) {
    (void)next;
    for (ptrdiff_t i = 0; i < p->n0; i++) {
        char *to = d + i * p->d0;
        const char *from = s + i * p->s0;
        for (ptrdiff_t k = 0; k < p->n1; k += ZV_LINE) {
            const __m128i a = _mm_loadu_si128((const __m128i *)(from + k));
            const __m128i b = _mm_loadu_si128((const __m128i *)(from + k + 16));
            const __m128i c = _mm_loadu_si128((const __m128i *)(from + k + 32));
            const __m128i e = _mm_loadu_si128((const __m128i *)(from + k + 48));
            _mm_stream_si128((__m128i *)(to + k), a);
            _mm_stream_si128((__m128i *)(to + k + 16), b);
            _mm_stream_si128((__m128i *)(to + k + 32), c);
            _mm_stream_si128((__m128i *)(to + k + 48), e);
        }
    }
}

static inline void zv_end_streaming(void) { _mm_sfence(); }

/* Rows of one line each, put together from 2 rows of 32 bytes or 4 of 16 that lie `apart`: blocks that are neighbours
 * along the fastest axis. Storing each half of a line alone would be far slower than going through the caches. */
static void zv_join_rows(char *d, ptrdiff_t d_stride, const char *s, ptrdiff_t s_stride, ptrdiff_t apart, ptrdiff_t n,
                         ptrdiff_t bytes) {
    const ptrdiff_t second = bytes == 16 ? apart : 16, third = bytes == 16 ? 2 * apart : apart;
    const ptrdiff_t fourth = bytes == 16 ? 3 * apart : apart + 16;
    for (ptrdiff_t i = 0; i < n; i++) {
        const __m128i a = _mm_loadu_si128((const __m128i *)s);
        const __m128i b = _mm_loadu_si128((const __m128i *)(s + second));
        const __m128i c = _mm_loadu_si128((const __m128i *)(s + third));
        const __m128i e = _mm_loadu_si128((const __m128i *)(s + fourth));
        _mm_stream_si128((__m128i *)d, a);
        _mm_stream_si128((__m128i *)(d + 16), b);
        _mm_stream_si128((__m128i *)(d + 32), c);
        _mm_stream_si128((__m128i *)(d + 48), e);
        d += d_stride;
        s += s_stride;
    }
}
#else
enum { ZV_STREAMS = 0 };
static void zv_join_rows(char *d, ptrdiff_t d_stride, const char *s, ptrdiff_t s_stride, ptrdiff_t apart, ptrdiff_t n,
                         ptrdiff_t bytes) {
    for (ptrdiff_t i = 0; i < n; i++)
        for (ptrdiff_t k = 0; k < ZV_LINE / bytes; k++)
            memcpy(d + i * d_stride + k * bytes, s + i * s_stride + k * apart, (size_t)bytes);
}
#define zv_stream_rows zv_copy_rows
static inline void zv_end_streaming(void) {}
#endif

/* How many rows of a plane are put together in the first cache before they are written past the caches: such that they
 * make whole lines, each by itself or as they follow each other. 0 if they do not. */
enum { ZV_STAGE = 8192 };

static inline ptrdiff_t zv_rows_staged(const char *d, const zv_plane *p, ptrdiff_t size) {
    const ptrdiff_t row = p->n1 * size, lowest = row & -row;
    const int follow = p->d0 == row && p->n0 * row % ZV_LINE == 0;
    const ptrdiff_t step = lowest < ZV_LINE ? ZV_LINE / lowest : 1;
    if (p->d1 != size || (uintptr_t)d % ZV_LINE || !(follow || zv_is_whole_lines(d, p, row))) return 0;
    return ZV_STAGE / row / step * step;
}

static void zv_move_staged(zv_mover mover, ptrdiff_t rows, char *d, const char *s, const zv_plane *p, ptrdiff_t size) {
    char memory[ZV_STAGE + ZV_LINE];
    char *const stage = memory + (-(uintptr_t)memory & (ZV_LINE - 1));
    const ptrdiff_t row = p->n1 * size;
    zv_plane in = *p, out = *p;
    in.d0 = out.s0 = out.n1 = row;
    in.by_source = 0;
    for (ptrdiff_t i = 0; i < p->n0; i += rows) {
        char *const to = d + i * p->d0;
        in.n0 = out.n0 = rows < p->n0 - i ? rows : p->n0 - i;
        mover(stage, s + i * p->s0, &in, stage);
        if (p->d0 == row) {
            out.n1 = out.n0 * row;
            out.n0 = 1;
        }
        zv_stream_rows(to, stage, &out, to);
    }
}

/* The mover for rows of whole lines that are written past the caches, with every `unit` bytes reversed (0: none); NULL
 * if there is none. Its plane counts rows in bytes. */
static zv_mover zv_find_streamer(uint32_t features, int unit) {
    if (!unit) return zv_stream_rows;
#if ZV_X86 && ZV_VECTORS
    if (features & ZV_CPU_AVX2) switch (unit) {
        case 2: return zv_stream_swapped_2_avx2;
        case 4: return zv_stream_swapped_4_avx2;
        case 8: return zv_stream_swapped_8_avx2;
        }
#endif
    (void)features;
    return NULL;
}

#endif
