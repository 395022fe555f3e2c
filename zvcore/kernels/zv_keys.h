/* Numbers between literals, as in `c/3/17/0`, a million at a time.
 *
 * Grid positions are small numbers of a few digits, which cannot be predicted: so short ones are written without
 * branches, a few bytes beyond their end, and the next piece overwrites the excess. */
#ifndef ZV_KEYS_H
#define ZV_KEYS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    ZV_LONGEST_NUMBER = 20, /* -2**63 */
    ZV_OVERSHOOT = 8,       /* how far beyond its end a piece may be written */
};

static const char zv_pairs[201] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                  "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                  "8081828384858687888990919293949596979899";

static inline uint64_t zv_magnitude(int64_t value) { return value < 0 ? 0 - (uint64_t)value : (uint64_t)value; }

static inline int zv_digits(uint64_t number) {
    int count = 1;
    while (number >= 10000) {
        number /= 10000;
        count += 4;
    }
    return count + (number >= 10) + (number >= 100) + (number >= 1000);
}

/* Any number, exactly; returns where it ends. */
static inline uint8_t *zv_put_number(uint8_t *to, int64_t value) {
    uint64_t number = zv_magnitude(value);
    if (value < 0) *to++ = '-';
    uint8_t *const end = to + zv_digits(number);
    uint8_t *at = end;
    while (number >= 100) {
        at -= 2;
        memcpy(at, zv_pairs + 2 * (number % 100), 2);
        number /= 100;
    }
    if (number >= 10)
        memcpy(at - 2, zv_pairs + 2 * number, 2);
    else
        at[-1] = (uint8_t)('0' + number);
    return end;
}

/* The same, but may write four bytes. */
static inline uint8_t *zv_put_small_number(uint8_t *to, int64_t value) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if ((uint64_t)value < 10000) {
        const uint32_t number = (uint32_t)value, high = number / 100, low = number % 100;
        const int count = 1 + (number >= 10) + (number >= 100) + (number >= 1000);
        uint16_t first, second;
        memcpy(&first, zv_pairs + 2 * high, 2);
        memcpy(&second, zv_pairs + 2 * low, 2);
        const uint32_t digits = ((uint32_t)second << 16 | first) >> (8 * (4 - count));
        memcpy(to, &digits, 4);
        return to + count;
    }
#endif
    return zv_put_number(to, value);
}

static int64_t zv_measure_keys(const int64_t *columns, ptrdiff_t n, ptrdiff_t k, int64_t fixed, int64_t *ends) {
    int64_t at = 0;
    for (ptrdiff_t i = 0; i < n; i++, columns += k) {
        at += fixed;
        for (ptrdiff_t j = 0; j < k; j++) at += (columns[j] < 0) + zv_digits(zv_magnitude(columns[j]));
        ends[i] = at++;
    }
    return at;
}

/* ZV_OVERSHOOT bytes after the literals must be readable; nothing is written beyond `size` bytes of the pool. */
static void zv_render_keys(const int64_t *columns, ptrdiff_t n, ptrdiff_t k, const uint8_t *literals,
                           const ptrdiff_t *lengths, uint8_t *pool, int64_t size) {
    const uint8_t *const end = pool + size;
    int64_t fixed = 0;
    for (ptrdiff_t j = 0; j <= k; j++) fixed += lengths[j];
    const int64_t longest = fixed + ZV_LONGEST_NUMBER * (int64_t)k + ZV_OVERSHOOT;
    for (ptrdiff_t i = 0; i < n; i++, columns += k) {
        const uint8_t *literal = literals;
        const int roomy = end - pool >= longest;
        for (ptrdiff_t j = 0; j <= k; j++) {
            if (roomy && lengths[j] <= ZV_OVERSHOOT)
                memcpy(pool, literal, ZV_OVERSHOOT);
            else
                memcpy(pool, literal, (size_t)lengths[j]);
            literal += lengths[j];
            pool += lengths[j];
            if (j < k) pool = roomy ? zv_put_small_number(pool, columns[j]) : zv_put_number(pool, columns[j]);
        }
        *pool++ = 0;
    }
}

#endif
