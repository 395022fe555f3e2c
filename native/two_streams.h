/* Two deflate streams decoded at once, one step of the first and one of the second in turn.
 *
 * What decoding waits for is the table: where a literal ends is only known once its entry was loaded, and a load takes
 * longer than everything else that is done with it. A processor has nothing else to do meanwhile, unless it has another
 * stream: two noisy images are decoded in 0.6 of the time that they take one after the other, segmentations in 0.9.
 *
 * libdeflate's own decoder reads the headers of blocks, makes the tables, and decodes what lies near the end of a
 * stream. Its template is compiled once more, with places where it stops and goes on (ZV_GO_ON, ZV_STOP): before the
 * loop that needs no checks of bounds it leaves its state in a `zv_stream`, and after that loop it takes it from there.
 * The loop itself is the one below, for two streams. It keeps to the same bounds as libdeflate's.
 */
#ifndef ZV_TWO_STREAMS_H
#define ZV_TWO_STREAMS_H

#include <stdlib.h>

#if defined(ARCH_X86_64)
#define ZV_TWO_TARGET _target_attribute("bmi2")
#else
#define ZV_TWO_TARGET
#endif

enum zv_place { ZV_AT_BEGIN, ZV_IN_BLOCK, ZV_AFTER_BLOCK };

/* What the template returns when it has stopped before its loop. */
#define ZV_STOPPED ((enum libdeflate_result) 100)

struct zv_stream {
    struct libdeflate_decompressor tables; /* the first, so that the template's `d` leads to the rest */
    const u8 *in;
    size_t in_size;
    u8 *out;
    size_t out_size;

    /* What the template leaves here and takes from here. */
    enum zv_place place;
    bool alone; /* It does not stop any more. */
    bool is_final_block;
    u32 bitsleft;
    bitbuf_t bitbuf;
    size_t overread_count;
    const u8 *in_next;
    const u8 *in_loop_end;
    u8 *out_next;
    u8 *out_loop_end;
};

#undef ZV_GO_ON
#undef ZV_STOP
#define ZV_GO_ON                                                        \
    struct zv_stream *stream = (struct zv_stream *) d;                  \
    if (stream->place != ZV_AT_BEGIN) {                                 \
        in_next = stream->in_next;                                      \
        out_next = stream->out_next;                                    \
        bitbuf = stream->bitbuf;                                        \
        bitsleft = stream->bitsleft;                                    \
        overread_count = stream->overread_count;                        \
        is_final_block = stream->is_final_block;                        \
        if (stream->place == ZV_AFTER_BLOCK) goto block_done;           \
        goto have_decode_tables;                                        \
    }
#define ZV_STOP                                                                               \
    if (!stream->alone && in_next < in_fastloop_end && out_next < out_fastloop_end) {         \
        stream->in_next = in_next;                                                            \
        stream->out_next = out_next;                                                          \
        stream->bitbuf = bitbuf;                                                              \
        stream->bitsleft = bitsleft;                                                          \
        stream->overread_count = overread_count;                                              \
        stream->is_final_block = is_final_block;                                              \
        stream->in_loop_end = in_fastloop_end;                                                \
        stream->out_loop_end = out_fastloop_end;                                              \
        stream->place = ZV_IN_BLOCK;                                                          \
        return ZV_STOPPED;                                                                    \
    }

#define FUNCNAME zv_decompress_some
#undef ATTRIBUTES
#define ATTRIBUTES ZV_TWO_TARGET
#include "decompress_template.h"

/* As the template has it, which takes its own back. */
#if defined(ARCH_X86_64) && defined(__GNUC__) && !defined(__clang__)
#define EXTRACT_VARBITS8(word, count) _bzhi_u64((word), (count))
#else
#define EXTRACT_VARBITS8(word, count) ((word) & BITMASK((u8) (count)))
#endif

/* What the loop changes in each round. In registers, as far as there are any. */
struct zv_cursor {
    bitbuf_t bitbuf;
    u32 bitsleft; /* Only the lowest 8 bits count, as in the template. */
    u32 entry;    /* the next of the table, not taken yet */
    const u8 *in;
    u8 *out;
};

