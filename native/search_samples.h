/* How zstd finds matches in noisy images whose samples have two, four or eight bytes, where it has two tables (at levels 3
 * and 4 mostly).
 *
 * Some bytes of each such sample say little. Matches are short, and nearly all that pay begin where these do: two bytes
 * that happen to be as before come with three that always are. zstd looks at each byte, for eight bytes that are as before
 * and for five. Here one byte of each sample is looked at, for five, and repeats of 64 bytes and more are looked for apart
 * from that: images of two bytes take 0.6 to 0.8 of the time, for as much space.
 *
 * Where five bytes and more of eight say little, as in numbers that are much wider than their values, these five tell
 * nothing. They are mostly as in the sample of the last match, which zstd sees only by chance, one byte behind where it
 * looks. Here that is looked at first, which takes 5 to 25 % less space. Where fewer say little it would save as much, but
 * a match for each sample makes decoding up to two and a half times as long.
 *
 * Blocks in which no such samples can be told, or whose matches are long or rare, are searched as ever. Which they are
 * depends on the frame alone, so that the same bytes are always compressed to the same. Both searches note in each table
 * the same of a place, so that either finds what the other has seen (where zstd looks for five bytes, and not for four).
 *
 * Included by zstd_double_fast.c, and called in the place of its search.
 */
#ifndef ZV_SEARCH_SAMPLES_H
#define ZV_SEARCH_SAMPLES_H

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "tell_samples.h"

/* A block is judged by what is found, too: after each piece of so many bytes, until so many matches tell. */
#define ZV_PIECE 2048
#define ZV_FEW_MATCHES 96
#define ZV_MANY_MATCHES 512
/* Four samples and more; background is longer. */
#define ZV_IS_LONG(length, size) ((length) >= 4 * (size) && (length) < 8 * (size))
/* What lies elsewhere too, as whole frames may, is looked for apart from noise: one place of so many is noted. */
#define ZV_NOTED_OF 128
#define ZV_REPEAT 64

/* So many bytes that say little are first compared with those of the last match. */
#define ZV_LONG_RUN 5

typedef size_t (*zv_search)(ZSTD_MatchState_t *, SeqStore_t *, U32[ZSTD_REP_NUM], void const *, size_t);

/* What the matches say that were found up to `ip`. */
typedef enum { ZV_TOO_FEW, ZV_SHORT, ZV_LONG_OR_RARE } zv_matches;

static zv_matches zv_judge(const SeqStore_t *sequences, size_t begun, size_t searched, U32 size) {
    const SeqDef *found = sequences->sequencesStart + begun;
    size_t const matches = (size_t) (sequences->sequences - found);
    size_t longer = 0;
    for (; found != sequences->sequences; found++) {
        size_t const length = ZSTD_getSequenceLength(sequences, found).matchLength;
        longer += ZV_IS_LONG(length, size);
        searched -= length;
    }
    if (matches >= ZV_FEW_MATCHES && 8 * longer > matches) return ZV_LONG_OR_RARE;
    /* The more is searched, the more there is to be found, so not before much was. */
    if (searched > 32 * matches + 8 * ZV_PIECE) return ZV_LONG_OR_RARE;
    return matches >= ZV_MANY_MATCHES ? ZV_SHORT : ZV_TOO_FEW;
}

/* The state of a search through a block. */
typedef struct {
    /* For five bytes; and for eight, of the places that are noted of what may be a repeat. */
    U32 *table, *noted;
    U32 bits, noted_bits, lowest;
    const BYTE *base, *first, *src, *end;
    zv_samples samples;
} zv_block;

typedef struct {
    const BYTE *begin, *end;
    U32 offset;
} zv_repeat;

/* The first byte that says little, of the sample that has it at or behind a place. */
static const BYTE *zv_at_sample(const zv_block *block, const BYTE *place, size_t size) {
    return place + ((size_t) (block->src + block->samples.plain - place) & (size - 1));
}

/* Which places are noted is decided by two samples. */
#define ZV_MIX_ONE 0x9E37
#define ZV_MIX_OTHER 0x79B1
#define ZV_MIX_BITS (0xFFFF & ~(0xFFFF / ZV_NOTED_OF))

static int zv_is_noted(const BYTE *place) {
    U16 const mixed = (U16) (MEM_readLE16(place) * (U32) ZV_MIX_ONE + MEM_readLE16(place + 2) * (U32) ZV_MIX_OTHER);
    return (mixed & ZV_MIX_BITS) == ZV_MIX_BITS;
}

