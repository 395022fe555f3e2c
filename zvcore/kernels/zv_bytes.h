/* Little-endian loads and stores that work at any address and on any host. Compilers make one instruction of each. */
#ifndef ZV_BYTES_H
#define ZV_BYTES_H

#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define ZV_LITTLE(bits, value) __builtin_bswap##bits(value)
#else
#define ZV_LITTLE(bits, value) (value)
#endif

#define ZV_LOAD_AND_STORE(bits)                                                    \
    static inline uint##bits##_t zv_load_le##bits(const void *source) {            \
        uint##bits##_t value;                                                      \
        memcpy(&value, source, sizeof value);                                      \
        return ZV_LITTLE(bits, value);                                             \
    }                                                                              \
    static inline void zv_store_le##bits(void *target, uint##bits##_t value) {     \
        value = ZV_LITTLE(bits, value);                                            \
        memcpy(target, &value, sizeof value);                                      \
    }

ZV_LOAD_AND_STORE(16)
ZV_LOAD_AND_STORE(32)
ZV_LOAD_AND_STORE(64)

#endif
