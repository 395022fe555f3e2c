/* The literals of two blocks decoded at once: see literals_ahead.h.
 *
 * For huf_decompress.c, whose own loop decodes the four streams of one block. This one has those of two, and keeps to the
 * same bounds: in each round 5 symbols are written for each stream, and at most 7 bytes of it are read. When one of the
 * blocks comes near its end, the loop for one goes on with what is left of both.
 *
 * The loop for one block is another than libzstd's, too. What its streams wait for at the end of each round, where bits
 * are read again, is that the place to read from is known. Here that was known a round before, as in libdeflate: the next
 * bytes are put behind those that are left, however many these are. It takes 0.85 of the time. Of eight streams nobody
 * waits, and that libzstd's way has fewer instructions is worth more.
 */
#ifndef ZV_TWO_LITERALS_H
#define ZV_TWO_LITERALS_H

#include "literals_ahead.h"

/* Symbols of each stream in a round: at most 55 bits, and at least 56 are there. */
#define ZV_SYMBOLS 5
/* What a round takes of each stream, in bits and in bytes, at most. */
#define ZV_MOST_BITS (ZV_SYMBOLS * HUF_DECODER_FAST_TABLELOG)
#define ZV_TAKEN 7

#define ZV_FOR_FOUR(X, ...) X(0, __VA_ARGS__) X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(3, __VA_ARGS__)
#define ZV_FOR_NEXT_FOUR(X, ...) X(4, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__) X(7, __VA_ARGS__)

/* Rounds until `most` bytes of output are written, or all down to `lowest` are read. */
static size_t zv_rounds(size_t most, const BYTE *in, const BYTE *lowest) {
    return in < lowest ? 0 : MIN(most / ZV_SYMBOLS, (size_t) (in - lowest) / ZV_TAKEN);
}

/* Each stream lies behind the one before it, so none is read below the first. Wrong streams run into others. */
static int zv_in_order(const BYTE *const in[4]) { return in[0] <= in[1] && in[1] <= in[2] && in[2] <= in[3]; }

/* Rounds of four streams, down to the lowest byte that may be read, or, where `to_ends` is set, to the first end of one. */
static size_t zv_rounds_of_four(const HUF_DecompressFastArgs *args, size_t most, const BYTE *const in[4], int to_ends) {
    size_t rounds = most / ZV_SYMBOLS;
    int s;
    if (!to_ends) return zv_in_order(in) ? zv_rounds(most, in[0], args->ilowest) : 0;
    for (s = 0; s < 4; s++) rounds = MIN(rounds, zv_rounds(most, in[s], args->iend[s]));
    return rounds;
}

/* In the place of libzstd's HUF_decompress4X1_usingDTable_internal_fast_c_loop. `in` is where the 8 bytes lie of which
 * none, or only the first bits, are in `bits`; it goes down. `left` is how many bits are in there, in its lowest byte:
 * what else an entry of the table holds is subtracted from all above.
 */
