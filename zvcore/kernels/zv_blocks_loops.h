/* The loops of zv_blocks.h, which includes this once for each set of instructions.
 *
 * ZV_NAME(name)       the name of a function for these instructions
 * ZV_TARGET           the attribute that lets the compiler use them
 * ZV_WIDE             whether rows move in vectors of 32 bytes
 * ZV_BYTE_SHUFFLES    whether an instruction can put the bytes of a vector into any order
 */

#if ZV_VECTORS

ZV_TARGET ZV_INLINE zv_u8 ZV_NAME(zv_load)(const char *s) {
    zv_u8 v;
    memcpy(&v, s, 16);
    return v;
}

ZV_TARGET ZV_INLINE void ZV_NAME(zv_store)(char *d, zv_u8 v) { memcpy(d, &v, 16); }

#define ZV_REVERSED_2(i)                                                                                               \
    i + 1, i, i + 3, i + 2, i + 5, i + 4, i + 7, i + 6,                                                                \
        i + 9, i + 8, i + 11, i + 10, i + 13, i + 12, i + 15, i + 14
#define ZV_REVERSED_4(i)                                                                                               \
    i + 3, i + 2, i + 1, i, i + 7, i + 6, i + 5, i + 4,                                                                \
        i + 11, i + 10, i + 9, i + 8, i + 15, i + 14, i + 13, i + 12
#define ZV_REVERSED_8(i)                                                                                               \
    i + 7, i + 6, i + 5, i + 4, i + 3, i + 2, i + 1, i,                                                                \
        i + 15, i + 14, i + 13, i + 12, i + 11, i + 10, i + 9, i + 8
#define ZV_REVERSED_16(i)                                                                                              \
    i + 15, i + 14, i + 13, i + 12, i + 11, i + 10, i + 9, i + 8,                                                      \
        i + 7, i + 6, i + 5, i + 4, i + 3, i + 2, i + 1, i

/* Every `unit` bytes reversed. */
ZV_TARGET ZV_INLINE zv_u8 ZV_NAME(zv_swap)(zv_u8 v, int unit) {
#if ZV_BYTE_SHUFFLES
    switch (unit) {
    case 2: return ZV_SHUFFLE(zv_u8, v, v, ZV_REVERSED_2(0));
    case 4: return ZV_SHUFFLE(zv_u8, v, v, ZV_REVERSED_4(0));
    case 8: return ZV_SHUFFLE(zv_u8, v, v, ZV_REVERSED_8(0));
    case 16: return ZV_SHUFFLE(zv_u8, v, v, ZV_REVERSED_16(0));
    default: return v;
    }
#else
    if (unit >= 2) v = (zv_u8)((zv_u16)v << 8 | (zv_u16)v >> 8);
    if (unit == 4) v = (zv_u8)ZV_SHUFFLE(zv_u16, v, v, 1, 0, 3, 2, 5, 4, 7, 6);
    if (unit >= 8) v = (zv_u8)ZV_SHUFFLE(zv_u16, v, v, 3, 2, 1, 0, 7, 6, 5, 4);
    if (unit == 16) v = (zv_u8)ZV_SHUFFLE(zv_u64, v, v, 1, 0);
    return v;
#endif
}

/* A vector full of one item. */
ZV_TARGET ZV_INLINE zv_u8 ZV_NAME(zv_repeated)(const char *s, int size) {
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (size) {
    case 1: return (zv_u8){0} + *(const uint8_t *)s;
    case 2: memcpy(&two, s, 2); return (zv_u8)((zv_u16){0} + two);
    case 4: memcpy(&four, s, 4); return (zv_u8)((zv_u32){0} + four);
    case 8: memcpy(&eight, s, 8); return (zv_u8)((zv_u64){0} + eight);
    default: return ZV_NAME(zv_load)(s);
    }
}

