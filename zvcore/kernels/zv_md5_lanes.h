/* MD5 of several messages side by side, one in each lane of the vectors. Included once for each width, with
 *   ZV_LANES    how many
 *   ZV_NAME(x)  what the functions are called
 *   ZV_TARGET   which instructions they may use
 * A step of MD5 waits for the one before it: for one message a processor does one thing at a time, and for sixteen it
 * takes no longer.
 */

typedef uint32_t ZV_NAME(word) __attribute__((vector_size(4 * ZV_LANES)));

/* Takes `blocks` blocks of 64 bytes of each message into its state. */
ZV_TARGET static void ZV_NAME(take)(uint32_t (*state)[ZV_LANES], const uint8_t **from, size_t blocks) {
    typedef ZV_NAME(word) word;
    word a, b, c, d, words[16];
    memcpy(&a, state[0], sizeof a);
    memcpy(&b, state[1], sizeof b);
    memcpy(&c, state[2], sizeof c);
    memcpy(&d, state[3], sizeof d);
    for (size_t block = 0; block < blocks; block++) {
        for (int lane = 0; lane < ZV_LANES; lane++) {
            const uint8_t *message = from[lane] + 64 * block;
            uint32_t *column = (uint32_t *)words + lane;
            for (int row = 0; row < 16; row++) column[ZV_LANES * row] = zv_md5_word(message + 4 * row);
        }
        const word first = a, second = b, third = c, fourth = d;

#define ZV_TURNED(value, bits) ((value) << (bits) | (value) >> (32 - (bits)))
#define ZV_STEP(mixed, to, next, which, number, bits)                      \
    to += (mixed) + words[(which) & 15] + zv_md5_sines[number];            \
    to = ZV_TURNED(to, bits) + next;
#define ZV_FOUR(mix, number, which, by, one, two, three, four)             \
    ZV_STEP(mix(b, c, d), a, b, which, number, one)                        \
    ZV_STEP(mix(a, b, c), d, a, (which) + (by), (number) + 1, two)         \
    ZV_STEP(mix(d, a, b), c, d, (which) + 2 * (by), (number) + 2, three)   \
    ZV_STEP(mix(c, d, a), b, c, (which) + 3 * (by), (number) + 3, four)
#define ZV_ROUND(mix, number, which, by, one, two, three, four)            \
    ZV_FOUR(mix, number, which, by, one, two, three, four)                 \
    ZV_FOUR(mix, (number) + 4, (which) + 4 * (by), by, one, two, three, four) \
    ZV_FOUR(mix, (number) + 8, (which) + 8 * (by), by, one, two, three, four) \
    ZV_FOUR(mix, (number) + 12, (which) + 12 * (by), by, one, two, three, four)
#define ZV_F(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define ZV_G(x, y, z) ((y) ^ ((z) & ((x) ^ (y))))
#define ZV_H(x, y, z) ((x) ^ (y) ^ (z))
#define ZV_I(x, y, z) ((y) ^ ((x) | ~(z)))

        ZV_ROUND(ZV_F, 0, 0, 1, 7, 12, 17, 22)
        ZV_ROUND(ZV_G, 16, 1, 5, 5, 9, 14, 20)
        ZV_ROUND(ZV_H, 32, 5, 3, 4, 11, 16, 23)
        ZV_ROUND(ZV_I, 48, 0, 7, 6, 10, 15, 21)

#undef ZV_I
#undef ZV_H
#undef ZV_G
#undef ZV_F
#undef ZV_ROUND
#undef ZV_FOUR
#undef ZV_STEP
#undef ZV_TURNED

        a += first;
        b += second;
        c += third;
        d += fourth;
    }
    memcpy(state[0], &a, sizeof a);
    memcpy(state[1], &b, sizeof b);
    memcpy(state[2], &c, sizeof c);
    memcpy(state[3], &d, sizeof d);
}

/* The digests of `count` messages, 16 bytes each. */
ZV_TARGET static void ZV_NAME(all)(const zv_md5_message *messages, size_t count, uint8_t (*digests)[16]) {
    static const uint32_t begin[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    uint32_t state[4][ZV_LANES];
    const uint8_t *from[ZV_LANES];
    size_t left[ZV_LANES], which[ZV_LANES];  /* blocks of what a lane takes now; of which message */
    uint8_t ends[ZV_LANES][128];             /* the last bytes of a message with what is put behind them */
    int in_end[ZV_LANES];
    size_t next = 0, busy = 0;
    memset(state, 0, sizeof state);
    for (int lane = 0; lane < ZV_LANES; lane++) {
        which[lane] = count;  /* none */
        left[lane] = 0;
        in_end[lane] = 1;
        from[lane] = ends[lane];
    }
    memset(ends, 0, sizeof ends);
    for (;;) {
        size_t blocks = SIZE_MAX;
        for (int lane = 0; lane < ZV_LANES; lane++) {
            while (left[lane] == 0) {
                const size_t message = which[lane];
                if (message < count && !in_end[lane]) {
                    left[lane] = zv_md5_end(&messages[message], ends[lane]);
                    from[lane] = ends[lane];
                    in_end[lane] = 1;
                    continue;
                }
                if (message < count) {
                    for (int row = 0; row < 4; row++) zv_md5_put(digests[message] + 4 * row, state[row][lane]);
                    which[lane] = count;
                    busy--;
                }
                if (next == count) break;
                for (int row = 0; row < 4; row++) state[row][lane] = begin[row];
                from[lane] = messages[next].data;
                left[lane] = messages[next].size / 64;
                in_end[lane] = 0;
                which[lane] = next++;
                busy++;
            }
            if (which[lane] < count && left[lane] < blocks) blocks = left[lane];
        }
        if (busy == 0) return;
        /* A lane without a message must not leave what it may read: it has two blocks. */
        int idle = 0;
        for (int lane = 0; lane < ZV_LANES; lane++) idle |= which[lane] == count;
        if (idle) {
            int some = 0;
            while (which[some] == count) some++;
            for (int lane = 0; lane < ZV_LANES; lane++)
                if (which[lane] == count) from[lane] = from[some];
        }
        ZV_NAME(take)(state, from, blocks);
        for (int lane = 0; lane < ZV_LANES; lane++) {
            if (which[lane] == count) continue;
            from[lane] += 64 * blocks;
            left[lane] -= blocks;
        }
    }
}
