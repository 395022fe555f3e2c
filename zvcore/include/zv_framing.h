/* zv_framing.h: how a format whose chunks carry a header of their own reads and writes it, without Python.
 *
 * A layout offers a table of this kind in a PyCapsule named ZV_FRAMING_CAPSULE. Dimensions are in the array's axes.
 */
#ifndef ZV_FRAMING_H
#define ZV_FRAMING_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZV_FRAMING_CAPSULE "zvcore.framing.v1"
#define ZV_FRAMING_MAX_NDIM 32

typedef struct zv_frame {
    uint64_t header_size;                 /* the encoded payload starts here and fills the rest */
    uint64_t shape[ZV_FRAMING_MAX_NDIM];  /* of the values in the payload */
} zv_frame;

typedef struct zv_framing {
    uint32_t struct_size;
    const void *cfg;
    /* Reads the header of the `n` bytes at `src`. Returns 0, or -1 with a text of at most 247 bytes in `message` and in
     * `frame->header_size` the offset of what is wrong. */
    int32_t (*parse)(const void *cfg, const uint8_t *src, uint64_t n, int32_t ndim, zv_frame *frame, char *message);
    /* The most bytes that a header of `ndim` dimensions takes: at most 1024. A table whose `write` takes more is refused. */
    uint64_t (*header_bound)(const void *cfg, int32_t ndim);
    /* Writes the header of a chunk of this shape and returns its size. */
    uint64_t (*write)(const void *cfg, int32_t ndim, const uint64_t *shape, uint8_t *dst);
} zv_framing;

#ifdef __cplusplus
}
#endif
#endif
