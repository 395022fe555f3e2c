/* How libdeflate's compressor makes the Huffman codes of a block: a quarter of the time of values of a few kilobytes.
 *
 * Included in its deflate_compress.c after its own functions for it. What comes out is the same to the byte. It goes over
 * the symbols that occur and not over all 288, of which small values and smooth images use a few dozen: counting those
 * that do not occur is what its loops wait for, since each adds to the number that the one before has just written.
 */
#ifndef ZV_MAKE_CODES_H
#define ZV_MAKE_CODES_H

/* As many counters as symbols, as in the library; for few bytes, of which no symbol can occur often, as many as occur. */
#ifdef ZV_FEW_BYTES
#define ZV_COUNTERS(num_syms, count) MIN(num_syms, MAX(count, 16))
#else
#define ZV_COUNTERS(num_syms, count) (num_syms)
#endif

/* The symbols that occur, in their order. */
static forceinline unsigned zv_used_symbols(unsigned num_syms, const u32 *freqs, u16 *used) {
    unsigned count = 0;
    for (unsigned sym = 0; sym < num_syms; sym++) {
        used[count] = sym;
        count += freqs[sym] != 0;
    }
    return count;
}

/* In place of sort_symbols: by how often they occur, and those that occur as often by themselves. All that occur at least
 * as often as there are counters, less one, share the last counter, and are sorted by comparing. */
static forceinline void zv_sort_symbols(unsigned num_syms, const u32 *freqs, const u16 *used, unsigned count,
                                        u32 *sorted) {
    unsigned places[DEFLATE_MAX_NUM_SYMS];
    unsigned counters = ZV_COUNTERS(num_syms, count), before = 0;

    memset(places, 0, counters * sizeof(places[0]));
    for (unsigned i = 0; i < count; i++) places[MIN(freqs[used[i]], counters - 1)]++;
    for (unsigned i = 1; i < counters; i++) {
        unsigned these = places[i];
        places[i] = before;
        before += these;
    }
    for (unsigned i = 0; i < count; i++) {
        u32 freq = freqs[used[i]];
        sorted[places[MIN(freq, counters - 1)]++] = used[i] | (freq << NUM_SYMBOL_BITS);
    }
    heap_sort(sorted + places[counters - 2], places[counters - 1] - places[counters - 2]);
}

/* In place of compute_length_counts: how many codewords have each length. Parents are numbered in the order of their
 * children, so nodes of one depth lie together, and are counted by where the next depth begins. False, with the tree as it
 * was, if a codeword would be too long. */
static forceinline bool zv_count_lengths(const u32 *tree, unsigned root, unsigned *len_counts, unsigned longest) {
    unsigned first = root, nodes = 1, below;

    memset(len_counts, 0, (longest + 1) * sizeof(len_counts[0]));
    for (unsigned depth = 1; nodes; depth++, nodes = below) {
        unsigned next = first;
        while (next && tree[next - 1] >> NUM_SYMBOL_BITS >= first) next--;
        below = first - next;
        if (depth >= longest && below) return false;
        len_counts[depth] = 2 * nodes - below;
        first = next;
    }
    return true;
}

/* In place of gen_codewords, for the symbols that occur. */
static forceinline void zv_give_codewords(u32 *codewords, u8 *lens, const unsigned *len_counts, unsigned longest,
                                          const u16 *used, unsigned count) {
    u32 next[DEFLATE_MAX_CODEWORD_LEN + 1];
    const u32 *sorted = codewords;

    for (unsigned len = longest; len >= 1; len--) {
        for (unsigned left = len_counts[len]; left; left--) lens[*sorted++ & SYMBOL_MASK] = len;
    }
    next[0] = next[1] = 0;
    for (unsigned len = 2; len <= longest; len++) next[len] = (next[len - 1] + len_counts[len - 1]) << 1;
    for (unsigned i = 0; i < count; i++) {
        unsigned len = lens[used[i]];
        codewords[used[i]] = reverse_codeword(next[len]++, len);
    }
}

/* In place of deflate_make_huffman_code, which keeps what is rare: codes of one symbol or none. */
static void zv_make_huffman_code(unsigned num_syms, unsigned longest, const u32 freqs[], u8 lens[], u32 codewords[]) {
    u16 used[DEFLATE_MAX_NUM_SYMS + 1];
    unsigned len_counts[DEFLATE_MAX_CODEWORD_LEN + 1];
    unsigned count = zv_used_symbols(num_syms, freqs, used);

    if (unlikely(count < 2)) {
        deflate_make_huffman_code(num_syms, longest, freqs, lens, codewords);
        return;
    }
    memset(lens, 0, num_syms);
    zv_sort_symbols(num_syms, freqs, used, count, codewords);
    build_tree(codewords, count);
    if (!zv_count_lengths(codewords, count - 2, len_counts, longest)) {
        compute_length_counts(codewords, count - 2, len_counts, longest);
    }
    zv_give_codewords(codewords, lens, len_counts, longest, used, count);
}
#define deflate_make_huffman_code zv_make_huffman_code

/* Blocks shorter than 5000 bytes are never divided, so what small_deflate.c compresses need not be watched for it; and
 * they have fewer matches than there are lengths of them. */
#ifdef ZV_FEW_BYTES
#define ZV_LONG_BLOCKS false

/* In place of deflate_compute_full_len_codewords: the lengths that occur, and not all 256. */
static forceinline void zv_code_lengths(struct libdeflate_compressor *c, const struct deflate_codes *codes,
                                        const struct deflate_sequence *sequence) {
    for (;; sequence++) {
        u32 len = sequence->litrunlen_and_length >> SEQ_LENGTH_SHIFT;
        if (!len) return;
        unsigned slot = deflate_length_slot[len], sym = DEFLATE_FIRST_LEN_SYM + slot;
        c->o.length.codewords[len] =
            codes->codewords.litlen[sym] | (len - deflate_length_slot_base[slot]) << codes->lens.litlen[sym];
        c->o.length.lens[len] = codes->lens.litlen[sym] + deflate_extra_length_bits[slot];
    }
}
#define ZV_CODE_LENGTHS(c, codes, sequences) \
    if (sequences) zv_code_lengths(c, codes, sequences); \
    else deflate_compute_full_len_codewords(c, codes);
#else
#define ZV_LONG_BLOCKS true
#define ZV_CODE_LENGTHS(c, codes, sequences) deflate_compute_full_len_codewords(c, codes);
#endif

/* Which bytes occur, eight at a time. */
static forceinline void zv_note_used(u8 *used, const u8 *data, size_t size) {
    for (; size >= 8; size -= 8, data += 8) {
        u64 bytes = load_u64_unaligned(data);
        for (int i = 0; i < 8; i++) used[(u8) (bytes >> 8 * i)] = 1;
    }
    for (; size; size--) used[*data++] = 1;
}
#define ZV_NOTE_USED zv_note_used

#endif
