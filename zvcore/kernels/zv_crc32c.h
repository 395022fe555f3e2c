/* CRC-32C (Castagnoli): the constants that all paths share, and the portable path.
 *
 * A polynomial over GF(2) is held "reflected", as the checksum defines it: bit 31 of a 32-bit value is the coefficient
 * of x^0. P is the checksum's polynomial. A `state` is the checksum before its final inversion.
 *
 * Three facts carry the fast paths:
 *  - Appending n zero bytes to a message multiplies its state by x^(8n) mod P. Parts of a message can therefore be
 *    worked on side by side and joined afterwards.
 *  - The carry-less product of a reflected 64-bit and a reflected 32-bit value, read as a reflected 128-bit value,
 *    is the product of the polynomials times x^33. So multiplying by x^n takes the constant x^(n-33) mod P.
 *  - Feeding 8 bytes d to the state 0 gives d * x^32 mod P: the crc32 instruction is also how a product is reduced.
 *    A 32 x 32 bit product read as 8 bytes is the product times x; with the x^32 it makes the same x^33.
 */
#ifndef ZV_CRC32C_H
#define ZV_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#include "zv_bytes.h"
#include "zv_cpu.h"

#define ZV_CRC32C_POLYNOMIAL 0x82f63b78u

static uint32_t zv_crc32c_table[8][256];

static inline uint32_t zv_crc32c_times_x(uint32_t value) {
    return (value >> 1) ^ (value & 1 ? ZV_CRC32C_POLYNOMIAL : 0);
}

/* x^n mod P */
static uint32_t zv_crc32c_x_power(uint64_t n) {
    uint32_t result = 0x80000000u, square = 0x40000000u;
    for (; n; n >>= 1) {
        if (n & 1) {
            uint32_t product = 0;
            for (uint32_t bit = 0x80000000u, term = square; bit; bit >>= 1, term = zv_crc32c_times_x(term))
                if (result & bit) product ^= term;
            result = product;
        }
        uint32_t product = 0;
        for (uint32_t bit = 0x80000000u, term = square; bit; bit >>= 1, term = zv_crc32c_times_x(term))
            if (square & bit) product ^= term;
        square = product;
    }
    return result;
}

/* The constant that moves a state over `bytes` more bytes (at least 5). */
static inline uint32_t zv_crc32c_shift_key(uint64_t bytes) { return zv_crc32c_x_power(8 * bytes - 33); }

static void zv_crc32c_fill_table(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t state = byte;
        for (int bit = 0; bit < 8; bit++) state = zv_crc32c_times_x(state);
        zv_crc32c_table[0][byte] = state;
    }
    /* Row k is what a byte becomes once k more bytes have followed it. */
    for (int row = 1; row < 8; row++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            const uint32_t before = zv_crc32c_table[row - 1][byte];
            zv_crc32c_table[row][byte] = (before >> 8) ^ zv_crc32c_table[0][before & 255];
        }
}

static uint32_t zv_crc32c_portable(uint32_t state, const uint8_t *data, size_t size) {
    const uint32_t (*table)[256] = (const uint32_t (*)[256])zv_crc32c_table;
    for (; size >= 8; data += 8, size -= 8) {
        const uint64_t word = zv_load_le64(data) ^ state;
        state = table[7][word & 255] ^ table[6][word >> 8 & 255] ^ table[5][word >> 16 & 255] ^
                table[4][word >> 24 & 255] ^ table[3][word >> 32 & 255] ^ table[2][word >> 40 & 255] ^
                table[1][word >> 48 & 255] ^ table[0][word >> 56];
    }
    for (; size; data++, size--) state = (state >> 8) ^ table[0][(state ^ *data) & 255];
    return state;
}

#if ZV_X86
#include "zv_crc32c_x86.h"
#elif ZV_ARM
#include "zv_crc32c_arm.h"
#endif

/* Called once, before anything else here. */
static void zv_crc32c_prepare(void) {
    zv_crc32c_fill_table();
#if ZV_X86
    zv_crc32c_prepare_x86();
#elif ZV_ARM
    zv_crc32c_prepare_arm();
#endif
}

/* The checksum of what `value` is the checksum of, followed by `data`. `features` are the ZV_CPU_ bits to use. */
static inline uint32_t zv_crc32c(uint32_t features, uint32_t value, const uint8_t *data, size_t size) {
    const uint32_t state = ~value;
#if ZV_X86
    const uint32_t wide = ZV_CPU_AVX512 | ZV_CPU_VPCLMUL;
    if ((features & wide) == wide) return ~zv_crc32c_avx512(state, data, size);
    if (features & ZV_CPU_VPCLMUL) return ~zv_crc32c_avx2(state, data, size);
    if (features & ZV_CPU_SSE42) return ~zv_crc32c_sse42(state, data, size);
#elif ZV_ARM
    if (features & ZV_CPU_CRC) return ~zv_crc32c_armv8(features & ZV_CPU_PMULL, state, data, size);
#endif
    (void)features;
    return ~zv_crc32c_portable(state, data, size);
}

#endif
