/* MD5 (RFC 1321) of several messages at once. */
#ifndef ZV_MD5_H
#define ZV_MD5_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "zv_cpu.h"

typedef struct {
    const uint8_t *data;
    size_t size;
} zv_md5_message;

/* The whole part of 2^32 times the sine of each number from 1 to 64. */
static const uint32_t zv_md5_sines[64] = {
    0xd76aa478u, 0xe8c7b756u, 0x242070dbu, 0xc1bdceeeu, 0xf57c0fafu, 0x4787c62au, 0xa8304613u, 0xfd469501u,
    0x698098d8u, 0x8b44f7afu, 0xffff5bb1u, 0x895cd7beu, 0x6b901122u, 0xfd987193u, 0xa679438eu, 0x49b40821u,
    0xf61e2562u, 0xc040b340u, 0x265e5a51u, 0xe9b6c7aau, 0xd62f105du, 0x02441453u, 0xd8a1e681u, 0xe7d3fbc8u,
    0x21e1cde6u, 0xc33707d6u, 0xf4d50d87u, 0x455a14edu, 0xa9e3e905u, 0xfcefa3f8u, 0x676f02d9u, 0x8d2a4c8au,
    0xfffa3942u, 0x8771f681u, 0x6d9d6122u, 0xfde5380cu, 0xa4beea44u, 0x4bdecfa9u, 0xf6bb4b60u, 0xbebfbc70u,
    0x289b7ec6u, 0xeaa127fau, 0xd4ef3085u, 0x04881d05u, 0xd9d4d039u, 0xe6db99e5u, 0x1fa27cf8u, 0xc4ac5665u,
    0xf4292244u, 0x432aff97u, 0xab9423a7u, 0xfc93a039u, 0x655b59c3u, 0x8f0ccc92u, 0xffeff47du, 0x85845dd1u,
    0x6fa87e4fu, 0xfe2ce6e0u, 0xa3014314u, 0x4e0811a1u, 0xf7537e82u, 0xbd3af235u, 0x2ad7d2bbu, 0xeb86d391u
};

static inline uint32_t zv_md5_word(const uint8_t *at) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
#else
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
#endif
}

static inline void zv_md5_put(uint8_t *at, uint32_t word) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(word >> 8 * i);
}

/* The bytes behind the last whole block of a message, a one bit, zeros and the length in bits: how many blocks that is. */
static size_t zv_md5_end(const zv_md5_message *message, uint8_t *end) {
    const size_t rest = message->size % 64, blocks = rest < 56 ? 1 : 2;
    const uint64_t bits = (uint64_t)message->size << 3;
    memset(end, 0, 128);
    if (rest) memcpy(end, message->data + (message->size - rest), rest);
    end[rest] = 0x80;
    zv_md5_put(end + 64 * blocks - 8, (uint32_t)bits);
    zv_md5_put(end + 64 * blocks - 4, (uint32_t)(bits >> 32));
    return blocks;
}

#define ZV_LANES 4
#define ZV_NAME(name) zv_md5_##name##_portable
#define ZV_TARGET
#include "zv_md5_lanes.h"
#undef ZV_LANES
#undef ZV_NAME
#undef ZV_TARGET

#if ZV_X86
#define ZV_LANES 8
#define ZV_NAME(name) zv_md5_##name##_avx2
#define ZV_TARGET __attribute__((target("avx2")))
#include "zv_md5_lanes.h"
#undef ZV_LANES
#undef ZV_NAME
#undef ZV_TARGET

#define ZV_LANES 16
#define ZV_NAME(name) zv_md5_##name##_avx512
#define ZV_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#include "zv_md5_lanes.h"
#undef ZV_LANES
#undef ZV_NAME
#undef ZV_TARGET
#endif

static void zv_md5_all(uint32_t features, const zv_md5_message *messages, size_t count, uint8_t (*digests)[16]) {
#if ZV_X86
    if (features & ZV_CPU_AVX512) {
        zv_md5_all_avx512(messages, count, digests);
        return;
    }
    if (features & ZV_CPU_AVX2) {
        zv_md5_all_avx2(messages, count, digests);
        return;
    }
#endif
    (void)features;
    zv_md5_all_portable(messages, count, digests);
}

#endif
