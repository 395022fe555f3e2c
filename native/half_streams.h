/* The literals of a block that has none beside it: each of the four streams is decoded from two places at once.
 *
 * Where codes begin is known at the top of a stream only. But who begins anywhere, in the middle of a code, soon comes upon
 * one that is right, and is right from there on: of literals that codes of several lengths stand for, after 8 symbols in
 * half of all cases, and after 80 in nearly all. So the lower half of a stream is decoded from its middle together with
 * the upper one, as the streams of two blocks are (two_literals.h), into other memory, and where its first rounds begin is
 * noted. When the upper half comes to such a place, all that follows is as it was decoded. Nothing is guessed: from the
 * same bit on, everything is the same. If it comes to none, it goes on by itself, and the other half is forgotten.
 */
#ifndef ZV_HALF_STREAMS_H
#define ZV_HALF_STREAMS_H

/* Rounds of which it is noted where they begin. */
#define ZV_MARKS 32

/* With fewer bits there may be no other round: zv_decode_four needs what it takes, and 8 bytes that are loaded, 8 below. */
#define ZV_LAST_BITS ((8 + 8 + ZV_TAKEN) * 8)

/* Bits of a stream that are left, of which the next ones are in `bits`: see ZV_REFILL. */
static size_t zv_bits_left(size_t bytes_below, U64 bits) { return bytes_below * 8 + 64 - ZSTD_countTrailingZeros64(bits); }

static size_t zv_left(const HUF_DecompressFastArgs *args, int s) {
    return zv_bits_left((size_t) (args->ip[s] - args->iend[s]), args->bits[s]);
}

static size_t zv_left_at(const zv_mark *mark, const BYTE *end) {
    return zv_bits_left(mark->in - (U32) (size_t) end, mark->bits);
}

/* What begins in the middle of each stream, where the upper halves end: `each` bytes of the room are for one. Whether there
 * are some rounds of each. */
static int zv_halve(HUF_DecompressFastArgs *upper, HUF_DecompressFastArgs *lower, BYTE *room, size_t each) {
    int s;
    *lower = *upper;
    for (s = 0; s < 4; s++) {
        lower->ip[s] -= (upper->ip[s] + sizeof(U64) - upper->iend[s]) / 2;
        lower->bits[s] = MEM_read64(lower->ip[s]) | 1;
        lower->op[s] = room + s * each;
        if (zv_left(lower, s) < 2 * ZV_LAST_BITS) return 0;
        upper->iend[s] = lower->ip[s];
    }
    lower->oend = room + 4 * each;
    return 1;
}

/* The entry of the next symbol, of which `left` bits are above `end`; 7 bytes below it can be read. */
static unsigned zv_next_entry(const U16 *table, const BYTE *end, size_t left) {
    return table[MEM_read64(end + (left >> 3) - 7) << (8 - (left & 7)) >> 53];
}

/* An upper half goes on until it comes to a mark of the lower one: to which, and what is written by then; -1 if to none. */
static int zv_meet(const HUF_DecompressFastArgs *upper, int s, const zv_mark (*marks)[4], int count, BYTE **out,
                   const BYTE *out_end) {
    const U16 *const table = (const U16 *) upper->dt;
    const BYTE *const end = upper->iend[s];
    size_t left = zv_left(upper, s);
    int met = 0;

    for (*out = upper->op[s]; *out < out_end; (*out)++) {
        unsigned entry;
        while (met < count && zv_left_at(&marks[met][s], end) > left) met++;
        if (met == count) return -1;
        if (zv_left_at(&marks[met][s], end) == left) return met;
        entry = zv_next_entry(table, end, left);
        **out = (BYTE) (entry >> 8);
        left -= entry & 0x3F;
    }
    return -1;
}

/* All upper halves go on until they come to marks. Those that have may go on as well: they write what is right. */
static int zv_meet_all(HUF_DecompressFastArgs *upper, const zv_mark (*marks)[4], int count, int met[4], BYTE *out[4],
                       const BYTE *const out_end[4]) {
    int to_meet = 4;
    int s;

    for (s = 0; s < 4; s++) met[s] = -1;
    for (;;) {
        size_t rounds = ZSTD_BLOCKSIZE_MAX;
        for (s = 0; s < 4; s++) {
            size_t const left = zv_left(upper, s);
            size_t const mark = zv_left_at(&marks[0][s], upper->iend[s]);
            if (met[s] >= 0) continue;
            if (left >= mark + ZV_MOST_BITS) {
                rounds = MIN(rounds, (left - mark) / ZV_MOST_BITS);
                continue;
            }
            met[s] = zv_meet(upper, s, marks, count, &out[s], out_end[s]);
            if (met[s] < 0) return 0;
            to_meet--;
        }
        if (to_meet == 0) return 1;
        rounds = MIN(rounds, (size_t) (out_end[3] - upper->op[3]) / ZV_SYMBOLS);
        upper->oend = upper->op[3] + rounds * ZV_SYMBOLS;
        zv_decode_four(upper, 1);
        if (rounds == 0 || upper->op[3] != upper->oend) return 0;
    }
}

