/* The inner loops of blocks.pyx: moves over two axes, the inner one walking the destination in its smallest steps.
 *
 * d0, d1 and s0, s1 are the byte strides of destination and source, n0 and n1 the extents of the outer and inner axis.
 * Items are loaded and stored through memcpy, so that nothing needs to be aligned. */
#ifndef ZV_BLOCKS_MOVE_H
#define ZV_BLOCKS_MOVE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(_MSC_VER)
#include <stdlib.h>
#define zv_bswap16 _byteswap_ushort
#define zv_bswap32 _byteswap_ulong
#define zv_bswap64 _byteswap_uint64
#define ZV_INLINE static __forceinline
#else
#define zv_bswap16 __builtin_bswap16
#define zv_bswap32 __builtin_bswap32
#define zv_bswap64 __builtin_bswap64
#define ZV_INLINE static inline __attribute__((always_inline))
#endif

typedef void (*zv_mover)(char *d, ptrdiff_t d0, ptrdiff_t d1, const char *s, ptrdiff_t s0, ptrdiff_t s1, ptrdiff_t n0,
                         ptrdiff_t n1);

/* One item. `unit` is the number of bytes to reverse as one, 0 for none; both are constants where this is used. */
ZV_INLINE void zv_move_item(char *d, const char *s, int size, int unit)
{
    uint16_t a;
    uint32_t b;
    uint64_t x, y;
    switch (size) {
    case 1:
        *d = *s;
        break;
    case 2:
        memcpy(&a, s, 2);
        if (unit == 2)
            a = zv_bswap16(a);
        memcpy(d, &a, 2);
        break;
    case 4:
        memcpy(&b, s, 4);
        if (unit == 4)
            b = zv_bswap32(b);
        memcpy(d, &b, 4);
        break;
    case 8:
        memcpy(&x, s, 8);
        if (unit)
            x = zv_bswap64(x);
        if (unit == 4)
            x = x << 32 | x >> 32;
        memcpy(d, &x, 8);
        break;
    default:
        memcpy(&x, s, 8);
        memcpy(&y, s + 8, 8);
        if (unit) {
            x = zv_bswap64(x);
            y = zv_bswap64(y);
        }
        memcpy(d, unit == 16 ? &y : &x, 8);
        memcpy(d + 8, unit == 16 ? &x : &y, 8);
    }
}

/* Any strides; where both are those of neighbours, the compiler gets a loop that it can vectorise. */
ZV_INLINE void zv_move_lines(char *d, ptrdiff_t d0, ptrdiff_t d1, const char *s, ptrdiff_t s0, ptrdiff_t s1,
                             ptrdiff_t n0, ptrdiff_t n1, int size, int unit)
{
    for (ptrdiff_t i = 0; i < n0; i++, d += d0, s += s0) {
        if (d1 == size && s1 == size)
            for (ptrdiff_t j = 0; j < n1; j++)
                zv_move_item(d + j * size, s + j * size, size, unit);
        else
            for (ptrdiff_t j = 0; j < n1; j++)
                zv_move_item(d + j * d1, s + j * s1, size, unit);
    }
}

/* The source's neighbours lie along the outer axis: square tiles keep the lines of both sides in cache. */
ZV_INLINE void zv_move_tiles(char *d, ptrdiff_t d0, ptrdiff_t d1, const char *s, ptrdiff_t s0, ptrdiff_t s1,
                             ptrdiff_t n0, ptrdiff_t n1, int size, int unit)
{
    const ptrdiff_t side = size < 8 ? 16 : 8;
    for (ptrdiff_t i = 0; i < n0; i += side)
        for (ptrdiff_t j = 0; j < n1; j += side)
            zv_move_lines(d + i * d0 + j * d1, d0, d1, s + i * s0 + j * s1, s0, s1, n0 - i < side ? n0 - i : side,
                          n1 - j < side ? n1 - j : side, size, unit);
}

#define ZV_MOVERS(size, unit)                                                                                          \
    static void zv_lines_##size##_##unit(char *d, ptrdiff_t d0, ptrdiff_t d1, const char *s, ptrdiff_t s0,             \
                                         ptrdiff_t s1, ptrdiff_t n0, ptrdiff_t n1)                                     \
    {                                                                                                                  \
        zv_move_lines(d, d0, d1, s, s0, s1, n0, n1, size, unit);                                                       \
    }                                                                                                                  \
    static void zv_tiles_##size##_##unit(char *d, ptrdiff_t d0, ptrdiff_t d1, const char *s, ptrdiff_t s0,             \
                                         ptrdiff_t s1, ptrdiff_t n0, ptrdiff_t n1)                                     \
    {                                                                                                                  \
        zv_move_tiles(d, d0, d1, s, s0, s1, n0, n1, size, unit);                                                       \
    }

ZV_MOVERS(1, 0)
ZV_MOVERS(2, 0)
ZV_MOVERS(2, 2)
ZV_MOVERS(4, 0)
ZV_MOVERS(4, 4)
ZV_MOVERS(8, 0)
ZV_MOVERS(8, 8)
ZV_MOVERS(8, 4)
ZV_MOVERS(16, 0)
ZV_MOVERS(16, 16)
ZV_MOVERS(16, 8)

/* Rows of bytes, n1 long. */
static void zv_copy_rows(char *d, ptrdiff_t d0, ptrdiff_t d1, const char *s, ptrdiff_t s0, ptrdiff_t s1, ptrdiff_t n0,
                         ptrdiff_t n1)
{
    (void)d1;
    (void)s1;
    for (ptrdiff_t i = 0; i < n0; i++, d += d0, s += s0)
        memcpy(d, s, (size_t)n1);
}

/* The mover for items of 1, 2, 4, 8 or 16 bytes with a unit that fits them; NULL for anything else. */
static zv_mover zv_find_mover(ptrdiff_t size, int unit, int tiles)
{
#define ZV_CASE(size, unit)                                                                                            \
    case size * 32 + unit:                                                                                             \
        return tiles ? zv_tiles_##size##_##unit : zv_lines_##size##_##unit;
    if (size < 1 || size > 16)
        return NULL;
    switch (size * 32 + unit) {
        ZV_CASE(1, 0)
        ZV_CASE(2, 0)
        ZV_CASE(2, 2)
        ZV_CASE(4, 0)
        ZV_CASE(4, 4)
        ZV_CASE(8, 0)
        ZV_CASE(8, 8)
        ZV_CASE(8, 4)
        ZV_CASE(16, 0)
        ZV_CASE(16, 16)
        ZV_CASE(16, 8)
    }
#undef ZV_CASE
    return NULL;
}

#endif
