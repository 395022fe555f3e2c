/* MurmurHash3_x86_128, seed 0, of the 8 little-endian bytes of an id: the first 8 bytes of its digest.
 *
 * Eight bytes are less than one block, so they only reach the first two of the four words of the hash's state, and the
 * third and the fourth stay equal to the end. The loop is plain C; compiled for wider registers it becomes vector code.
 */
#ifndef ZV_MURMUR3_H
#define ZV_MURMUR3_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "zv_cpu.h"

static inline uint32_t zv_rotate_left32(uint32_t value, int bits) { return value << bits | value >> (32 - bits); }

static inline uint32_t zv_murmur3_mix(uint32_t word) {
    word = (word ^ word >> 16) * 0x85ebca6bu;
    word = (word ^ word >> 13) * 0xc2b2ae35u;
    return word ^ word >> 16;
}

static inline uint64_t zv_murmur3(uint64_t id) {
    const uint32_t length = 8;
    uint32_t first = length ^ zv_rotate_left32((uint32_t)id * 0x239b961bu, 15) * 0xab0e9789u;
    uint32_t second = length ^ zv_rotate_left32((uint32_t)(id >> 32) * 0xab0e9789u, 16) * 0x38b34ae5u;
    first += second + 2 * length;
    second = zv_murmur3_mix(second + first);
    const uint32_t third = zv_murmur3_mix(length + first);
    first = zv_murmur3_mix(first) + second + 2 * third;
    return first | (uint64_t)(second + first) << 32;
}

#define ZV_MURMUR3_ALL(NAME, TARGET)                                                               \
    TARGET static void NAME(const uint64_t *restrict ids, uint64_t *restrict hashes, size_t count) { \
        for (size_t i = 0; i < count; i++) hashes[i] = zv_murmur3(ids[i]);                           \
    }

ZV_MURMUR3_ALL(zv_murmur3_all_portable, )
#if ZV_X86
ZV_MURMUR3_ALL(zv_murmur3_all_sse42, __attribute__((target("sse4.2"))))
ZV_MURMUR3_ALL(zv_murmur3_all_avx2, __attribute__((target("avx2"))))
ZV_MURMUR3_ALL(zv_murmur3_all_avx512, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))))
#endif

#undef ZV_MURMUR3_ALL

/* The hashes of `count` ids in one piece; `hashes` must not overlap them. */
static void zv_murmur3_all(uint32_t features, const uint64_t *ids, uint64_t *hashes, size_t count) {
#if ZV_X86
    if (features & ZV_CPU_AVX512) {
        zv_murmur3_all_avx512(ids, hashes, count);
        return;
    }
    if (features & ZV_CPU_AVX2) {
        zv_murmur3_all_avx2(ids, hashes, count);
        return;
    }
    if (features & ZV_CPU_SSE42) {
        zv_murmur3_all_sse42(ids, hashes, count);
        return;
    }
#endif
    (void)features;
    zv_murmur3_all_portable(ids, hashes, count);
}

/* The hashes of ids that lie `stride` bytes apart, at any address. */
static void zv_murmur3_strided(uint32_t features, const char *ids, ptrdiff_t stride, uint64_t *hashes, size_t count) {
    enum { ROWS = 256 };
    uint64_t block[ROWS];
    if (stride == (ptrdiff_t)sizeof *block && (uintptr_t)ids % sizeof *block == 0) {
        zv_murmur3_all(features, (const uint64_t *)ids, hashes, count);
        return;
    }
    for (size_t begin = 0; begin < count; begin += ROWS) {
        const size_t rows = count - begin < ROWS ? count - begin : ROWS;
        for (size_t row = 0; row < rows; row++)
            memcpy(&block[row], ids + (ptrdiff_t)(begin + row) * stride, sizeof *block);
        zv_murmur3_all(features, block, hashes + begin, rows);
    }
}

#endif