/* The last symbols of a lower half: where they end if its stream ends there, too. */
static BYTE *zv_finish_half(const HUF_DecompressFastArgs *lower, int s, const BYTE *out_end) {
    const U16 *const table = (const U16 *) lower->dt;
    BYTE *out = lower->op[s];
    size_t left = zv_left(lower, s);

    while (left > 0 && out < out_end) {
        unsigned const entry = zv_next_entry(table, lower->iend[s], left);
        if ((entry & 0x3F) > left) return NULL;
        *out++ = (BYTE) (entry >> 8);
        left -= entry & 0x3F;
    }
    return left == 0 ? out : NULL;
}

/* All lower halves to their ends, from `begun` on. Who has ended begins again, and writes the same once more. */
static int zv_finish_halves(HUF_DecompressFastArgs *lower, const HUF_DecompressFastArgs *begun, size_t each,
                            BYTE *ends[4]) {
    int to_finish = 4;
    int s;

    for (s = 0; s < 4; s++) ends[s] = NULL;
    for (;;) {
        size_t room = each;
        for (s = 0; s < 4; s++) {
            const BYTE *const out_end = begun->op[s] + each;
            if (zv_left(lower, s) < ZV_LAST_BITS || out_end - lower->op[s] < ZV_SYMBOLS) {
                if (ends[s] == NULL) to_finish--;
                ends[s] = zv_finish_half(lower, s, out_end);
                if (ends[s] == NULL) return 0;
                lower->ip[s] = begun->ip[s], lower->bits[s] = begun->bits[s], lower->op[s] = begun->op[s];
            }
            room = MIN(room, (size_t) (out_end - lower->op[s]));
        }
        if (to_finish == 0) return 1;
        lower->oend = lower->op[3] + room;
        zv_decode_four(lower, 1);
    }
}

static HUF_FAST_BMI2_ATTRS int zv_decode_from_middle(HUF_DecompressFastArgs *whole, const zv_literals *of, BYTE *room,
                                                     size_t each) {
    size_t const segment = (of->count + 3) / 4;
    BYTE *const out_end[4] = {of->out + segment, of->out + 2 * segment, of->out + 3 * segment, whole->oend};
    HUF_DecompressFastArgs upper = *whole;
    HUF_DecompressFastArgs begun;
    HUF_DecompressFastArgs lower;
    zv_mark marks[ZV_MARKS][4];
    int met[4];
    BYTE *out[4];
    BYTE *ends[4];
    size_t count;
    int s;

    if (!zv_halve(&upper, &begun, room, each)) return 0;
    lower = begun;
    count = zv_rounds_of_both(&upper, &lower, ZV_MARKS, 1, marks);
    if (count == ZV_MARKS) zv_rounds_of_both(&upper, &lower, ZSTD_BLOCKSIZE_MAX, 1, NULL);
    ZSTD_memcpy(upper.iend, whole->iend, sizeof(upper.iend));
    *whole = upper;
    if (count == 0 || !zv_meet_all(&upper, (const zv_mark(*)[4]) marks, (int) count, met, out, (const BYTE *const *) out_end)
        || !zv_finish_halves(&lower, &begun, each, ends))
        return 0;
    for (s = 0; s < 4; s++) {
        const BYTE *const half = begun.op[s] + met[s] * ZV_SYMBOLS;
        if (ends[s] - half != out_end[s] - out[s]) return 0;
        ZSTD_memcpy(out[s], half, (size_t) (out_end[s] - out[s]));
    }
    return 1;
}

int zv_decode_halves(const zv_literals *of, BYTE *room, size_t room_size, int flags) {
    HUF_DecompressFastArgs whole;

#if DYNAMIC_BMI2
    if (!(flags & HUF_flags_bmi2)) return 0;
#endif
    (void) flags;
    return HUF_DecompressFastArgs_init(&whole, of->out, of->count, of->in, of->in_size, of->table) == 1
           && (zv_decode_from_middle(&whole, of, room, room_size / 4) || zv_finish_literals(&whole, of));
}

#endif
