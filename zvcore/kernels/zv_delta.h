/* Lists of byte ranges by id, stored as three rows of little-endian uint64: the ids, each as the difference from the one
 * before; the offsets, each as the difference from the end of the range before; the sizes. Sums wrap around at 2^64.
 */
#ifndef ZV_DELTA_H
#define ZV_DELTA_H

#include <stddef.h>
#include <stdint.h>

#include "zv_bytes.h"

/* Returns `count`, or the first entry whose range does not end before 2^64. `stored` has 24 * count bytes. */
static size_t zv_delta_decode(const uint8_t *restrict stored, size_t count, uint64_t *restrict ids,
                              uint64_t *restrict offsets, uint64_t *restrict sizes) {
    const uint8_t *const stored_offsets = stored + 8 * count, *const stored_sizes = stored + 16 * count;
    uint64_t id = 0, end = 0, wrapped = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t size = zv_load_le64(stored_sizes + 8 * i), offset = end + zv_load_le64(stored_offsets + 8 * i);
        id += zv_load_le64(stored + 8 * i);
        end = offset + size;
        wrapped |= end < offset;
        ids[i] = id;
        offsets[i] = offset;
        sizes[i] = size;
    }
    if (wrapped)
        for (size_t i = 0; i < count; i++)
            if (offsets[i] + sizes[i] < offsets[i]) return i;
    return count;
}

/* The inverse; same result. */
static size_t zv_delta_encode(const uint64_t *restrict ids, const uint64_t *restrict offsets,
                              const uint64_t *restrict sizes, size_t count, uint8_t *restrict stored) {
    uint8_t *const stored_offsets = stored + 8 * count, *const stored_sizes = stored + 16 * count;
    uint64_t id = 0, end = 0, wrapped = 0;
    for (size_t i = 0; i < count; i++) {
        zv_store_le64(stored + 8 * i, ids[i] - id);
        zv_store_le64(stored_offsets + 8 * i, offsets[i] - end);
        zv_store_le64(stored_sizes + 8 * i, sizes[i]);
        id = ids[i];
        end = offsets[i] + sizes[i];
        wrapped |= end < offsets[i];
    }
    if (wrapped)
        for (size_t i = 0; i < count; i++)
            if (offsets[i] + sizes[i] < offsets[i]) return i;
    return count;
}

#endif