/* The first place that is noted, or `stop` or one behind it. */
static const BYTE *zv_next_noted(const BYTE *place, const BYTE *stop) {
#if defined(__SSE2__)
    __m128i const one = _mm_set1_epi16((short) ZV_MIX_ONE), other = _mm_set1_epi16((short) ZV_MIX_OTHER);
    __m128i const bits = _mm_set1_epi16((short) ZV_MIX_BITS);
    for (; place + 16 <= stop; place += 16) {
        __m128i const mixed = _mm_add_epi16(_mm_mullo_epi16(_mm_loadu_si128((const __m128i *) place), one),
                                            _mm_mullo_epi16(_mm_loadu_si128((const __m128i *) (place + 2)), other));
        int const noted = _mm_movemask_epi8(_mm_cmpeq_epi16(_mm_and_si128(mixed, bits), bits));
        if (noted) return place + ZSTD_countTrailingZeros32((U32) noted);
    }
#endif
    while (place < stop && !zv_is_noted(place)) place += 2;
    return place;
}

static U32 *zv_noted_at(const zv_block *block, const BYTE *place) {
    return block->noted + ZSTD_hashPtr(place, block->noted_bits, 8);
}

/* The first repeat that is seen in `*at` to `stop`, behind which `*at` is then. It may begin before. */
static ZSTD_ALLOW_POINTER_OVERFLOW_ATTR int zv_find_repeat(const zv_block *block, const BYTE **at, const BYTE *stop,
                                                           zv_repeat *repeat) {
    const BYTE *place = *at;
    for (; (place = zv_next_noted(place, stop)) < stop; place += 2) {
        U32 *const noted = zv_noted_at(block, place);
        U32 const index = *noted;
        const BYTE *other = block->base + index;
        *noted = (U32) (place - block->base);
        /* Not by pointers: what is below the first index may lie anywhere. */
        if (index < block->lowest || MEM_read64(other) != MEM_read64(place)) continue;
        repeat->offset = (U32) (place - other);
        repeat->begin = place;
        repeat->end = place + 8 + ZSTD_count(place + 8, other + 8, block->end);
        while (repeat->begin > block->src && other > block->first && repeat->begin[-1] == other[-1]) {
            repeat->begin--;
            other--;
        }
        if (repeat->end - repeat->begin >= ZV_REPEAT) {
            *at = zv_at_sample(block, repeat->end, 2);
            return 1;
        }
    }
    *at = place;
    return 0;
}

/* What lies from `place` to `stop` is not known yet. */
static void zv_forget(const zv_block *block, const BYTE *place, const BYTE *stop) {
    U32 const from = (U32) (place - block->base);
    for (place = zv_at_sample(block, place, 2); place < stop; place += 2) {
        U32 *const of_five = block->table + ZSTD_hashPtr(place, block->bits, 5), *const noted = zv_noted_at(block, place);
        if (*of_five >= from) *of_five = 0;
        if (*noted >= from) *noted = 0;
    }
}

/* Whether three of the bytes that say little are as in the sample of the last match. */
static int zv_is_as_before(const BYTE *ip, U32 back, const BYTE *anchor, const BYTE *first) {
    /* Behind no other byte, it would be the match before that. And zstd has room for a sequence for each four bytes, which
     * three and the one before them are. */
    return ip > anchor && (size_t) back - 1 < (size_t) (ip - first) &&
           !((MEM_readLE32(ip) ^ MEM_readLE32(ip - back)) << 8);
}

/* Looks at one byte of each sample of a block. Returns where that begins which no match has: near the end of the block, or,
 * with `gave_up`, before all that another search has to look at. */
