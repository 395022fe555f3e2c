/* Counting bits, by one instruction where the processor has one. */
#ifndef ZV_BITS_H
#define ZV_BITS_H

#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define zv_popcount(bits) __builtin_popcountll(bits)
#else
static inline int zv_popcount(uint64_t bits) {
    int count = 0;
    for (; bits; bits &= bits - 1) count++;
    return count;
}
#endif

#endif
