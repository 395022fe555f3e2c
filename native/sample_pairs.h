/* How zstd finds matches in noisy images whose samples have two bytes, where it has two tables (at levels 3 and 4 mostly).
 *
 * One byte of each such sample says little. Matches are short, and nearly all that pay begin at it: two bytes that happen
 * to be as before come with three that always are. zstd looks at each byte, for eight bytes that are as before and for
 * five. Here every second byte is looked at, for five, and repeats of 64 bytes and more are looked for apart from that:
 * microscopes' images take 0.65 to 0.8 of the time, magnetic resonance 0.6 to 0.7, for as much space.
 *
 * Blocks in which no such samples can be told, or whose matches are long or rare, are searched as ever. Which they are
 * depends on the frame alone, so that the same bytes are always compressed to the same. Both searches note in each table
 * the same of a place, so that either finds what the other has seen (where zstd looks for five bytes, and not for four).
 *
 * Included by zstd_double_fast.c, and called in the place of its search.
 */
#ifndef ZV_SAMPLE_PAIRS_H
#define ZV_SAMPLE_PAIRS_H

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* A block is judged by this many pieces of this many bytes. */
#define ZV_LOOKS 64
#define ZV_LOOK 16
#define ZV_PAIRS (ZV_LOOKS * ZV_LOOK / 2)

/* Then by what is found: after each piece of so many bytes, until so many matches tell. */
#define ZV_PIECE 2048
#define ZV_FEW_MATCHES 96
#define ZV_MANY_MATCHES 512
/* Four samples and more; background is longer. */
#define ZV_IS_LONG(length) ((length) >= 8 && (length) < 16)
/* What lies elsewhere too, as whole frames may, is looked for apart from noise: one place of so many is noted. */
#define ZV_NOTED_OF 128
#define ZV_REPEAT 64

typedef size_t (*zv_search)(ZSTD_MatchState_t *, SeqStore_t *, U32[ZSTD_REP_NUM], void const *, size_t);

/* As good as at most four values, all as frequent. */
static int zv_says_little(const U16 counts[256]) {
    U32 equal = 0;
    for (int i = 0; i < 256; i++) equal += (U32) counts[i] * counts[i];
    return 4 * equal >= ZV_PAIRS * ZV_PAIRS;
}

/* As good as at least sixteen values beside the most frequent, which leaves them a quarter: it may be background. */
static int zv_is_noise(const U16 counts[256]) {
    U32 equal = 0, most = 0, all = 0;
    for (int i = 0; i < 256; i++) {
        equal += (U32) counts[i] * counts[i];
        most = MAX(most, counts[i]);
        all += counts[i];
    }
    U32 const rest = all - most;
    return 4 * rest >= all && 16 * (equal - most * most) <= rest * rest;
}

/* Whether samples of two bytes, whose noisy one comes first or second, are what `looks` are made of: neither text nor
 * counters nor samples of four or eight bytes. */
static int zv_samples_are_noise(const BYTE *looks, size_t apart, int noisy) {
    U16 steps[256] = {0}, neighbours[1024] = {0};
    S16 by_two[256] = {0}, by_four[256] = {0};
    U32 equal = 0, all = 0, differ_by_two = 0, differ_by_four = 0;
    for (int i = 0; i < ZV_LOOKS; i++) {
        const BYTE *look = looks + i * apart + noisy;
        for (int k = 0; k < ZV_LOOK; k += 2) {
            by_two[look[k]] += k & 2 ? -1 : 1;
            by_four[look[k]] += k & 4 ? -1 : 1;
        }
        for (int k = 2; k < ZV_LOOK; k += 2) {
            if (look[k] == look[k - 2]) continue;
            steps[(BYTE) (look[k] - look[k - 2])]++;
            neighbours[(look[k] * 77 + look[k - 2] * 269) & 1023]++;
            all++;
        }
    }
    for (int i = 0; i < 1024; i++) equal += (U32) neighbours[i] * neighbours[i];
    for (int i = 0; i < 256; i++) {
        differ_by_two += by_two[i] < 0 ? -by_two[i] : by_two[i];
        differ_by_four += by_four[i] < 0 ? -by_four[i] : by_four[i];
    }
    /* Every second pair is of another kind, or two of four are. */
    if (8 * differ_by_two > 5 * ZV_PAIRS || 8 * differ_by_four > 5 * ZV_PAIRS) return 0;
    /* Neighbours tell of each other, as letters do. */
    if (120 * equal > all * all + 120 * all) return 0;
    return zv_is_noise(steps);
}

