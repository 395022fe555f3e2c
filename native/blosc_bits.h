/* How c-blosc shuffles bits on a processor with AVX2: see blosc_bits.c. For shuffle.c. */
#ifndef ZV_BLOSC_BITS_H
#define ZV_BLOSC_BITS_H

#include <stddef.h>
#include <stdint.h>

/* `count` elements of `size` bytes, a multiple of 8; there is room for as many bytes. */
typedef int64_t (*zv_bits)(void *in, void *out, size_t count, size_t size, void *room);

zv_bits zv_blosc_bitshuffle(void);
zv_bits zv_blosc_bitunshuffle(void);

#endif