enum zv_step { ZV_MORE, ZV_BLOCK_ENDS, ZV_IS_BAD };

static forceinline u32 zv_look(const struct zv_cursor *at, const u32 *table, bitbuf_t mask) {
    return table[at->bitbuf & mask];
}

static forceinline bitbuf_t zv_take(struct zv_cursor *at) {
    bitbuf_t before = at->bitbuf;
    at->bitbuf >>= (u8) at->entry;
    at->bitsleft -= at->entry;
    return before;
}

static forceinline void zv_refill(struct zv_cursor *at) {
    at->bitbuf |= get_unaligned_leword(at->in) << (u8) at->bitsleft;
    at->in += sizeof(bitbuf_t) - 1;
    at->in -= (at->bitsleft >> 3) & 7;
    at->bitsleft |= MAX_BITSLEFT & ~7;
}

/* The bits behind a code that belong to its length or offset. */
static forceinline ZV_TWO_TARGET u32 zv_value(bitbuf_t bits, u32 entry) {
    return (entry >> 16) + (u32) (EXTRACT_VARBITS8(bits, entry) >> (u8) (entry >> 8));
}

/* One round of the template's loop: up to three literals, or up to two and a match. */
static forceinline ZV_TWO_TARGET enum zv_step zv_step(struct zv_cursor *at, const struct zv_stream *stream,
                                                      bitbuf_t mask) {
    const u32 *table = stream->tables.u.litlen_decode_table;
    const u32 *offsets = stream->tables.offset_decode_table;
    bitbuf_t bits = zv_take(at);
    u32 length, offset, literal;
    u8 *to;
    int more;

    for (more = 0; at->entry & HUFFDEC_LITERAL; more++) {
        literal = at->entry >> 16;
        at->entry = zv_look(at, table, mask);
        if (more == 2) {
            zv_refill(at);
            *at->out++ = literal;
            return ZV_MORE;
        }
        bits = zv_take(at);
        *at->out++ = literal;
    }
    if (unlikely(at->entry & HUFFDEC_EXCEPTIONAL)) {
        if (at->entry & HUFFDEC_END_OF_BLOCK) return ZV_BLOCK_ENDS;
        at->entry = table[(at->entry >> 16) + (at->bitbuf & BITMASK((at->entry >> 8) & 0x3F))];
        bits = zv_take(at);
        if (at->entry & HUFFDEC_LITERAL) {
            literal = at->entry >> 16;
            at->entry = zv_look(at, table, mask);
            zv_refill(at);
            *at->out++ = literal;
            return ZV_MORE;
        }
        if (unlikely(at->entry & HUFFDEC_END_OF_BLOCK)) return ZV_BLOCK_ENDS;
    }
    length = zv_value(bits, at->entry);

    at->entry = offsets[at->bitbuf & BITMASK(OFFSET_TABLEBITS)];
    if (unlikely(at->entry & HUFFDEC_EXCEPTIONAL)) {
        if ((u8) at->bitsleft < OFFSET_MAXBITS + LITLEN_TABLEBITS - PRELOAD_SLACK) zv_refill(at);
        at->bitbuf >>= OFFSET_TABLEBITS;
        at->bitsleft -= OFFSET_TABLEBITS;
        at->entry = offsets[(at->entry >> 16) + (at->bitbuf & BITMASK((at->entry >> 8) & 0x3F))];
    } else if (unlikely((u8) at->bitsleft < OFFSET_MAXFASTBITS + LITLEN_TABLEBITS - PRELOAD_SLACK)) {
        zv_refill(at);
    }
    bits = zv_take(at);
    offset = zv_value(bits, at->entry);
    if (unlikely(offset > (size_t) (at->out - stream->out))) return ZV_IS_BAD;

    to = at->out;
    at->out += length;
    at->entry = zv_look(at, table, mask);
    zv_refill(at);
    zv_copy_match(to - offset, to, at->out, offset);
    return ZV_MORE;
}

static forceinline struct zv_cursor zv_begin(const struct zv_stream *stream, bitbuf_t mask) {
    struct zv_cursor at = {stream->bitbuf, stream->bitsleft, 0, stream->in_next, stream->out_next};
    zv_refill(&at);
    at.entry = zv_look(&at, stream->tables.u.litlen_decode_table, mask);
    return at;
}