FORCE_INLINE_TEMPLATE ZSTD_ALLOW_POINTER_OVERFLOW_ATTR const BYTE *
zv_search_samples(ZSTD_MatchState_t *ms, SeqStore_t *sequences, U32 rep[ZSTD_REP_NUM], const BYTE *src, size_t length,
                  zv_samples samples, size_t size, int *gave_up) {
    /* Compared with where the table has no position. */
    static const BYTE nothing[] = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0};
    U32 *const table = ms->chainTable;
    U32 const bits = ms->cParams.chainLog;
    const BYTE *const base = ms->window.base;
    U32 const lowest = ZSTD_getLowestPrefixIndex(ms, (U32) (src - base) + (U32) length, ms->cParams.windowLog);
    const BYTE *const first = base + lowest;
    const BYTE *const end = src + length;
    zv_block const block = {table, ms->hashTable, bits, ms->cParams.hashLog, lowest, base, first, src, end, samples};
    int const looks_back = size > ZV_LONG_RUN && samples.run >= ZV_LONG_RUN;
    /* In matches of short samples another place or two are noted. */
    const BYTE *const last = end - HASH_READ_SIZE - 4;
    size_t const begun = (size_t) (sequences->sequences - sequences->sequencesStart);
    const BYTE *stop = src + ZV_PIECE;
    const BYTE *anchor = src;
    const BYTE *ip = src + samples.plain;
    const BYTE *seen = ip;

    *gave_up = 0;
    if (ip <= first) ip += size;
    for (;;) {
        zv_repeat repeat;
        int const repeats = zv_find_repeat(&block, &seen, stop, &repeat);
        const BYTE *const until = repeats ? repeat.begin : stop;
        while (ip < until) {
            U32 *const place = table + ZSTD_hashPtr(ip, bits, 5);
            U32 const index = *place;
            *place = (U32) (ip - base);
            if (looks_back && zv_is_as_before(ip, rep[0], anchor, first)) {
                size_t const same = ZSTD_count(ip + 3, ip + 3 - rep[0], end) + 3;
                ZSTD_storeSeq(sequences, (size_t) (ip - anchor), anchor, end, REPCODE1_TO_OFFBASE, same);
                anchor = ip + same;
                ip = zv_at_sample(&block, anchor, size);
                continue;
            }
            const BYTE *match = base + index;
            const BYTE *const compared = ZSTD_selectAddr(index, lowest, match, nothing);
            U64 const other = MEM_readLE64(compared) ^ MEM_readLE64(ip);
            /* Five bytes. */
            if (other << 24 || index < lowest) {
                /* The longer nothing is found, the fewer places are looked at, as ever. */
                ip += size + (((size_t) (ip - anchor) >> 8) & ~(size - 1));
                continue;
            }
            const BYTE *const found = ip;
            size_t same = other ? ZSTD_countTrailingZeros64(other) >> 3 : ZSTD_count(ip + 8, match + 8, end) + 8;
            U32 const offset = (U32) (ip - match);
            while (ip > anchor && match > first && ip[-1] == match[-1]) {
                ip--;
                match--;
                same++;
            }
            ZSTD_storeSeq(sequences, (size_t) (ip - anchor), anchor, end, OFFSET_TO_OFFBASE(offset), same);
            rep[1] = rep[0];
            rep[0] = offset;
            anchor = ip + same;
            if (size == 2) table[ZSTD_hashPtr(found + 2, bits, 5)] = (U32) (found + 2 - base);
            if (size <= 4) table[ZSTD_hashPtr(found + 4, bits, 5)] = (U32) (found + 4 - base);
            ip = zv_at_sample(&block, anchor, size);
        }
        if (repeats) {
            const BYTE *const begin = MAX(repeat.begin, anchor);
            if (begin + ZV_REPEAT / 2 <= repeat.end) {
                ZSTD_storeSeq(sequences, (size_t) (begin - anchor), anchor, end, OFFSET_TO_OFFBASE(repeat.offset),
                              (size_t) (repeat.end - begin));
                rep[1] = rep[0];
                rep[0] = repeat.offset;
                anchor = repeat.end;
                ip = zv_at_sample(&block, anchor, size);
            }
            continue;
        }
        if (stop == last) return anchor;
        switch (zv_judge(sequences, begun, (size_t) (ip - src), (U32) size)) {
        case ZV_LONG_OR_RARE:
            zv_forget(&block, anchor, stop);
            *gave_up = 1;
            return anchor;
        case ZV_SHORT: stop = last; break;
        case ZV_TOO_FEW: stop = MIN(stop + ZV_PIECE, last); break;
        }
    }
}

/* In the place of `otherwise`, which searches blocks as ever. */
static size_t zv_search_block(ZSTD_MatchState_t *ms, SeqStore_t *sequences, U32 rep[ZSTD_REP_NUM], void const *source,
                              size_t length, zv_search otherwise) {
    const BYTE *src = (const BYTE *) source;
    const BYTE *rest;
    zv_samples samples;
    int gave_up;
    if (length < 4 * ZV_PIECE) return otherwise(ms, sequences, rep, src, length);
    samples = zv_tell_samples(src, length);
    switch (samples.size) {
    case 2: rest = zv_search_samples(ms, sequences, rep, src, length, samples, 2, &gave_up); break;
    case 4: rest = zv_search_samples(ms, sequences, rep, src, length, samples, 4, &gave_up); break;
    case 8: rest = zv_search_samples(ms, sequences, rep, src, length, samples, 8, &gave_up); break;
    default: return otherwise(ms, sequences, rep, src, length);
    }
    length -= (size_t) (rest - src);
    return gave_up ? otherwise(ms, sequences, rep, rest, length) : length;
}

#endif
