/* PNG's five filters of lines: what each byte is predicted from is the pixel to the left, the line above, or both.
 *
 * A line is `n` bytes, `distance` bytes to a pixel; `above` is the line above as it is without a filter, NULL for the
 * first one, above which there is nothing but zeros. */
#ifndef ZV_PNG_FILTERS_H
#define ZV_PNG_FILTERS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { ZV_PNG_NONE, ZV_PNG_SUB, ZV_PNG_UP, ZV_PNG_AVERAGE, ZV_PNG_PAETH, ZV_PNG_FILTERS };

/* `yes` where all bits of the mask are set, `no` where none is: compilers make branches of other words for it, which no
 * processor can predict here. */
static inline int zv_choose(int yes, int no, int mask) { return no ^ ((yes ^ no) & mask); }

/* -1 or 0: the sign of a small number. */
static inline int zv_if_negative(int number) { return -(int)((unsigned)number >> 31); }

/* Whichever of left, above and the one between them is nearest to left + above - between. Said by the least and the
 * greatest, it takes fewer steps that wait for each other than the specification's differences. */
static inline int zv_paeth(int left, int above, int between) {
    const int bound = 3 * between - (left + above);
    const int least = left < above ? left : above, greatest = left < above ? above : left;
    const int inner = zv_choose(between, least, zv_if_negative(bound - greatest));
    return zv_choose(inner, greatest, zv_if_negative(least - bound));
}

/* The distance is a constant where this is inlined, so that bytes of one pixel do not wait for each other. */
static inline void zv_undo_sub(const uint8_t *from, uint8_t *to, size_t n, size_t distance) {
    for (size_t i = 0; i < distance && i < n; i++) to[i] = from[i];
    for (size_t i = distance; i < n; i++) to[i] = (uint8_t)(from[i] + to[i - distance]);
}

static inline void zv_undo_average(const uint8_t *from, const uint8_t *above, uint8_t *to, size_t n, size_t distance) {
    if (above == NULL) {
        for (size_t i = 0; i < distance && i < n; i++) to[i] = from[i];
        for (size_t i = distance; i < n; i++) to[i] = (uint8_t)(from[i] + to[i - distance] / 2);
        return;
    }
    for (size_t i = 0; i < distance && i < n; i++) to[i] = (uint8_t)(from[i] + above[i] / 2);
    for (size_t i = distance; i < n; i++) to[i] = (uint8_t)(from[i] + (to[i - distance] + above[i]) / 2);
}

static inline void zv_undo_paeth(const uint8_t *from, const uint8_t *above, uint8_t *to, size_t n, size_t distance) {
    for (size_t i = 0; i < distance && i < n; i++) to[i] = (uint8_t)(from[i] + above[i]);
    for (size_t i = distance; i < n; i++)
        to[i] = (uint8_t)(from[i] + zv_paeth(to[i - distance], above[i], above[i - distance]));
}

/* Of pixels of one byte, each of which waits for the one before. */
static inline void zv_undo_paeth_of_bytes(const uint8_t *from, const uint8_t *above, uint8_t *to, size_t n) {
    int left = 0, between = 0;
    for (size_t i = 0; i < n; i++) {
        const int over = above[i];
        left = (uint8_t)(from[i] + zv_paeth(left, over, between));
        to[i] = (uint8_t)left;
        between = over;
    }
}

static inline void zv_undo_at(int filter, const uint8_t *from, const uint8_t *above, uint8_t *to, size_t n,
                              size_t distance) {
    if (filter == ZV_PNG_SUB)
        zv_undo_sub(from, to, n, distance);
    else if (filter == ZV_PNG_AVERAGE)
        zv_undo_average(from, above, to, n, distance);
    else if (distance == 1)
        zv_undo_paeth_of_bytes(from, above, to, n);
    else
        zv_undo_paeth(from, above, to, n, distance);
}