/* The first (or second) halves of two vectors, item by item in turn. */
ZV_TARGET ZV_INLINE zv_u8 ZV_NAME(zv_interleave)(zv_u8 a, zv_u8 b, int size, int second) {
    switch (size) {
    case 1:
        return second ? ZV_SHUFFLE(zv_u8, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
                      : ZV_SHUFFLE(zv_u8, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    case 2:
        return second ? (zv_u8)ZV_SHUFFLE(zv_u16, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
                      : (zv_u8)ZV_SHUFFLE(zv_u16, a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    case 4:
        return second ? (zv_u8)ZV_SHUFFLE(zv_u32, a, b, 2, 6, 3, 7) : (zv_u8)ZV_SHUFFLE(zv_u32, a, b, 0, 4, 1, 5);
    default:
        return second ? (zv_u8)ZV_SHUFFLE(zv_u64, a, b, 1, 3) : (zv_u8)ZV_SHUFFLE(zv_u64, a, b, 0, 2);
    }
}

/* A square with one vector of items in each direction. Interleaving each vector with the one half a square further, as
 * often as the side can be halved, turns rows into columns. Rows of the source lie s1 apart, those of the destination
 * d0, unless there is a list of where they are. */
ZV_TARGET ZV_INLINE void ZV_NAME(zv_transpose)(char *d, ptrdiff_t d0, const ptrdiff_t *d_at, const char *s, ptrdiff_t s1,
                                               const ptrdiff_t *s_at, int size, int unit) {
    const int side = 16 / size;
    zv_u8 v[16], w[16];
    ZV_UNROLLED for (int k = 0; k < side; k++)
        v[k] = ZV_NAME(zv_swap)(ZV_NAME(zv_load)(s + (s_at ? s_at[k] : k * s1)), unit);
    ZV_UNROLLED for (int step = 1; step < side; step *= 2) {
        ZV_UNROLLED for (int k = 0; k < side / 2; k++) {
            w[2 * k] = ZV_NAME(zv_interleave)(v[k], v[k + side / 2], size, 0);
            w[2 * k + 1] = ZV_NAME(zv_interleave)(v[k], v[k + side / 2], size, 1);
        }
        ZV_UNROLLED for (int k = 0; k < side; k++) v[k] = w[k];
    }
    ZV_UNROLLED for (int k = 0; k < side; k++) ZV_NAME(zv_store)(d + (d_at ? d_at[k] : k * d0), v[k]);
}

#endif

/* Neighbours in both: `n` items. The last vector may overlap the one before it; what it writes again is the same. */
ZV_TARGET ZV_INLINE void ZV_NAME(zv_move_row)(char *d, const char *s, ptrdiff_t n, int size, int unit) {
#if ZV_VECTORS
    const ptrdiff_t bytes = n * size;
    if (bytes >= 16) {
        ptrdiff_t k = 0;
#if ZV_WIDE
        ZV_UNROLLED_4 for (; k <= bytes - 32; k += 32) {
            zv_wide v;
            memcpy(&v, s + k, 32);
            switch (unit) {
            case 2: v = ZV_SHUFFLE(zv_wide, v, v, ZV_REVERSED_2(0), ZV_REVERSED_2(16)); break;
            case 4: v = ZV_SHUFFLE(zv_wide, v, v, ZV_REVERSED_4(0), ZV_REVERSED_4(16)); break;
            case 8: v = ZV_SHUFFLE(zv_wide, v, v, ZV_REVERSED_8(0), ZV_REVERSED_8(16)); break;
            case 16: v = ZV_SHUFFLE(zv_wide, v, v, ZV_REVERSED_16(0), ZV_REVERSED_16(16)); break;
            }
            memcpy(d + k, &v, 32);
        }
#endif
        ZV_UNROLLED_4 for (; k <= bytes - 16; k += 16)
            ZV_NAME(zv_store)(d + k, ZV_NAME(zv_swap)(ZV_NAME(zv_load)(s + k), unit));
        if (k < bytes) {
            k = bytes - 16;
            ZV_NAME(zv_store)(d + k, ZV_NAME(zv_swap)(ZV_NAME(zv_load)(s + k), unit));
        }
        return;
    }
#endif
    for (ptrdiff_t j = 0; j < n; j++) zv_move_item(d + j * size, s + j * size, size, unit);
}

/* Any strides. */
ZV_TARGET ZV_INLINE void ZV_NAME(zv_move_line)(char *d, ptrdiff_t d1, const char *s, ptrdiff_t s1, ptrdiff_t n, int size,
                                               int unit) {
    ZV_UNROLLED_4 for (ptrdiff_t j = 0; j < n; j++) zv_move_item(d + j * d1, s + j * s1, size, unit);
}

#if ZV_WIDE && ZV_X86
/* Rows of whole lines, every `unit` bytes reversed, written past the caches. */
ZV_TARGET ZV_INLINE void ZV_NAME(zv_stream_swapped)(char *d, const char *s, const zv_plane *p, int unit) {
    for (ptrdiff_t i = 0; i < p->n0; i++)
        for (ptrdiff_t k = 0; k < p->n1; k += 32) {
            zv_wide v;
            memcpy(&v, s + i * p->s0 + k, 32);
            switch (unit) {
            case 2: v = ZV_SHUFFLE(zv_wide, v, v, ZV_REVERSED_2(0), ZV_REVERSED_2(16)); break;
            case 4: v = ZV_SHUFFLE(zv_wide, v, v, ZV_REVERSED_4(0), ZV_REVERSED_4(16)); break;
            case 8: v = ZV_SHUFFLE(zv_wide, v, v, ZV_REVERSED_8(0), ZV_REVERSED_8(16)); break;
            }
            _mm256_stream_si256((__m256i *)(d + i * p->d0 + k), (__m256i)v);
        }
}

#define ZV_STREAMER(unit)                                                                                              \
    ZV_TARGET static void ZV_NAME(zv_stream_swapped_##unit)(char *d, const char *s, const zv_plane *p,                 \
                                                            const char *next) {                                        \
        (void)next;                                                                                                    \
        ZV_NAME(zv_stream_swapped)(d, s, p, unit);                                                                     \
    }

ZV_STREAMER(2)
ZV_STREAMER(4)
ZV_STREAMER(8)
#undef ZV_STREAMER
#endif

/* One item again and again. */
ZV_TARGET ZV_INLINE void ZV_NAME(zv_repeat_item)(char *d, const char *s, ptrdiff_t n, int size, int unit) {
#if ZV_VECTORS
    const ptrdiff_t bytes = n * size;
    if (16 % size == 0 && bytes >= 16) {
        const zv_u8 v = ZV_NAME(zv_swap)(ZV_NAME(zv_repeated)(s, size), unit);
        const zv_u8 first = (zv_u8){0} + v[0];
        ptrdiff_t k = 0;
        if (bytes >= ZV_CALL && memcmp(&v, &first, 16) == 0) {
            memset(d, v[0], (size_t)bytes);
            return;
        }
        for (; k <= bytes - 32; k += 32) {
            ZV_NAME(zv_store)(d + k, v);
            ZV_NAME(zv_store)(d + k + 16, v);
        }
        if (k <= bytes - 16) ZV_NAME(zv_store)(d + k, v);
        ZV_NAME(zv_store)(d + bytes - 16, v);
        return;
    }
#endif
    ZV_NAME(zv_move_line)(d, size, s, 0, n, size, unit);
}

/* Row by row, in the order of the destination. */
ZV_TARGET ZV_INLINE void ZV_NAME(zv_move_rows)(char *d, const char *s, const zv_plane *p, const char *next, int size,
                                               int unit) {
    const zv_plane plane = *p;
    const int runs = (plane.by_source ? plane.s1 : plane.d1) == size;
    const zv_rows rows = zv_rows_of(d, s, p, next, plane.n1 * size);
    const ptrdiff_t ahead = runs ? zv_rows_ahead(&rows) : 0;
    for (ptrdiff_t i = 0; i < plane.n0; i++) {
        char *const to = d + i * plane.d0;
        const char *const from = s + i * plane.s0;
        if (ahead) zv_expect_row(&rows, i + ahead);
        if (plane.d1 == size && plane.s1 == size)
            ZV_NAME(zv_move_row)(to, from, plane.n1, size, unit);
        else if (plane.d1 == size && plane.s1 == 0)
            ZV_NAME(zv_repeat_item)(to, from, plane.n1, size, unit);
        else if (plane.d1 == size && plane.s1 == -size)
            ZV_NAME(zv_move_line)(to, size, from, -size, plane.n1, size, unit);
        else
            ZV_NAME(zv_move_line)(to, plane.d1, from, plane.s1, plane.n1, size, unit);
    }
}

/* For a source whose neighbours lie along axis 0. */
ZV_TARGET ZV_INLINE void ZV_NAME(zv_move_tiles)(char *d, const char *s, const zv_plane *p, const char *next, int size,
                                                int unit) {
    const zv_plane plane = *p;
    const ptrdiff_t line = ZV_LINE / size;
#if ZV_VECTORS
    const ptrdiff_t side = 16 / size;
    if (16 % size == 0 && plane.d1 == size && plane.s0 == size && plane.n0 >= side && plane.n1 >= side) {
        /* The far array is walked in bands of a few of its rows, a line at a time. Within a block the rows of the
         * destination follow each other, because a line that is evicted half written costs most. */
        const int by_source = plane.by_source;
        const zv_rows far = by_source ? (zv_rows){s, next, plane.n1, plane.s1, plane.n0 * size}
                                      : (zv_rows){d, next, plane.n0, plane.d0, plane.n1 * size};
        const ptrdiff_t few = side < 4 ? 4 : side, many = line < 16 ? line : 16;
        const ptrdiff_t rows = by_source ? line : few, columns = by_source ? many : line;
        const ptrdiff_t band = by_source ? columns : rows, length = by_source ? plane.n0 : plane.n1;
        for (ptrdiff_t begin = 0; begin < far.count; begin += band)
            for (ptrdiff_t along = 0; along < length; along += line) {
                const ptrdiff_t i = by_source ? along : begin, j = by_source ? begin : along;
                const ptrdiff_t i_end = i + rows < plane.n0 ? i + rows : plane.n0;
                const ptrdiff_t j_end = j + columns < plane.n1 ? j + columns : plane.n1;
                for (ptrdiff_t k = begin + band; k < begin + 2 * band; k++)
                    zv_expect_line(&far, k, along * size, along + line >= length);
                /* The last square in a direction may overlap the one before it. */
                for (ptrdiff_t a = i; a < i_end; a += side) {
                    const ptrdiff_t row = a < plane.n0 - side ? a : plane.n0 - side;
                    for (ptrdiff_t b = j; b < j_end; b += side) {
                        const ptrdiff_t column = b < plane.n1 - side ? b : plane.n1 - side;
                        ZV_NAME(zv_transpose)(d + row * plane.d0 + column * size, plane.d0, NULL,
                                              s + row * size + column * plane.s1, plane.s1, NULL, size, unit);
                    }
                }
            }
        return;
    }
#endif
    /* Tiles keep the lines of both sides in cache; the longer side of a tile makes the better inner loop. */
    const ptrdiff_t area = line * line;
    const ptrdiff_t rows = plane.n0 < line ? plane.n0 : plane.n1 < line ? area / plane.n1 : line;
    const ptrdiff_t columns = plane.n1 < line ? plane.n1 : plane.n0 < line ? area / plane.n0 : line;
    for (ptrdiff_t i = 0; i < plane.n0; i += rows)
        for (ptrdiff_t j = 0; j < plane.n1; j += columns) {
            const ptrdiff_t height = plane.n0 - i < rows ? plane.n0 - i : rows;
            const ptrdiff_t width = plane.n1 - j < columns ? plane.n1 - j : columns;
            char *const to = d + i * plane.d0 + j * plane.d1;
            const char *const from = s + i * plane.s0 + j * plane.s1;
            if (height > width)
                for (ptrdiff_t k = 0; k < width; k++)
                    ZV_NAME(zv_move_line)(to + k * plane.d1, plane.d0, from + k * plane.s1, plane.s0, height, size, unit);
            else
                for (ptrdiff_t k = 0; k < height; k++)
                    ZV_NAME(zv_move_line)(to + k * plane.d0, plane.d1, from + k * plane.s0, plane.s1, width, size, unit);
        }
}

#if ZV_VECTORS
/* Where one axis is split in the other array. Squares of as many items along each axis as a vector has; the last in a
 * direction may overlap the one before it. */
ZV_TARGET ZV_INLINE void ZV_NAME(zv_move_split)(char *d, const char *s, const zv_plane *p, int size, int unit, int in) {
    enum { SOME = 256 };
    const ptrdiff_t side = 16 / size, length = in ? p->n0 : p->n1, rows = in ? p->n1 : p->n0;
    const ptrdiff_t whole = in ? p->d0 : p->s1;
    ptrdiff_t at[SOME];
    for (ptrdiff_t first = 0; first < length; first += SOME) {
        const ptrdiff_t begin = first < length - side ? first : length - side;
        const ptrdiff_t count = length - begin < SOME ? length - begin : SOME;
        for (ptrdiff_t k = 0, place = begin / p->parts * whole, part = begin % p->parts; k < count; k++) {
            at[k] = place + part * p->part;
            if (++part == p->parts) {
                part = 0;
                place += whole;
            }
        }
        for (ptrdiff_t row = 0; row < rows; row += side) {
            const ptrdiff_t i = row < rows - side ? row : rows - side;
            for (ptrdiff_t k = 0; k < count; k += side) {
                const ptrdiff_t j = k < count - side ? k : count - side;
                if (in)
                    ZV_NAME(zv_transpose)(d + i * size, 0, at + j, s + i * p->s1 + (begin + j) * size, p->s1, NULL,
                                          size, unit);
                else
                    ZV_NAME(zv_transpose)(d + i * p->d0 + (begin + j) * size, p->d0, NULL, s + i * size, 0, at + j,
                                          size, unit);
            }
        }
    }
}

#define ZV_SPLITTERS(size, unit)                                                                                       \
    ZV_TARGET static void ZV_NAME(zv_split_in_##size##_##unit)(char *d, const char *s, const zv_plane *p,              \
                                                               const char *next) {                                     \
        (void)next;                                                                                                    \
        ZV_NAME(zv_move_split)(d, s, p, size, unit, 1);                                                                \
    }                                                                                                                  \
    ZV_TARGET static void ZV_NAME(zv_split_out_##size##_##unit)(char *d, const char *s, const zv_plane *p,             \
                                                                const char *next) {                                    \
        (void)next;                                                                                                    \
        ZV_NAME(zv_move_split)(d, s, p, size, unit, 0);                                                                \
    }

ZV_SPLITTERS(1, 0)
ZV_SPLITTERS(2, 0)
ZV_SPLITTERS(2, 2)
ZV_SPLITTERS(4, 0)
ZV_SPLITTERS(4, 4)
#undef ZV_SPLITTERS
#endif

static zv_mover ZV_NAME(zv_find_splitter)(ptrdiff_t size, int unit, int in) {
#if ZV_VECTORS
#define ZV_CASE(size, unit)                                                                                            \
    case size * 32 + unit: return in ? ZV_NAME(zv_split_in_##size##_##unit) : ZV_NAME(zv_split_out_##size##_##unit);
    if (size <= 4) switch (size * 32 + unit) {
            ZV_CASE(1, 0)
            ZV_CASE(2, 0)
            ZV_CASE(2, 2)
            ZV_CASE(4, 0)
            ZV_CASE(4, 4)
        }
#undef ZV_CASE
#endif
    (void)size, (void)unit, (void)in;
    return NULL;
}

#define ZV_MOVERS(size, unit)                                                                                          \
    ZV_TARGET static void ZV_NAME(zv_rows_##size##_##unit)(char *d, const char *s, const zv_plane *p,                  \
                                                           const char *next) {                                         \
        ZV_NAME(zv_move_rows)(d, s, p, next, size, unit);                                                              \
    }                                                                                                                  \
    ZV_TARGET static void ZV_NAME(zv_tiles_##size##_##unit)(char *d, const char *s, const zv_plane *p,                 \
                                                            const char *next) {                                        \
        ZV_NAME(zv_move_tiles)(d, s, p, next, size, unit);                                                             \
    }

ZV_MOVERS(1, 0)
ZV_MOVERS(2, 0)
ZV_MOVERS(2, 2)
ZV_MOVERS(4, 0)
ZV_MOVERS(4, 4)
ZV_MOVERS(8, 0)
ZV_MOVERS(8, 8)
ZV_MOVERS(8, 4)
ZV_MOVERS(16, 0)
ZV_MOVERS(16, 16)
ZV_MOVERS(16, 8)
ZV_MOVERS(3, 0)
ZV_MOVERS(6, 0)
ZV_MOVERS(12, 0)
ZV_MOVERS(24, 0)

#define ZV_CASE(size, unit)                                                                                            \
    case size * 32 + unit: return tiles ? ZV_NAME(zv_tiles_##size##_##unit) : ZV_NAME(zv_rows_##size##_##unit);

static zv_mover ZV_NAME(zv_find_mover)(ptrdiff_t size, int unit, int tiles) {
    if (size < 1 || size > 24) return NULL;
    switch (size * 32 + unit) {
        ZV_CASE(1, 0)
        ZV_CASE(2, 0)
        ZV_CASE(2, 2)
        ZV_CASE(4, 0)
        ZV_CASE(4, 4)
        ZV_CASE(8, 0)
        ZV_CASE(8, 8)
        ZV_CASE(8, 4)
        ZV_CASE(16, 0)
        ZV_CASE(16, 16)
        ZV_CASE(16, 8)
        ZV_CASE(3, 0)
        ZV_CASE(6, 0)
        ZV_CASE(12, 0)
        ZV_CASE(24, 0)
    default: return NULL;
    }
}

#undef ZV_CASE
#undef ZV_MOVERS
#undef ZV_REVERSED_2
#undef ZV_REVERSED_4
#undef ZV_REVERSED_8
#undef ZV_REVERSED_16
