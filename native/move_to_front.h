/*
 * Lists of bytes of which one moves to the front, for libbz2: sixteen bytes at a time. libbz2 moves them one by one, and
 * in noise each symbol comes from somewhere in the middle of up to 256.
 *
 * Blocks are loaded and stored as they lie, and shifted in registers: a load across two stores that have just been made
 * would have to wait until both are in the cache.
 */
#ifndef ZV_MOVE_TO_FRONT_H
#define ZV_MOVE_TO_FRONT_H

#include <string.h>

/* A list of 256 bytes as `zv_find_to_front` and `zv_take_to_front` want it. */
#define ZV_LIST __attribute__((aligned(16)))

#ifdef __SSE2__
#include <emmintrin.h>

/* Sixteen bytes from 15 - n on: the first n + 1 of a block are moved, the others stay. */
static const unsigned char zv_moved[31] = {
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
};

/* The block `at`, of which the items before and at `last` make room for `carried`, the last of the block before. */
static inline void zv_move_last(__m128i *at, __m128i block, __m128i carried, int last)
{
    const __m128i moved = _mm_loadu_si128((const __m128i *) (zv_moved + 15 - last));
    const __m128i shifted = _mm_or_si128(_mm_slli_si128(block, 1), carried);
    _mm_store_si128(at, _mm_or_si128(_mm_and_si128(moved, shifted), _mm_andnot_si128(moved, block)));
}

/* Move a byte that the list holds to its front; where it was. */
static inline int zv_find_to_front(unsigned char *list, unsigned char byte)
{
    const __m128i wanted = _mm_set1_epi8((char) byte);
    __m128i carried = _mm_cvtsi32_si128(byte);
    __m128i *at = (__m128i *) list;
    for (;; at++) {
        const __m128i block = _mm_load_si128(at);
        const int equal = _mm_movemask_epi8(_mm_cmpeq_epi8(block, wanted));
        if (equal != 0) {
            const int last = __builtin_ctz((unsigned) equal);
            zv_move_last(at, block, carried, last);
            return (int) ((unsigned char *) at - list) + last;
        }
        _mm_store_si128(at, _mm_or_si128(_mm_slli_si128(block, 1), carried));
        carried = _mm_srli_si128(block, 15);
    }
}

/* Move the byte at `place`, less than 256, to the front, and return it. */
static inline unsigned char zv_take_to_front(unsigned char *list, unsigned place)
{
    const unsigned char byte = list[place];
    __m128i carried = _mm_cvtsi32_si128(byte);
    __m128i *at = (__m128i *) list, *const last = at + place / 16;
    for (; at != last; at++) {
        const __m128i block = _mm_load_si128(at);
        _mm_store_si128(at, _mm_or_si128(_mm_slli_si128(block, 1), carried));
        carried = _mm_srli_si128(block, 15);
    }
    zv_move_last(at, _mm_load_si128(at), carried, (int) (place % 16));
    return byte;
}

#else

static inline unsigned char zv_take_to_front(unsigned char *list, unsigned place)
{
    const unsigned char byte = list[place];
    memmove(list + 1, list, place);
    list[0] = byte;
    return byte;
}

static inline int zv_find_to_front(unsigned char *list, unsigned char byte)
{
    const unsigned char *found = memchr(list, byte, 256);
    const int place = (int) (found - list);
    zv_take_to_front(list, (unsigned) place);
    return place;
}

#endif
#endif