static HUF_FAST_BMI2_ATTRS void zv_decode_four(HUF_DecompressFastArgs *args, int to_ends) {
    const U16 *const table = (const U16 *) args->dt;
    U64 bits[4];
    U64 left[4];
    const BYTE *in[4];
    BYTE *out[4];
    int s;

    /* All of them read 8 bytes below those that libzstd has loaded. */
    if (args->ip[0] - args->ilowest < 8) return;
    for (s = 0; s < 4; s++) {
        int const taken = (int) ZSTD_countTrailingZeros64(args->bits[s]);
        bits[s] = MEM_read64(args->ip[s]) << taken;
        left[s] = taken ? 64 - taken : 56;
        in[s] = args->ip[s] - (taken ? 8 : 7);
        out[s] = args->op[s];
    }

#define ZV_SYMBOL(s, k)                             \
    {                                               \
        int const entry = (int) table[bits[s] >> 53]; \
        bits[s] <<= (entry & 0x3F);                 \
        left[s] -= entry;                           \
        out[s][k] = (BYTE) ((entry >> 8) & 0xFF);   \
    }
#define ZV_REFILL(s, k)                                   \
    {                                                     \
        bits[s] |= MEM_read64(in[s]) >> (left[s] & 63);   \
        in[s] -= 7;                                       \
        in[s] += (left[s] >> 3) & 7;                      \
        left[s] |= 56;                                    \
        out[s] += k;                                      \
    }
    for (;;) {
        size_t const rounds = zv_rounds_of_four(args, (size_t) (args->oend - out[3]), in, to_ends);
        BYTE *const stop = out[3] + rounds * ZV_SYMBOLS;
        if (rounds == 0) break;
        do {
            ZV_FOR_FOUR(ZV_SYMBOL, 0)
            ZV_FOR_FOUR(ZV_SYMBOL, 1)
            ZV_FOR_FOUR(ZV_SYMBOL, 2)
            ZV_FOR_FOUR(ZV_SYMBOL, 3)
            ZV_FOR_FOUR(ZV_SYMBOL, 4)
            ZV_FOR_FOUR(ZV_REFILL, ZV_SYMBOLS)
        } while (out[3] < stop);
    }
#undef ZV_SYMBOL
#undef ZV_REFILL

    for (s = 0; s < 4; s++) {
        unsigned const extra = left[s] & 7;
        args->ip[s] = in[s] + (extra ? 8 : 7);
        args->bits[s] = (MEM_read64(args->ip[s]) | 1) << ((8 - extra) & 7);
        args->op[s] = out[s];
    }
}

static void zv_decode_literals(HUF_DecompressFastArgs *args) { zv_decode_four(args, 0); }

/* Where a round of a stream begins: the lower halves of `in` and `bits`. */
typedef struct {
    U32 in;
    U32 bits;
} zv_mark;

/* As many rounds as both have, or at most so many: how many they were. With `marks`, those of the second are noted. */
FORCE_INLINE_TEMPLATE HUF_FAST_BMI2_ATTRS size_t zv_rounds_of_both(HUF_DecompressFastArgs *first,
                                                                   HUF_DecompressFastArgs *second, size_t most,
                                                                   int to_ends, zv_mark (*marks)[4]) {
    const U16 *const table = (const U16 *) first->dt;
    const U16 *const other = (const U16 *) second->dt;
    U64 bits[8];
    const BYTE *in[8];
    BYTE *out[8]; /* where each began: all have written as much */
    size_t done = 0;
    int s;

    for (s = 0; s < 4; s++) {
        bits[s] = first->bits[s], bits[s + 4] = second->bits[s];
        in[s] = first->ip[s], in[s + 4] = second->ip[s];
        out[s] = first->op[s], out[s + 4] = second->op[s];
    }

#define ZV_SYMBOL(s, k, table)                        \
    {                                                 \
        int const entry = (int) table[bits[s] >> 53]; \
        bits[s] <<= (entry & 0x3F);                   \
        out[s][done + k] = (BYTE) ((entry >> 8) & 0xFF); \
    }
/* A one behind the last bit, which libzstd puts there, tells how many were taken. */
#define ZV_REFILL(s, unused)                                          \
    {                                                                 \
        int const taken = (int) ZSTD_countTrailingZeros64(bits[s]);   \
        in[s] -= taken >> 3;                                          \
        bits[s] = (MEM_read64(in[s]) | 1) << (taken & 7);             \
    }
/* Of eight streams not all can stay in registers; four of them can for a round. */
#define ZV_ROUND(FOUR, table)  \
    FOUR(ZV_SYMBOL, 0, table)  \
    FOUR(ZV_SYMBOL, 1, table)  \
    FOUR(ZV_SYMBOL, 2, table)  \
    FOUR(ZV_SYMBOL, 3, table)  \
    FOUR(ZV_SYMBOL, 4, table)  \
    FOUR(ZV_REFILL, 0)
#define ZV_MARK(s, unused) \
    (*marks)[s - 4].in = (U32) (size_t) in[s], (*marks)[s - 4].bits = (U32) bits[s];
    for (;;) {
        size_t const rounds =
            MIN(most - done / ZV_SYMBOLS,
                MIN(zv_rounds_of_four(first, (size_t) (first->oend - out[3]) - done, in, to_ends),
                    zv_rounds_of_four(second, (size_t) (second->oend - out[7]) - done, in + 4, to_ends)));
        size_t const stop = done + rounds * ZV_SYMBOLS;
        if (rounds == 0) break;
        do {
            if (marks) {
                ZV_FOR_NEXT_FOUR(ZV_MARK, 0)
                marks++;
            }
            ZV_ROUND(ZV_FOR_FOUR, table)
            ZV_ROUND(ZV_FOR_NEXT_FOUR, other)
            done += ZV_SYMBOLS;
        } while (done < stop);
    }
#undef ZV_SYMBOL
#undef ZV_REFILL
#undef ZV_ROUND
#undef ZV_MARK

    for (s = 0; s < 4; s++) {
        first->bits[s] = bits[s], second->bits[s] = bits[s + 4];
        first->ip[s] = in[s], second->ip[s] = in[s + 4];
        first->op[s] = out[s] + done, second->op[s] = out[s + 4] + done;
    }
    return done / ZV_SYMBOLS;
}

