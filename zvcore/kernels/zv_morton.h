/* Compressed Morton codes: the bits of a grid position's coordinates, dealt out in turn from the lowest bit up; an axis
 * that needs no further bits is passed over.
 *
 * Each axis owns some bits of the code, its mask; encoding deposits a coordinate's low bits there and decoding extracts
 * them. Where there is no instruction for that, six shifts do it: bit i has to travel mask position - i places, a
 * distance that never falls from one bit to the next, so all bits can travel by its binary digits, largest first,
 * without meeting.
 */
#ifndef ZV_MORTON_H
#define ZV_MORTON_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "zv_cpu.h"

enum { ZV_MORTON_MAX_NDIM = 64, ZV_MORTON_DIGITS = 6, ZV_MORTON_ROWS = 256 };

typedef struct {
    uint64_t last; /* the largest coordinate */
    uint64_t mask;
    uint64_t arrivals[ZV_MORTON_DIGITS]; /* [k]: where the bits that travel 2^k places arrive */
} zv_morton_axis;

typedef struct {
    int ndim;
    int bits;      /* how many bits a code has; more than 64 means that the grid is too large */
    uint64_t used; /* those bits */
    zv_morton_axis axes[ZV_MORTON_MAX_NDIM];
} zv_morton_grid;

/* The item types that coordinates come in. */
typedef enum { ZV_COORDINATE_INT32, ZV_COORDINATE_UINT32, ZV_COORDINATE_INT64, ZV_COORDINATE_UINT64 } zv_coordinate_type;

/* Fill `grid` for axes whose largest coordinates are `last`; `ndim` is at most ZV_MORTON_MAX_NDIM. */
static inline void zv_morton_plan(zv_morton_grid *grid, const uint64_t *last, int ndim) {
    memset(grid, 0, sizeof *grid);
    grid->ndim = ndim;
    for (int axis = 0; axis < ndim; axis++) grid->axes[axis].last = last[axis];
    for (int bit = 0; bit < 64; bit++)
        for (int axis = 0; axis < ndim; axis++) {
            zv_morton_axis *const own = &grid->axes[axis];
            if (!(own->last >> bit)) continue;
            const int position = grid->bits++;
            if (position >= 64) continue;
            own->mask |= UINT64_C(1) << position;
            const int distance = position - bit;
            for (int digit = 0; digit < ZV_MORTON_DIGITS; digit++)
                if (distance >> digit & 1) own->arrivals[digit] |= UINT64_C(1) << (bit + (distance >> digit << digit));
        }
    grid->used = grid->bits >= 64 ? UINT64_MAX : (UINT64_C(1) << grid->bits) - 1;
}

static inline uint64_t zv_morton_deposit(const zv_morton_axis *axis, uint64_t coordinate) {
    for (int digit = ZV_MORTON_DIGITS - 1; digit >= 0; digit--) {
        const uint64_t arrive = axis->arrivals[digit];
        coordinate = (coordinate & ~arrive) | (coordinate << (1 << digit) & arrive);
    }
    return coordinate & axis->mask;
}

static inline uint64_t zv_morton_extract(const zv_morton_axis *axis, uint64_t code) {
    code &= axis->mask;
    for (int digit = 0; digit < ZV_MORTON_DIGITS; digit++) {
        const uint64_t leave = code & axis->arrivals[digit];
        code = (code ^ leave) | leave >> (1 << digit);
    }
    return code;
}

/* code[row] |= the deposited coordinate[row] */
static inline void zv_morton_deposit_rows(const zv_morton_axis *axis, const uint64_t *restrict coordinates,
                                   uint64_t *restrict codes, size_t rows) {
    const zv_morton_axis own = *axis;
    for (size_t row = 0; row < rows; row++) codes[row] |= zv_morton_deposit(&own, coordinates[row]);
}

static inline void zv_morton_extract_rows(const zv_morton_axis *axis, const uint64_t *restrict codes,
                                   uint64_t *restrict coordinates, size_t rows) {
    const zv_morton_axis own = *axis;
    for (size_t row = 0; row < rows; row++) coordinates[row] = zv_morton_extract(&own, codes[row]);
}

#if ZV_X86

/* The instructions by name: intrinsics would need the whole function to be compiled for BMI2. */
static inline void zv_morton_deposit_rows_bmi2(const zv_morton_axis *axis, const uint64_t *restrict coordinates,
                                        uint64_t *restrict codes, size_t rows) {
    const uint64_t mask = axis->mask;
    for (size_t row = 0; row < rows; row++) {
        uint64_t bits;
        __asm__("pdepq %2, %1, %0" : "=r"(bits) : "r"(coordinates[row]), "r"(mask));
        codes[row] |= bits;
    }
}

static inline void zv_morton_extract_rows_bmi2(const zv_morton_axis *axis, const uint64_t *restrict codes,
                                        uint64_t *restrict coordinates, size_t rows) {
    const uint64_t mask = axis->mask;
    for (size_t row = 0; row < rows; row++)
        __asm__("pextq %2, %1, %0" : "=r"(coordinates[row]) : "r"(codes[row]), "r"(mask));
}

