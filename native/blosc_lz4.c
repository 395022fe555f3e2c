/* What c-blosc calls for each split of a block in the place of LZ4_compress_fast: another search, the same format.
 *
 * Splits are mostly planes of shuffled values. One of an image's low bytes is noise, and one of its high bytes a chain of
 * short matches, each of which begins where the last one ended: a step of that chain is what is waited for, so here it has
 * few instructions and few branches that cannot be foreseen. Images take 0.5 to 0.9 of the library's time.
 *
 * Matches of four bytes alone are not looked for, as the library does in splits of more than 64 KiB. In smaller ones it
 * does: a plane of floats is a sixth smaller for them, and takes four times as long to write and to read. Those are found
 * here only where a split is no plane, so that text, which has many, stays as small as it was.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lz4.h"

/* `pace`: of how many positions one is looked at; below zero for a plane of shuffled values. */
int zv_blosc_lz4_compress(const char *source, char *target, int size, int room, int pace);

#if defined(__GNUC__) && UINTPTR_MAX > 0xFFFFFFFFu && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

enum {
    TABLE_ORDER = 12,
    PACE_ORDER = 5,         /* after 2^5 positions without a match one more is left out between two */
    LEAST_MATCH = 4,
    FARTHEST = 65535,
    MOST_IN_TOKEN = 15,
    BYTES_AFTER_START = 12, /* as the format wants: no match begins in the last 12 bytes of a block, */
    BYTES_AFTER_END = 5,    /* or ends in its last 5 */
    ALL_MATCHES = (64 << 10) + 11, /* up to this size the library finds matches of four bytes */
    SLACK = 32,             /* of the target, so that most of what is written need not be counted */
};

static inline uint32_t load_32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}

static inline uint64_t load_64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

/* The place in the table of the five bytes at a position: of the 64 bits that lie there, the low 40. */
static inline uint32_t place_of(uint64_t bytes) {
    return (uint32_t)(((bytes << 24) * UINT64_C(889523592379)) >> (64 - TABLE_ORDER));
}

/* How many bytes are the same at two places, of those before `end`. */
static inline size_t count_same(const uint8_t *next, const uint8_t *match, const uint8_t *end) {
    const uint8_t *const begin = next;
#if defined(__SSE2__)
    for (; end - next >= 16; next += 16, match += 16) {
        __m128i one = _mm_loadu_si128((const __m128i *)next), other = _mm_loadu_si128((const __m128i *)match);
        uint32_t differ = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(one, other)) ^ 0xFFFF;
        if (differ) return (size_t)(next - begin) + (size_t)__builtin_ctz(differ);
    }
#endif
    for (; end - next >= 8; next += 8, match += 8) {
        uint64_t differ = load_64(next) ^ load_64(match);
        if (differ) return (size_t)(next - begin) + (size_t)(__builtin_ctzll(differ) >> 3);
    }
    while (next < end && *next == *match) next++, match++;
    return (size_t)(next - begin);
}

/* What does not fit into four bits of a token. */
static inline uint8_t *put_length(uint8_t *out, size_t length) {
    for (; length >= 255; length -= 255) *out++ = 255;
    *out++ = (uint8_t)length;
    return out;
}

/* A token without its match, and `count` literals; there is room for SLACK more bytes. Up to 15 bytes behind the
 * literals are read where `source_end` allows it, and written. */
static inline uint8_t *put_literals(uint8_t *out, const uint8_t *from, size_t count, const uint8_t *source_end) {
    uint8_t *token = out++;
    if (count >= MOST_IN_TOKEN) {
        *token = MOST_IN_TOKEN << 4;
        out = put_length(out, count - MOST_IN_TOKEN);
    } else *token = (uint8_t)(count << 4);
    if (UNLIKELY((size_t)(source_end - from) < count + 16)) memcpy(out, from, count);
    else
        for (size_t done = 0; done < count; done += 16) memcpy(out + done, from + done, 16);
    return out + count;
}

