/* What libdeflate's compressor passes over where there is next to nothing to be found, at levels 1 to 7.
 *
 * It searches at each byte, also in noise. Here it looks at some bytes first: whether seven of eight become literals though
 * each was searched for (at level 1, which takes no match of three bytes, 63 of 64). Then it searches at one byte of some
 * 64 for a while, and looks again, ever less often. Electron microscopy takes a quarter of the time, for 0.3 % more space
 * at most; text, tables, labels, sound and nearly all else that has matches is as it was.
 *
 * What is passed over is not noted for later. Where to search is decided by what lies there: its bytes are searched for
 * where the same ones before them were noted. So a slice that was put in the place of a lost one is found, and what is
 * found says how much there is to be found in the whole window. Where that is more than noise has, all is searched again.
 */
#ifndef ZV_PASS_NOISE_H
#define ZV_PASS_NOISE_H

/* At first as much is looked at as matches need to be found in; only the second half counts. So it is after something was
 * found in what was passed over, with half a window. */
#define ZV_LOOKED_FIRST(matched) ((matched) > 8 ? 4096 : 2048)
#define ZV_LOOKED_WHOLE 16384
#define ZV_LOOKED_LATER 512
#define ZV_PASSED_FIRST 4096
#define ZV_PASSED_LAST 32768
#define ZV_AT_ONCE 128
/* Behind a match, and at the begin of a block, so many bytes are searched at each. */
#define ZV_PASSED_AFTER 16
/* More than this of what was passed over is in matches that were found all the same. */
#define ZV_IS_FOUND(size, found) ((found) > 24 + (size) / 400)

static void zv_look_anew(struct zv_look *look, uintptr_t next, u32 matched) {
    size_t const size = next - look->begin, found = size - look->literals;
    u32 length;
    switch (look->phase) {
    case ZV_FIRST_HALF:
        look->phase = ZV_SECOND_HALF;
        length = look->half;
        break;
    case ZV_PASSING:
        look->phase = ZV_IS_FOUND(size, found) ? ZV_FIRST_HALF : ZV_LATER_LOOK;
        length = look->half = look->phase == ZV_LATER_LOOK ? ZV_LOOKED_LATER : ZV_LOOKED_WHOLE;
        break;
    case ZV_SECOND_HALF:
    case ZV_LATER_LOOK:
        if (found * matched <= size) {
            look->phase = ZV_PASSING;
            length = look->passed = look->passed ? MIN(2 * look->passed, ZV_PASSED_LAST) : ZV_PASSED_FIRST;
            break;
        }
        /* fall through */
    default:
        look->phase = ZV_FIRST_HALF;
        length = look->half = ZV_LOOKED_FIRST(matched);
        look->passed = 0;
    }
    look->begin = next;
    look->until = next + length;
    look->literals = 0;
}

/* Four bytes decide: not fewer, or matches of three would be found at most of these places. */
#define ZV_MIX_TWO 0x9E37
#define ZV_MIX_OTHERS 0x79B1
#define ZV_MIX_BITS 0xFC00

#if defined(__SSE2__)
/* For every second of 16 places the bits of a mask: all if it is to be searched, or none. */
static forceinline __m128i zv_searched(const u8 *places) {
    const __m128i bits = _mm_set1_epi16((short) ZV_MIX_BITS);
    __m128i two = _mm_mullo_epi16(_mm_loadu_si128((const __m128i *) places), _mm_set1_epi16((short) ZV_MIX_TWO));
    __m128i others = _mm_mullo_epi16(_mm_loadu_si128((const __m128i *) (places + 2)), _mm_set1_epi16((short) ZV_MIX_OTHERS));
    return _mm_cmpeq_epi16(_mm_and_si128(_mm_add_epi16(two, others), bits), bits);
}
#endif

/* How many bytes to pass over: to the next place to be searched, or `most`, a multiple of 16. 20 bytes more can be read. */
static forceinline u32 zv_to_search(const u8 *next, u32 most) {
    u32 count = 0;
#if defined(__SSE2__)
    for (; count < most; count += 16) {
        u32 found = (_mm_movemask_epi8(zv_searched(next + count)) & 0x5555) |
                    (_mm_movemask_epi8(zv_searched(next + count + 1)) & 0xAAAA);
        if (found) return count + bsf32(found);
    }
    return most;
#else
    for (; count < most; count++) {
        u32 bytes = get_unaligned_le32(next + count);
        if ((((bytes & 0xFFFF) * ZV_MIX_TWO + (bytes >> 16) * ZV_MIX_OTHERS) & ZV_MIX_BITS) == ZV_MIX_BITS) break;
    }
    return count;
#endif
}

