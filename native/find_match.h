/* How libdeflate's compressor finds matches: for labels, which are made of long ones, and for images, which have few.
 *
 * Included in place of its hc_matchfinder.h, which it includes. 32 bytes of two places are compared at once, not 8, and
 * for four positions that are passed over the end is looked for once: labels take 0.9 of the time. The table for four
 * bytes is larger: images take 0.87 to 0.98 of it. What is found is as good, and nearly always the same.
 *
 * Nothing is read that the library does not read, or that lies behind the bytes that it says are there.
 */
#ifndef ZV_FIND_MATCH_H
#define ZV_FIND_MATCH_H

#include "matchfinder_common.h"

#if defined(__SSE2__)
#include <emmintrin.h>

/* A bit for each of 16 bytes: whether they are the same. */
static forceinline u32 zv_same_16(const u8 *a, const u8 *b) {
    __m128i of_a = _mm_loadu_si128((const __m128i *) a), of_b = _mm_loadu_si128((const __m128i *) b);
    return (u32) _mm_movemask_epi8(_mm_cmpeq_epi8(of_a, of_b));
}

/* In place of lz_extend: how many bytes are the same, of at most `most`, when `same` are known to be. Each read ends at
 * or before `most` bytes, and `most` are there: of `next`, and of `match`, which lies before it. */
static forceinline u32 zv_extend(const u8 *next, const u8 *match, u32 same, u32 most) {
    /* The first eight alone: most matches end there. */
    if (most - same >= 8) {
        u64 other = load_u64_unaligned(match + same) ^ load_u64_unaligned(next + same);
        if (other) return same + (bsf64(other) >> 3);
        same += 8;
        for (; most - same >= 32; same += 32) {
            u32 equal = zv_same_16(match + same, next + same);
            equal |= zv_same_16(match + same + 16, next + same + 16) << 16;
            if (equal != 0xFFFFFFFF) return same + bsf32(~equal);
        }
        for (; most - same >= 8; same += 8) {
            other = load_u64_unaligned(match + same) ^ load_u64_unaligned(next + same);
            if (other) return same + (bsf64(other) >> 3);
        }
    }
    while (same < most && match[same] == next[same]) same++;
    return same;
}
#define lz_extend zv_extend
#endif

/* The library's tables have 2^16 places for four bytes: half of those that are noted in a window of 32 KiB of noise share
 * theirs with others, and each is looked at. */
#ifdef ZV_SHORT_MATCHES
#define ZV_HASH4_ORDER 16
#else
#define ZV_HASH4_ORDER 17
#endif

/* In place of matchfinder_rebase, once for 32 KiB: what makes up for the larger table where matches are long. */
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

__attribute__((target("avx2"))) static void zv_rebase_avx2(mf_pos_t *data, size_t size) {
    const __m256i window = _mm256_set1_epi16((short) -MATCHFINDER_WINDOW_SIZE);
    __m256i *place = (__m256i *) data, *end = (__m256i *) ((u8 *) data + size);
    for (; place != end; place++) {
        _mm256_storeu_si256(place, _mm256_adds_epi16(_mm256_loadu_si256(place), window));
    }
}

static forceinline void zv_rebase(mf_pos_t *data, size_t size) {
    if (__builtin_cpu_supports("avx2") && size % sizeof(__m256i) == 0) zv_rebase_avx2(data, size);
    else matchfinder_rebase(data, size);
}
#undef matchfinder_rebase
#define matchfinder_rebase zv_rebase
#endif

#include "hc_matchfinder.h"

/* In values of a few kilobytes matches are short, and the library's own loop is as fast. */
#ifndef ZV_SHORT_MATCHES

#define ZV_HASH3(bytes) lz_hash((u32) (bytes) & 0xFFFFFF, HC_MATCHFINDER_HASH3_ORDER)
#define ZV_HASH4(bytes) lz_hash((u32) (bytes), HC_MATCHFINDER_HASH4_ORDER)

/* `pos` is now the newest position of its three bytes, and of its four. */
static forceinline void zv_note(struct hc_matchfinder *mf, u32 pos, u32 hash3, u32 hash4) {
    mf->hash3_tab[hash3] = pos;
    mf->next_tab[pos] = mf->hash4_tab[hash4];
    mf->hash4_tab[hash4] = pos;
}

/* In place of hc_matchfinder_skip_bytes: note `count` positions as if they had been searched for. */
static forceinline void zv_skip_bytes(struct hc_matchfinder *mf, const u8 **base, const u8 *next, const u8 *end,
                                      u32 count, u32 *hashes) {
    u32 pos = next - *base, hash3 = hashes[0], hash4 = hashes[1], few;

    /* Four bytes at the position after them are hashed. As in the library, near the end nothing is noted. */
    if (unlikely(count + 5 > end - next)) return;
    for (; count; count -= few) {
        if (pos == MATCHFINDER_WINDOW_SIZE) {
            hc_matchfinder_slide_window(mf);
            *base += MATCHFINDER_WINDOW_SIZE;
            pos = 0;
        }
        few = MIN(count, MATCHFINDER_WINDOW_SIZE - pos);
        u32 left = few;
        /* left + 5 <= end - next, always: with four left there are nine bytes; the second to the ninth are read. */
        for (; left >= 4; left -= 4, next += 4, pos += 4) {
            u64 bytes = get_unaligned_le64(next + 1);
            zv_note(mf, pos, hash3, hash4);
            zv_note(mf, pos + 1, ZV_HASH3(bytes), ZV_HASH4(bytes));
            zv_note(mf, pos + 2, ZV_HASH3(bytes >> 8), ZV_HASH4(bytes >> 8));
            zv_note(mf, pos + 3, ZV_HASH3(bytes >> 16), ZV_HASH4(bytes >> 16));
            hash3 = ZV_HASH3(bytes >> 24);
            hash4 = ZV_HASH4(bytes >> 24);
        }
        for (; left; left--) {
            u32 bytes = get_unaligned_le32(++next);
            zv_note(mf, pos++, hash3, hash4);
            hash3 = ZV_HASH3(bytes);
            hash4 = ZV_HASH4(bytes);
        }
    }
    prefetchw(&mf->hash3_tab[hash3]);
    prefetchw(&mf->hash4_tab[hash4]);
    hashes[0] = hash3;
    hashes[1] = hash4;
}
#define hc_matchfinder_skip_bytes zv_skip_bytes
#endif

#endif