/* The size of the block; 0 if it does not fit with some slack. At first every `pace`th position is looked at. */
static int compress(const uint8_t *source, uint8_t *target, size_t size, size_t room, uint32_t pace) {
    uint32_t newest[1 << TABLE_ORDER];
    const uint8_t *const end = source + size, *const last_start = end - BYTES_AFTER_START,
                  *const last_end = end - BYTES_AFTER_END;
    const uint8_t *next = source, *written = source; /* everything before it is in the target */
    uint8_t *out = target, *const out_end = target + room;

    memset(newest, 0, sizeof newest);
    for (;;) {
        const uint8_t *match;
        uint32_t looked = pace << PACE_ORDER, step = 1;
        const uint8_t *after = next + 1;
        do {
            next = after;
            after += step;
            step = looked++ >> PACE_ORDER;
            if (UNLIKELY(after > last_start + 1)) goto rest;
            uint32_t *place = &newest[place_of(load_64(next))];
            match = source + *place;
            *place = (uint32_t)(next - source);
        } while (load_32(match) != load_32(next) || next - match > FARTHEST);
        while (next > written && match > source && next[-1] == match[-1]) next--, match--;

        size_t literals = (size_t)(next - written);
        if (UNLIKELY((size_t)(out_end - out) < literals + literals / 255 + SLACK)) return 0;
        uint8_t *token = out;
        out = put_literals(out, written, literals, end);

        /* Matches, each right behind the one before. `differ`: what their first eight bytes differ in. */
        uint64_t differ = load_64(next) ^ load_64(match);
        for (;;) {
            uint16_t distance = (uint16_t)(next - match);
            memcpy(out, &distance, 2);
            out += 2;
            size_t length;
            if (LIKELY(last_end - next >= 16)) {
                uint64_t second = load_64(next + 8) ^ load_64(match + 8);
                if (differ) length = (size_t)(__builtin_ctzll(differ) >> 3);
                else if (second) length = 8 + (size_t)(__builtin_ctzll(second) >> 3);
                else length = 16 + count_same(next + 16, match + 16, last_end);
            } else length = count_same(next, match, last_end);
            next += length;
            length -= LEAST_MATCH;
            if (UNLIKELY((size_t)(out_end - out) < length / 255 + SLACK)) return 0;
            if (UNLIKELY(length >= MOST_IN_TOKEN)) {
                *token |= MOST_IN_TOKEN;
                out = put_length(out, length - MOST_IN_TOKEN);
            } else *token |= (uint8_t)length;
            written = next;
            if (UNLIKELY(next > last_start)) goto rest;
            newest[place_of(load_64(next - 2))] = (uint32_t)(next - 2 - source);
            uint32_t *place = &newest[place_of(load_64(next))];
            match = source + *place;
            *place = (uint32_t)(next - source);
            differ = load_64(next) ^ load_64(match);
            if ((uint32_t)differ != 0 || next - match > FARTHEST) break;
            token = out++;
            *token = 0;
        }
    }
rest:;
    size_t literals = (size_t)(end - written);
    if ((size_t)(out_end - out) < literals + literals / 255 + 2) return 0;
    return (int)(put_literals(out, written, literals, end) - target);
}

int zv_blosc_lz4_compress(const char *source, char *target, int size, int room, int pace) {
    const int is_plane = pace < 0;
    if (is_plane) pace = -pace;
    /* Who asks for the highest level, the only one of pace 1, wants small files. */
    if (pace <= 1 || room <= 0 || size > LZ4_MAX_INPUT_SIZE || size <= (is_plane ? BYTES_AFTER_START : ALL_MATCHES))
        return LZ4_compress_fast(source, target, size, room, pace);
    return compress((const uint8_t *)source, (uint8_t *)target, (size_t)size, (size_t)room, (uint32_t)pace);
}

#else
int zv_blosc_lz4_compress(const char *source, char *target, int size, int room, int pace) {
    return LZ4_compress_fast(source, target, size, room, pace < 0 ? -pace : pace);
}
#endif
