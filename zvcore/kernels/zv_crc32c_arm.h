/* CRC-32C on aarch64. Included by zv_crc32c.h, where the arithmetic is explained.
 *
 * Three streams hide the latency of the crc32cx instruction; where there is no carry-less multiplication to join them
 * cheaply, only long blocks are split.
 */
#ifndef ZV_CRC32C_ARM_H
#define ZV_CRC32C_ARM_H

#if defined(__clang__)
#define ZV_TARGET_CRC __attribute__((target("crc")))
#define ZV_TARGET_PMULL __attribute__((target("crc,aes")))
#else
#define ZV_TARGET_CRC __attribute__((target("+crc")))
#define ZV_TARGET_PMULL __attribute__((target("+crc+crypto")))
#endif

#include <arm_acle.h>
#include <arm_neon.h>

typedef struct {
    size_t words; /* of 8 bytes, in each of the three streams */
    uint32_t over_two, over_one;
} zv_three_streams;

enum { ZV_STREAM_KINDS = 3 };

static zv_three_streams zv_streams[ZV_STREAM_KINDS] = {{1024, 0, 0}, {128, 0, 0}, {16, 0, 0}};

static void zv_crc32c_prepare_arm(void) {
    for (int kind = 0; kind < ZV_STREAM_KINDS; kind++) {
        zv_streams[kind].over_two = zv_crc32c_shift_key(16 * zv_streams[kind].words);
        zv_streams[kind].over_one = zv_crc32c_shift_key(8 * zv_streams[kind].words);
    }
}

/* Carry-less 32 x 32 bit products. */
ZV_TARGET_PMULL static uint64_t zv_product_pmull(uint32_t state, uint32_t key) {
    return vgetq_lane_u64(vreinterpretq_u64_p128(vmull_p64((poly64_t)state, (poly64_t)key)), 0);
}

static uint64_t zv_product_plain(uint32_t state, uint32_t key) {
    uint64_t product = 0;
    for (int bit = 0; bit < 32; bit++) product ^= (0 - (uint64_t)(state >> bit & 1)) & ((uint64_t)key << bit);
    return product;
}

ZV_TARGET_CRC static uint32_t zv_crc32c_armv8(uint32_t pmull, uint32_t state, const uint8_t *data, size_t size) {
    for (int kind = 0; kind < (pmull ? ZV_STREAM_KINDS : 1); kind++) {
        const size_t length = 8 * zv_streams[kind].words;
        for (; size >= 3 * length; data += 3 * length, size -= 3 * length) {
            uint32_t two = 0, three = 0;
            size_t at = 0;
            for (; at < length - 8; at += 8) {
                state = __crc32cd(state, zv_load_le64(data + at));
                two = __crc32cd(two, zv_load_le64(data + length + at));
                three = __crc32cd(three, zv_load_le64(data + 2 * length + at));
            }
            state = __crc32cd(state, zv_load_le64(data + at));
            two = __crc32cd(two, zv_load_le64(data + length + at));
            const uint32_t over_two = zv_streams[kind].over_two, over_one = zv_streams[kind].over_one;
            const uint64_t carried = pmull ? zv_product_pmull(state, over_two) ^ zv_product_pmull(two, over_one)
                                           : zv_product_plain(state, over_two) ^ zv_product_plain(two, over_one);
            /* The reduction of both products rides on the last 8 bytes of the third stream. */
            state = __crc32cd(three, zv_load_le64(data + 2 * length + at) ^ carried);
        }
    }
    for (; size >= 8; data += 8, size -= 8) state = __crc32cd(state, zv_load_le64(data));
    for (; size; data++, size--) state = __crc32cb(state, *data);
    return state;
}

#endif