#endif

/* Copy one column of coordinates; returns whether one of them is larger than `last` (negative ones are). */
#define ZV_MORTON_GATHER(TYPE)                                                  \
    for (size_t row = 0; row < rows; row++, source += stride) {                 \
        TYPE value;                                                             \
        memcpy(&value, source, sizeof value);                                   \
        column[row] = (uint64_t)(int64_t)value;                                 \
        outside |= column[row] > last;                                          \
    }                                                                           \
    break;

static inline int zv_morton_gather(zv_coordinate_type type, const char *source, ptrdiff_t stride, uint64_t last,
                            uint64_t *restrict column, size_t rows) {
    int outside = 0;
    switch (type) {
    case ZV_COORDINATE_INT32: ZV_MORTON_GATHER(int32_t)
    case ZV_COORDINATE_UINT32: ZV_MORTON_GATHER(uint32_t)
    case ZV_COORDINATE_INT64: ZV_MORTON_GATHER(int64_t)
    case ZV_COORDINATE_UINT64: ZV_MORTON_GATHER(uint64_t)
    }
    return outside;
}

#undef ZV_MORTON_GATHER

/* The largest coordinate that is inside the grid and that the item type can hold without being negative. */
static inline uint64_t zv_morton_last(const zv_morton_axis *axis, zv_coordinate_type type) {
    const int is_signed = type == ZV_COORDINATE_INT64 || type == ZV_COORDINATE_INT32;
    return is_signed && axis->last > INT64_MAX ? INT64_MAX : axis->last;
}

/* Encode `count` positions; element (i, d) of `coordinates` is at i * row_stride + d * axis_stride bytes. Returns
 * `count`, or a row at or before which some coordinate lies outside the grid, and within ZV_MORTON_ROWS of it. */
static inline size_t zv_morton_encode(uint32_t features, const zv_morton_grid *grid, zv_coordinate_type type,
                               const char *coordinates, ptrdiff_t row_stride, ptrdiff_t axis_stride, size_t count,
                               uint64_t *codes) {
    uint64_t column[ZV_MORTON_ROWS];
    (void)features;
    for (size_t begin = 0; begin < count; begin += ZV_MORTON_ROWS) {
        const size_t rows = count - begin < ZV_MORTON_ROWS ? count - begin : ZV_MORTON_ROWS;
        const char *const block = coordinates + (ptrdiff_t)begin * row_stride;
        int outside = 0;
        memset(codes + begin, 0, rows * sizeof *codes);
        for (int axis = 0; axis < grid->ndim; axis++) {
            const zv_morton_axis *const own = &grid->axes[axis];
            outside |= zv_morton_gather(type, block + axis * axis_stride, row_stride, zv_morton_last(own, type), column,
                                        rows);
#if ZV_X86
            if (features & ZV_CPU_BMI2) {
                zv_morton_deposit_rows_bmi2(own, column, codes + begin, rows);
                continue;
            }
#endif
            zv_morton_deposit_rows(own, column, codes + begin, rows);
        }
        if (outside) return begin;
    }
    return count;
}

/* Decode `count` codes into C-ordered rows of `ndim` coordinates. `inside` (may be NULL) gets 1 for each code that
 * names a position of the grid and 0 for each other one; without it, returns `count` or the first row of the first
 * batch of ZV_MORTON_ROWS that holds a code that names none. `coordinates` may be NULL. */
static inline size_t zv_morton_decode(uint32_t features, const zv_morton_grid *grid, const char *codes, ptrdiff_t stride,
                               size_t count, uint64_t *coordinates, uint8_t *inside) {
    uint64_t block[ZV_MORTON_ROWS], column[ZV_MORTON_ROWS];
    uint8_t good[ZV_MORTON_ROWS];
    (void)features;
    for (size_t begin = 0; begin < count; begin += ZV_MORTON_ROWS) {
        const size_t rows = count - begin < ZV_MORTON_ROWS ? count - begin : ZV_MORTON_ROWS;
        uint8_t all = 1;
        for (size_t row = 0; row < rows; row++) {
            memcpy(&block[row], codes + (ptrdiff_t)(begin + row) * stride, sizeof *block);
            good[row] = (block[row] & ~grid->used) == 0;
        }
        for (int axis = 0; axis < grid->ndim; axis++) {
            const zv_morton_axis *const own = &grid->axes[axis];
#if ZV_X86
            if (features & ZV_CPU_BMI2)
                zv_morton_extract_rows_bmi2(own, block, column, rows);
            else
#endif
                zv_morton_extract_rows(own, block, column, rows);
            for (size_t row = 0; row < rows; row++) good[row] &= column[row] <= own->last;
            if (coordinates)
                for (size_t row = 0; row < rows; row++)
                    coordinates[(begin + row) * (size_t)grid->ndim + (size_t)axis] = column[row];
        }
        if (inside) {
            memcpy(inside + begin, good, rows);
            continue;
        }
        for (size_t row = 0; row < rows; row++) all &= good[row];
        if (!all) return begin;
    }
    return count;
}

#endif