/* `to` is a line without its filter; it may be `from`. 0, or -1 for a filter that there is none of. */
static int zv_undo_filter(int filter, const uint8_t *from, const uint8_t *above, uint8_t *to, size_t n,
                          size_t distance) {
    if (filter < 0 || filter >= ZV_PNG_FILTERS) return -1;
    if (above == NULL && filter == ZV_PNG_UP) filter = ZV_PNG_NONE;
    if (above == NULL && filter == ZV_PNG_PAETH) filter = ZV_PNG_SUB;
    if (filter == ZV_PNG_NONE) {
        if (to != from && n) memcpy(to, from, n);
        return 0;
    }
    if (filter == ZV_PNG_UP) {
        for (size_t i = 0; i < n; i++) to[i] = (uint8_t)(from[i] + above[i]);
        return 0;
    }
    switch (distance) {
        case 1: zv_undo_at(filter, from, above, to, n, 1); break;
        case 2: zv_undo_at(filter, from, above, to, n, 2); break;
        case 3: zv_undo_at(filter, from, above, to, n, 3); break;
        case 4: zv_undo_at(filter, from, above, to, n, 4); break;
        case 6: zv_undo_at(filter, from, above, to, n, 6); break;
        case 8: zv_undo_at(filter, from, above, to, n, 8); break;
        default: zv_undo_at(filter, from, above, to, n, distance);
    }
    return 0;
}

/* `to` is the line with the filter, and does not overlap the others. */
static void zv_do_filter(int filter, const uint8_t *restrict from, const uint8_t *restrict above,
                         uint8_t *restrict to, size_t n, size_t distance) {
    const size_t first = distance < n ? distance : n;
    switch (filter) {
        case ZV_PNG_SUB:
            memcpy(to, from, first);
            for (size_t i = first; i < n; i++) to[i] = (uint8_t)(from[i] - from[i - distance]);
            break;
        case ZV_PNG_UP:
            for (size_t i = 0; i < n; i++) to[i] = (uint8_t)(from[i] - above[i]);
            break;
        case ZV_PNG_AVERAGE:
            for (size_t i = 0; i < first; i++) to[i] = (uint8_t)(from[i] - above[i] / 2);
            for (size_t i = first; i < n; i++) to[i] = (uint8_t)(from[i] - (from[i - distance] + above[i]) / 2);
            break;
        case ZV_PNG_PAETH:
            for (size_t i = 0; i < first; i++) to[i] = (uint8_t)(from[i] - above[i]);
            for (size_t i = first; i < n; i++)
                to[i] = (uint8_t)(from[i] - zv_paeth(from[i - distance], above[i], above[i - distance]));
            break;
        default: memcpy(to, from, n);
    }
}

/* How far the bytes are from zero, taken as signed: the less, the better a line can most often be compressed. */
static inline uint64_t zv_png_cost(const uint8_t *line, size_t n) {
    uint64_t sum = 0;
    for (size_t begin = 0; begin < n; begin += 1 << 16) {
        const size_t end = n - begin < 1 << 16 ? n : begin + (1 << 16);
        uint32_t part = 0;
        for (size_t i = begin; i < end; i++) part += line[i] < 128 ? line[i] : 256u - line[i];
        sum += part;
    }
    return sum;
}

/* `to` is the filter's number and the line with the filter that costs least, of which `other` has room for another try;
 * above the first line there are only those filters that look at nothing above. */
static void zv_choose_filter(const uint8_t *from, const uint8_t *above, uint8_t *to, uint8_t *other, size_t n,
                             size_t distance) {
    uint64_t least = zv_png_cost(from, n);
    to[0] = ZV_PNG_NONE;
    memcpy(to + 1, from, n);
    for (int filter = ZV_PNG_SUB; filter < (above == NULL ? ZV_PNG_UP : ZV_PNG_FILTERS); filter++) {
        zv_do_filter(filter, from, above, other, n, distance);
        const uint64_t cost = zv_png_cost(other, n);
        if (cost >= least) continue;
        least = cost;
        to[0] = (uint8_t)filter;
        memcpy(to + 1, other, n);
    }
}

#endif
