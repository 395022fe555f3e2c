/* Little-endian loads and stores that work at any address and on any host. Compilers make one instruction of each. */
#ifndef ZV_BYTES_H
#define ZV_BYTES_H

#include <stdint.h>
#include <string.h>

static inline uint64_t zv_load_le64(const void *source) {
    uint64_t value;
    memcpy(&value, source, sizeof value);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

static inline uint32_t zv_load_le32(const void *source) {
    uint32_t value;
    memcpy(&value, source, sizeof value);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap32(value);
#endif
    return value;
}

static inline uint16_t zv_load_le16(const void *source) {
    uint16_t value;
    memcpy(&value, source, sizeof value);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap16(value);
#endif
    return value;
}

static inline void zv_store_le64(void *target, uint64_t value) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    memcpy(target, &value, sizeof value);
}

static inline void zv_store_le32(void *target, uint32_t value) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap32(value);
#endif
    memcpy(target, &value, sizeof value);
}

#endif