/* Whether a look at pieces of a block leaves it open that they are such samples. It takes next to no time, for there are
 * none in most blocks. */
static int zv_may_be_pairs(const BYTE *looks, size_t apart) {
    U64 const ones = 0x0101010101010101, tops = 0x80 * ones;
    U64 same = 0;
    U32 empty = 0, repeated = 0, of_first, of_second;
    for (int i = 0; i < ZV_LOOKS; i++) {
        U64 const one = MEM_readLE64(looks + i * apart), other = MEM_readLE64(looks + i * apart + 8);
        /* Six bytes beside those two places further. */
        U64 const differ = (one ^ one >> 16) | (U64) 0xFFFF << 48;
        same += (~(((differ & ~tops) + (tops - ones)) | differ) & tops) >> 7;
        /* All pairs are the same: background, or the inside of a label. */
        empty += one == other && !(differ << 16);
        repeated += one == other;
    }
    /* Labels with more than two bytes. */
    if (2 * (repeated - empty) > ZV_LOOKS - empty) return 0;
    of_first = (same & 0xFF) + (same >> 16 & 0xFF) + (same >> 32 & 0xFF);
    of_second = (same >> 8 & 0xFF) + (same >> 24 & 0xFF) + (same >> 40 & 0xFF);
    /* A byte that says little is often as the one before: a quarter of the time or more, less what chance does. */
    return 5 * MAX(of_first, of_second) > 3 * ZV_LOOKS;
}

/* Which byte of two is the one that says little: 0 or 1, or -1 where they are no noisy samples. */
static int zv_plain_byte(const BYTE *src, size_t size) {
    U16 counts[2][256] = {{0}, {0}};
    size_t const apart = (size / ZV_LOOKS) & ~(size_t) 1;
    if (!zv_may_be_pairs(src, apart)) return -1;
    for (int i = 0; i < ZV_LOOKS; i++) {
        for (int k = 0; k < ZV_LOOK; k++) counts[k & 1][src[i * apart + k]]++;
    }
    for (int plain = 0; plain < 2; plain++) {
        if (zv_says_little(counts[plain]) && zv_is_noise(counts[1 - plain])) {
            return zv_samples_are_noise(src, apart, 1 - plain) ? plain : -1;
        }
    }
    return -1;
}

/* What the matches say that were found up to `ip`. */
typedef enum { ZV_TOO_FEW, ZV_SHORT, ZV_LONG_OR_RARE } zv_matches;

static zv_matches zv_judge(const SeqStore_t *sequences, size_t begun, size_t searched) {
    const SeqDef *found = sequences->sequencesStart + begun;
    size_t const matches = (size_t) (sequences->sequences - found);
    size_t longer = 0;
    for (; found != sequences->sequences; found++) {
        size_t const length = ZSTD_getSequenceLength(sequences, found).matchLength;
        longer += ZV_IS_LONG(length);
        searched -= length;
    }
    if (matches >= ZV_FEW_MATCHES && 8 * longer > matches) return ZV_LONG_OR_RARE;
    /* The more is searched, the more there is to be found, so not before much was. */
    if (searched > 32 * matches + 8 * ZV_PIECE) return ZV_LONG_OR_RARE;
    return matches >= ZV_MANY_MATCHES ? ZV_SHORT : ZV_TOO_FEW;
}

/* The state of a search through a block, of which `plain` is the first byte that says little. */
typedef struct {
    /* For five bytes; and for eight, of the places that are noted of what may be a repeat. */
    U32 *table, *noted;
    U32 bits, noted_bits, lowest;
    const BYTE *base, *first, *src, *end;
    int plain;
} zv_block;

typedef struct {
    const BYTE *begin, *end;
    U32 offset;
} zv_repeat;

/* The first byte of a sample at or behind a place. */
static const BYTE *zv_at_sample(const zv_block *block, const BYTE *place) {
    return place + ((size_t) (place - block->src - block->plain) & 1);
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
            *at = zv_at_sample(block, repeat->end);
            return 1;
        }
    }
    *at = place;
    return 0;
}

/* What lies from `place` to `stop` is not known yet. */
static void zv_forget(const zv_block *block, const BYTE *place, const BYTE *stop) {
    U32 const from = (U32) (place - block->base);
    for (place = zv_at_sample(block, place); place < stop; place += 2) {
        U32 *const of_five = block->table + ZSTD_hashPtr(place, block->bits, 5), *const noted = zv_noted_at(block, place);
        if (*of_five >= from) *of_five = 0;
        if (*noted >= from) *noted = 0;
    }
}

