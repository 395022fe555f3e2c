/* What zstd's decoder reads before its turn: the literals of the block that comes next.
 *
 * The literals of a block are four streams of codes, and where a code ends is known only once the entry of the one before
 * it was loaded. Four streams leave a processor idle for half of the time; eight do not, and those of two blocks are
 * decoded in 0.55 to 0.65 of the time that they take one after the other. All that ties a block to the one before it are
 * its matches, and a code that it may take over: its literals can be read as soon as that code is known.
 *
 * So the literals of each second block of a frame are read together with those of the block before it (read_ahead.h), and
 * those of two frames of one block, which is what small chunks are, with each other (two_frames.h). Anything that is not
 * as it should be is left alone: libzstd comes to it by itself, and says what is wrong.
 */
#ifndef ZV_LITERALS_AHEAD_H
#define ZV_LITERALS_AHEAD_H

/* The compressed literals of one block. */
typedef struct {
    const BYTE *block; /* its content; NULL: none */
    size_t block_size;
    size_t most;       /* so many literals at most are right */

    /* Filled in by zv_find_literals. */
    const BYTE *in;
    size_t in_size;
    size_t count;
    size_t taken; /* bytes of the block, up to the end of its literals */
    int has_code; /* or it takes over the last one */

    const HUF_DTable *table;
    BYTE *out;
} zv_literals;

/* Whether many streams at once gain less: AMD's processors shift and write less in a cycle than Intel's. */
static inline int zv_is_amd(void) {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    return __builtin_cpu_is("amd") != 0;
#else
    return 0;
#endif
}

/* libzstd has tables with two symbols in an entry, too, for literals of few bits, but what it reckons that they gain is
 * more than they do where literals take so many sixteenths of their size, or more. To take one symbol at a time takes 0.65
 * to 0.9 of the time there on Intel's processors; on AMD's it would take 1.4 times as long for 10 or 11. */
#define ZV_LEAST_FOR_ONE (zv_is_amd() ? 12u : 11u)
/* For those of two blocks at once. */
#define ZV_LEAST_FOR_TWO (zv_is_amd() ? 12u : 10u)

/* In huf_decompress.c (two_literals.h): whether both were decoded, each to as many literals as it has. `flags` as for
 * all of that file. */
int zv_decode_two_literals(const zv_literals *first, const zv_literals *second, int flags);

/* The same for one alone (half_streams.h). */
int zv_decode_halves(const zv_literals *of, BYTE *room, size_t room_size, int flags);

#endif