/* How many bytes to pass over before `next`; `left` are there, and `run` before it are literals. In noise at most one byte
 * of `matched` is in a match. */
static forceinline u32 zv_passed(struct zv_look *look, const u8 *next, u32 run, size_t left, u32 matched) {
    uintptr_t const at = (uintptr_t) next;
    u32 count = 0;
    if (unlikely(at >= look->until)) zv_look_anew(look, at, matched);
    if (unlikely(look->phase == ZV_PASSING)) {
        size_t const size = at - look->begin;
        if (unlikely(ZV_IS_FOUND(size, size - look->literals))) zv_look_anew(look, at, matched);
        else if (run >= ZV_PASSED_AFTER && left > 2 * ZV_AT_ONCE) count = zv_to_search(next, ZV_AT_ONCE);
    }
    look->literals += 1 + count;
    return count;
}

/* Of what is passed over one byte of four says where the block may better be divided. */
static forceinline void zv_choose_literals(struct libdeflate_compressor *c, struct deflate_sequence *seq, bool stats,
                                           const u8 *next, u32 count) {
    u32 *freqs = c->freqs.litlen;
    seq->litrunlen_and_length += count;
    for (; count >= 4; count -= 4, next += 4) {
        freqs[next[0]]++;
        freqs[next[1]]++;
        freqs[next[2]]++;
        freqs[next[3]]++;
        if (stats) {
            for (int i = 0; i < 4; i++) observe_literal(&c->split_stats, next[0]);
        }
    }
    while (count--) freqs[next[count]]++;
}

/* A literal where no match was found, and those behind it that are passed over: the next place to be searched. */
static forceinline const u8 *zv_literals(struct libdeflate_compressor *c, struct deflate_sequence *seq, bool stats,
                                         const u8 *next, const u8 *end, u32 matched) {
    deflate_choose_literal(c, *next++, stats, seq);
    u32 count = zv_passed(&c->split_stats.zv_look, next, seq->litrunlen_and_length, end - next, matched);
    if (unlikely(count)) zv_choose_literals(c, seq, stats, next, count);
    return next + count;
}

/* The search itself goes on to the next window where this one ends, and not behind that. */
#define ZV_NEXT_WINDOW(slide, finder, base, next)                                                  \
    do {                                                                                           \
        if ((next) - *(base) > MATCHFINDER_WINDOW_SIZE) {                                          \
            slide(finder);                                                                         \
            *(base) += MATCHFINDER_WINDOW_SIZE;                                                    \
        }                                                                                          \
    } while (0)

/* In place of a literal where no match was found. Returns the next place, whose hashes are known then. */
static forceinline const u8 *zv_pass(struct libdeflate_compressor *c, struct deflate_sequence *seq, const u8 **base,
                                     const u8 *place, const u8 *end, u32 *hashes) {
    const u8 *next = zv_literals(c, seq, true, place, end, 8);
    if (next != place + 1) {
        ZV_NEXT_WINDOW(hc_matchfinder_slide_window, &c->p.g.hc_mf, base, next);
        u32 bytes = get_unaligned_le32(next);
        hashes[0] = lz_hash(bytes & 0xFFFFFF, HC_MATCHFINDER_HASH3_ORDER);
        hashes[1] = lz_hash(bytes, HC_MATCHFINDER_HASH4_ORDER);
        prefetchw(&c->p.g.hc_mf.hash3_tab[hashes[0]]);
        prefetchw(&c->p.g.hc_mf.hash4_tab[hashes[1]]);
    }
    return next;
}

/* The same at level 1, whose search has one table. */
static forceinline const u8 *zv_pass_fastest(struct libdeflate_compressor *c, struct deflate_sequence *seq,
                                             const u8 **base, const u8 *place, const u8 *end, u32 *hash) {
    const u8 *next = zv_literals(c, seq, false, place, end, 64);
    if (next != place + 1) {
        ZV_NEXT_WINDOW(ht_matchfinder_slide_window, &c->p.f.ht_mf, base, next);
        *hash = lz_hash(get_unaligned_le32(next), HT_MATCHFINDER_HASH_ORDER);
        prefetchw(&c->p.f.ht_mf.hash_tab[*hash]);
    }
    return next;
}

#endif