/* Looks at every second byte of a block. Returns where that begins which no match has: near the end of the block, or, with
 * `gave_up`, before all that another search has to look at. */
static ZSTD_ALLOW_POINTER_OVERFLOW_ATTR const BYTE *zv_search_pairs(ZSTD_MatchState_t *ms, SeqStore_t *sequences,
                                                                    U32 rep[ZSTD_REP_NUM], const BYTE *src, size_t size,
                                                                    int plain, int *gave_up) {
    /* Compared with where the table has no position. */
    static const BYTE nothing[] = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0};
    U32 *const table = ms->chainTable;
    U32 const bits = ms->cParams.chainLog;
    const BYTE *const base = ms->window.base;
    U32 const lowest = ZSTD_getLowestPrefixIndex(ms, (U32) (src - base) + (U32) size, ms->cParams.windowLog);
    const BYTE *const first = base + lowest;
    const BYTE *const end = src + size;
    zv_block const block = {table, ms->hashTable, bits, ms->cParams.hashLog, lowest, base, first, src, end, plain};
    /* Two places inside of each match are noted too. */
    const BYTE *const last = end - HASH_READ_SIZE - 4;
    size_t const begun = (size_t) (sequences->sequences - sequences->sequencesStart);
    const BYTE *stop = src + ZV_PIECE;
    const BYTE *anchor = src;
    const BYTE *ip = src + plain;
    const BYTE *seen = ip;

    *gave_up = 0;
    if (ip <= first) ip += 2;
    for (;;) {
        zv_repeat repeat;
        int const repeats = zv_find_repeat(&block, &seen, stop, &repeat);
        const BYTE *const until = repeats ? repeat.begin : stop;
        while (ip < until) {
            U32 *const place = table + ZSTD_hashPtr(ip, bits, 5);
            U32 const index = *place;
            const BYTE *match = base + index;
            const BYTE *const compared = ZSTD_selectAddr(index, lowest, match, nothing);
            U64 const other = MEM_readLE64(compared) ^ MEM_readLE64(ip);
            *place = (U32) (ip - base);
            /* Five bytes. */
            if (other << 24 || compared != match) {
                /* The longer nothing is found, the fewer places are looked at, as ever. */
                ip += 2 + (((ip - anchor) >> 8) & ~1);
                continue;
            }
            const BYTE *const found = ip;
            size_t length = other ? ZSTD_countTrailingZeros64(other) >> 3 : ZSTD_count(ip + 8, match + 8, end) + 8;
            U32 const offset = (U32) (ip - match);
            while (ip > anchor && match > first && ip[-1] == match[-1]) {
                ip--;
                match--;
                length++;
            }
            ZSTD_storeSeq(sequences, (size_t) (ip - anchor), anchor, end, OFFSET_TO_OFFBASE(offset), length);
            rep[1] = rep[0];
            rep[0] = offset;
            anchor = ip + length;
            table[ZSTD_hashPtr(found + 2, bits, 5)] = (U32) (found + 2 - base);
            table[ZSTD_hashPtr(found + 4, bits, 5)] = (U32) (found + 4 - base);
            ip = zv_at_sample(&block, anchor);
        }
        if (repeats) {
            const BYTE *const begin = MAX(repeat.begin, anchor);
            if (begin + ZV_REPEAT / 2 <= repeat.end) {
                ZSTD_storeSeq(sequences, (size_t) (begin - anchor), anchor, end, OFFSET_TO_OFFBASE(repeat.offset),
                              (size_t) (repeat.end - begin));
                rep[1] = rep[0];
                rep[0] = repeat.offset;
                anchor = repeat.end;
                ip = zv_at_sample(&block, anchor);
            }
            continue;
        }
        if (stop == last) return anchor;
        switch (zv_judge(sequences, begun, (size_t) (ip - src))) {
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
                              size_t size, zv_search otherwise) {
    const BYTE *src = (const BYTE *) source;
    if (size >= 4 * ZV_PIECE) {
        int const plain = zv_plain_byte(src, size);
        if (plain >= 0) {
            int gave_up;
            const BYTE *rest = zv_search_pairs(ms, sequences, rep, src, size, plain, &gave_up);
            size -= (size_t) (rest - src);
            if (!gave_up) return size;
            src = rest;
        }
    }
    return otherwise(ms, sequences, rep, src, size);
}

#endif
