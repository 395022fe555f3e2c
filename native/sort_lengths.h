/* How libdeflate's decoder counts the lengths of a block's codes and sorts its symbols by them: in a value of a kilobyte,
 * which is one block, that is a fifth of the time.
 *
 * Most symbols have no code in such a block, and one counter of them, read and written again for each, is what the
 * processor waits for. Here four neighbours have counters of their own. Whether a symbol has a code cannot be foreseen,
 * so there is no branch for it.
 */
#ifndef ZV_SORT_LENGTHS_H
#define ZV_SORT_LENGTHS_H

enum { ZV_NEIGHBOURS = 4, ZV_LENGTHS = 16 };

#if defined(__GNUC__) || defined(__clang__)
#define ZV_FOR_NEIGHBOURS(i) _Pragma("GCC unroll 4") for (unsigned i = 0; i < ZV_NEIGHBOURS; i++)
#else
#define ZV_FOR_NEIGHBOURS(i) for (unsigned i = 0; i < ZV_NEIGHBOURS; i++)
#endif

/* Into counts[0] to counts[longest]; no length is greater. */
static forceinline void zv_count_lengths(const u8 *lens, unsigned num_syms, unsigned longest, unsigned *counts) {
    u16 several[ZV_NEIGHBOURS][ZV_LENGTHS] = {{0}};
    unsigned sym = 0;

    STATIC_ASSERT(DEFLATE_MAX_CODEWORD_LEN < ZV_LENGTHS);
    for (; sym + ZV_NEIGHBOURS <= num_syms; sym += ZV_NEIGHBOURS) {
        ZV_FOR_NEIGHBOURS(i) several[i][lens[sym + i]]++;
    }
    for (; sym < num_syms; sym++) several[0][lens[sym]]++;
    for (unsigned len = 0; len <= longest; len++)
        counts[len] = several[0][len] + several[1][len] + several[2][len] + several[3][len];
}

/* Where the next symbol of a length comes to: 0, of those without a code, is four lengths. */
static forceinline u16 *zv_next_place(u16 *next, unsigned len, unsigned neighbour) {
    return &next[len + ((len - 1) >> 31) * (ZV_LENGTHS + neighbour)];
}

/* Symbols without a code come to anywhere before all others: `offsets[1]` is their number. */
static forceinline void zv_sort_by_lengths(const u8 *lens, unsigned num_syms, const unsigned *offsets, unsigned longest,
                                           u16 *sorted) {
    u16 next[ZV_LENGTHS + ZV_NEIGHBOURS] = {0};
    unsigned sym = 0;

    for (unsigned len = 1; len <= longest; len++) next[len] = (u16) offsets[len];
    for (; sym + ZV_NEIGHBOURS <= num_syms; sym += ZV_NEIGHBOURS) {
        ZV_FOR_NEIGHBOURS(i) sorted[(*zv_next_place(next, lens[sym + i], i))++] = (u16) (sym + i);
    }
    for (; sym < num_syms; sym++) sorted[(*zv_next_place(next, lens[sym], 0))++] = (u16) sym;
}

#endif