static HUF_FAST_BMI2_ATTRS void zv_decode_both(HUF_DecompressFastArgs *first, HUF_DecompressFastArgs *second) {
    zv_rounds_of_both(first, second, ZSTD_BLOCKSIZE_MAX, 0, NULL);
}

/* Whether a stream was taken to its first bit and no further, as the format wants it. libzstd looks only where its loop for
 * short streams was at work: of long ones that are damaged it may tell nothing.
 */
static int zv_is_taken(const BIT_DStream_t *stream, const BYTE *first) {
    return (stream->ptr - (const char *) first) * 8 + 64 == (ptrdiff_t) stream->bitsConsumed;
}

/* What the loops leave, as libzstd does it: whether each stream ends where it should, with as many symbols as it should. */
static HUF_FAST_BMI2_ATTRS int zv_finish_literals(HUF_DecompressFastArgs *args, const zv_literals *of) {
    size_t const segment = (of->count + 3) / 4;
    BYTE *end = of->out;
    int s;

    zv_decode_literals(args);
    for (s = 0; s < 4; s++) {
        BIT_DStream_t rest;
        end = segment <= (size_t) (args->oend - end) ? end + segment : args->oend;
        if (HUF_isError(HUF_initRemainingDStream(&rest, args, s, end))) return 0;
        args->op[s] += HUF_decodeStreamX1(args->op[s], &rest, end, (const HUF_DEltX1 *) args->dt,
                                          HUF_DECODER_FAST_TABLELOG);
        if (args->op[s] != end || !zv_is_taken(&rest, args->iend[s])) return 0;
    }
    return 1;
}

int zv_decode_two_literals(const zv_literals *first, const zv_literals *second, int flags) {
    HUF_DecompressFastArgs one;
    HUF_DecompressFastArgs two;

#if DYNAMIC_BMI2
    if (!(flags & HUF_flags_bmi2)) return 0;
#endif
    (void) flags;
    /* 1: they can be decoded by these loops. */
    if (HUF_DecompressFastArgs_init(&one, first->out, first->count, first->in, first->in_size, first->table) != 1
        || HUF_DecompressFastArgs_init(&two, second->out, second->count, second->in, second->in_size,
                                       second->table) != 1)
        return 0;
    zv_decode_both(&one, &two);
    return zv_finish_literals(&one, first) && zv_finish_literals(&two, second);
}

#include "half_streams.h"

#endif