static forceinline void zv_end(struct zv_stream *stream, const struct zv_cursor *at) {
    stream->bitbuf = at->bitbuf;
    stream->bitsleft = at->bitsleft;
    stream->in_next = at->in;
    stream->out_next = at->out;
}

static forceinline bool zv_in_loop(const struct zv_stream *stream, const struct zv_cursor *at) {
    return at->in < stream->in_loop_end && at->out < stream->out_loop_end;
}

/* Until one of them has to leave the loop. False if one is bad. */
static ZV_TWO_TARGET bool zv_loop_of_two(struct zv_stream *one, struct zv_stream *two) {
    const bitbuf_t mask_of_one = BITMASK(one->tables.litlen_tablebits);
    const bitbuf_t mask_of_two = BITMASK(two->tables.litlen_tablebits);
    struct zv_cursor first = zv_begin(one, mask_of_one), second = zv_begin(two, mask_of_two);
    enum zv_step step;

    do {
        step = zv_step(&first, one, mask_of_one);
        if (unlikely(step != ZV_MORE)) {
            one->place = ZV_AFTER_BLOCK;
            break;
        }
        step = zv_step(&second, two, mask_of_two);
        if (unlikely(step != ZV_MORE)) {
            two->place = ZV_AFTER_BLOCK;
            break;
        }
    } while (zv_in_loop(one, &first) && zv_in_loop(two, &second));
    zv_end(one, &first);
    zv_end(two, &second);
    return step != ZV_IS_BAD;
}

/* By libdeflate, up to the next loop or the end. */
static enum libdeflate_result zv_go_on(struct zv_stream *stream) {
    size_t used, made;
    enum libdeflate_result result = zv_decompress_some(&stream->tables, stream->in, stream->in_size, stream->out,
                                                       stream->out_size, &used, &made);
    if (result == LIBDEFLATE_SUCCESS && (used != stream->in_size || made != stream->out_size))
        return LIBDEFLATE_BAD_DATA;
    return result;
}

static bool zv_has_left_loop(const struct zv_stream *stream) {
    return stream->place == ZV_AFTER_BLOCK || stream->in_next >= stream->in_loop_end ||
           stream->out_next >= stream->out_loop_end;
}

static void zv_open(struct zv_stream *stream, const void *in, size_t in_size, void *out, size_t out_size) {
    stream->in = in;
    stream->in_size = in_size;
    stream->out = out;
    stream->out_size = out_size;
    stream->place = ZV_AT_BEGIN;
    stream->alone = false;
}

LIBDEFLATEAPI int zv_knows_two_streams(void) {
#if defined(ARCH_X86_64)
    return HAVE_BMI2(get_x86_cpu_features());
#elif defined(ARCH_ARM64)
    return 1;
#else
    return 0; /* The loop takes a word of 64 bits and loads from anywhere for granted. */
#endif
}

LIBDEFLATEAPI void *zv_alloc_two_streams(void) { return calloc(2, sizeof(struct zv_stream)); }

LIBDEFLATEAPI int zv_deflate_decompress_two(void *streams, const void *const in[2], const size_t in_size[2],
                                            void *const out[2], const size_t out_size[2]) {
    struct zv_stream *one = streams, *two = one + 1;
    enum libdeflate_result first, second;
    zv_open(one, in[0], in_size[0], out[0], out_size[0]);
    zv_open(two, in[1], in_size[1], out[1], out_size[1]);
    first = zv_go_on(one);
    second = zv_go_on(two);
    while (first == ZV_STOPPED && second == ZV_STOPPED) {
        if (!zv_loop_of_two(one, two)) return 0;
        if (zv_has_left_loop(one)) first = zv_go_on(one);
        if (zv_has_left_loop(two)) second = zv_go_on(two);
    }
    one->alone = two->alone = true;
    if (first == ZV_STOPPED) first = zv_go_on(one);
    if (second == ZV_STOPPED) second = zv_go_on(two);
    return first == LIBDEFLATE_SUCCESS && second == LIBDEFLATE_SUCCESS;
}

#endif
