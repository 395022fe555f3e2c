/* Sums of pairs of places that have several values each: of those of a line, added to what is there. Wide registers
 * make doubles of twice as many floats at once. */
#ifndef ZV_PAIRS_H
#define ZV_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "zv_cpu.h"

#define ZV_ADD_PAIRS(name, target, type)                                                                               \
    target static void name(const type *line, double *sums, ptrdiff_t pairs, ptrdiff_t lanes) {                        \
        for (ptrdiff_t i = 0; i < pairs; i++) {                                                                        \
            const type *const first = line + 2 * i * lanes, *const second = first + lanes;                             \
            double *const sum = sums + i * lanes;                                                                      \
            for (ptrdiff_t k = 0; k < lanes; k++) sum[k] += (double)first[k] + (double)second[k];                      \
        }                                                                                                              \
    }

ZV_ADD_PAIRS(zv_add_pairs_of_doubles, , double)
ZV_ADD_PAIRS(zv_add_pairs_portable, , float)

#if ZV_X86 && defined(__GNUC__)
ZV_ADD_PAIRS(zv_add_pairs_avx2, __attribute__((target("avx2"))), float)
#endif
#undef ZV_ADD_PAIRS

static inline void zv_add_pairs_of_floats(uint32_t features, const float *line, double *sums, ptrdiff_t pairs,
                                          ptrdiff_t lanes) {
#if ZV_X86 && defined(__GNUC__)
    if (features & ZV_CPU_AVX2) {
        zv_add_pairs_avx2(line, sums, pairs, lanes);
        return;
    }
#endif
    (void)features;
    zv_add_pairs_portable(line, sums, pairs, lanes);
}

#endif
