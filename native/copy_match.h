/* How libdeflate's decoder copies a match: what was decoded `offset` bytes before, at least one, once more. zstd's and
 * lz4's do so, too (zstd_sequences.h, lz4_matches.h).
 *
 * libdeflate's own loop copies 8 bytes at a time and looks after 40 whether that was all. The matches of a segmentation
 * are some 80 bytes long, each another length, and nearly each end of that loop is one that the processor did not foresee.
 * Here the first 32 bytes are enough for most matches of images, and what is copied at once behind them for most others:
 * labels are decoded in 0.7 to 0.8 of the time, images in as much as before. libdeflate's matches are given 128 bytes:
 * Intel's processors take 0.75 to 0.85 of the time that they take with 64, AMD's, which write 16 bytes a cycle, 1.03. The
 * shorter ones of lz4 and zstd would make these write too much for nothing (1.05 to 1.3). What repeats after less than 16
 * bytes, as a colour of 3 or a point of 12 does, is kept in registers: to load what was stored a moment ago, in other
 * pieces, takes 3 to 7 times as long. So of an element of 1, 2 or 4 bytes, which labels and shuffled planes are full of,
 * no more is loaded than it has.
 *
 * Up to ZV_WRITTEN_AFTER_MATCH bytes behind the match are written too; the decoder, which keeps as many free, writes them
 * again. What is read lies before what is written, but for up to 5 bytes behind a repeated element, which are not used.
 */
#ifndef ZV_COPY_MATCH_H
#define ZV_COPY_MATCH_H

#include <string.h>

/* Whether it pays to ask if 16 bytes are enough: in zstd and lz4, whose matches in noise are a few bytes long. */
#ifndef ZV_ASK_AT_16
#define ZV_ASK_AT_16 0
#endif

#ifndef ZV_COPIED_AT_ONCE /* 64 or 128 */
#define ZV_COPIED_AT_ONCE 64
#endif
#define ZV_WRITTEN_AFTER_MATCH (ZV_COPIED_AT_ONCE - 1)

#if defined(__GNUC__) || defined(__clang__)
typedef unsigned char zv_sixteen __attribute__((vector_size(16)));
#else
typedef struct { u64 parts[2]; } zv_sixteen;
#endif

static forceinline void zv_copy_16(const u8 *from, u8 *to) {
    zv_sixteen bytes;
    memcpy(&bytes, from, 16);
    memcpy(to, &bytes, 16);
}

/* Each load must come after the stores before it: with a small offset it reads what they wrote. */
static forceinline void zv_copy_far(const u8 *from, u8 *to, const u8 *end) {
    zv_copy_16(from, to);
    if (ZV_ASK_AT_16 && likely(to + 16 >= end)) return;
    zv_copy_16(from + 16, to + 16);
    from += 32;
    to += 32;
    while (to < end) {
        zv_copy_16(from, to);
        zv_copy_16(from + 16, to + 16);
        zv_copy_16(from + 32, to + 32);
        zv_copy_16(from + 48, to + 48);
#if ZV_COPIED_AT_ONCE == 128
        zv_copy_16(from + 64, to + 64);
        zv_copy_16(from + 80, to + 80);
        zv_copy_16(from + 96, to + 96);
        zv_copy_16(from + 112, to + 112);
#endif
        from += ZV_COPIED_AT_ONCE;
        to += ZV_COPIED_AT_ONCE;
    }
}

/* An element of 1, 2, 4 or 8 bytes, again and again. */
static forceinline u64 zv_repeated(const u8 *from, u32 size) {
    u64 eight;
    u32 four;
    u16 two;
    if (size == 1) return *from * 0x0101010101010101ULL;
    if (size == 2) {
        memcpy(&two, from, 2);
        return two * 0x0001000100010001ULL;
    }
    if (size == 4) {
        memcpy(&four, from, 4);
        return four * 0x0000000100000001ULL;
    }
    memcpy(&eight, from, 8);
    return eight;
}

static forceinline void zv_copy_repeated(const u8 *from, u32 size, u8 *to, const u8 *end) {
    u64 eight = zv_repeated(from, size);
    do {
        for (int i = 0; i < 8; i++) memcpy(to + 8 * i, &eight, 8);
        to += 64;
    } while (to < end);
}

/* An element of 3, 5, 6 or 7 bytes: as much of it as 8 bytes hold, again and again. Three bytes are in there twice. */
static forceinline void zv_copy_odd(const u8 *from, u32 size, u8 *to, const u8 *end) {
    u32 step = size == 3 ? 6 : size, unused = 64 - 8 * size;
    u64 eight;
    memcpy(&eight, from, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    eight = eight >> unused << unused;
    eight |= eight >> 8 * size;
    if (size == 3) eight |= eight >> 48;
#else
    eight = eight << unused >> unused;
    eight |= eight << 8 * size;
    if (size == 3) eight |= eight << 48;
#endif
    do {
        memcpy(to, &eight, 8);
        to += step;
    } while (to < end);
}

/* An element of 9 to 15 bytes: its first 8 and its last 8, of which some are the same. */
static forceinline void zv_copy_long(const u8 *from, u32 size, u8 *to, const u8 *end) {
    u64 first, last;
    memcpy(&first, from, 8);
    memcpy(&last, from + size - 8, 8);
    do {
        memcpy(to, &first, 8);
        memcpy(to + size - 8, &last, 8);
        to += size;
    } while (to < end);
}

static forceinline void zv_copy_match(const u8 *from, u8 *to, const u8 *end, u32 offset) {
    if (likely(offset >= 16))
        zv_copy_far(from, to, end);
    else if (offset == 1 || offset == 2 || offset == 4 || offset == 8)
        zv_copy_repeated(from, offset, to, end);
    else if (offset > 8)
        zv_copy_long(from, offset, to, end);
    else
        zv_copy_odd(from, offset, to, end);
}

#endif
