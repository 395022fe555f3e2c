/* zv_codec.h: the table through which zvcore calls a codec from its threads, without Python.
 *
 * Plain C11 without Python.h; usable from C, C++ and Cython. A codec object offers it by a method
 * `__zv_codec__()` that returns a PyCapsule named ZV_CODEC_CAPSULE around a `zv_codec`.
 *
 * The rules, each of which zvcore relies on:
 *  - The major version of this interface is the capsule's name. `minor` and `struct_size` tell which fields exist;
 *    fields are only ever appended, and none that exists ever moves. A plugin sets `struct_size` to the size that the
 *    table had where it was built: zvcore takes shorter and longer ones than its own, as long as they reach to `decode`.
 *  - The table and `cfg` do not change once the capsule exists and live as long as the capsule; its destructor frees them.
 *  - `cfg` is shared by all threads at once. A worker belongs to one thread at a time.
 *  - The caller owns every buffer. A codec writes at most `cap` bytes to `dst` and never keeps a pointer.
 *  - Status and size are apart: an empty result is a success with `*out_n == 0`.
 *  - With ZV_SPACE, `*out_n` is the size that is needed, or 0 when that is not known.
 *  - `decode` takes exactly the `n` bytes at `src`. It returns ZV_SPACE as soon as the result would exceed `cap`;
 *    it finds out by how much only if that costs nothing.
 *  - None of these functions calls Python, starts a thread, holds mutable global state, throws, longjmps or aborts,
 *    whatever the bytes at `src` are.
 *  - `src` and `dst` do not overlap; either may be NULL when its size is 0.
 */
#ifndef ZV_CODEC_H
#define ZV_CODEC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZV_CODEC_CAPSULE "zvcore.codec.v1"
#define ZV_CODEC_MINOR 4u

/* What `encode` and `decode` return. */
enum {
    ZV_OK = 0,
    ZV_SPACE = 1,    /* dst is too small */
    ZV_CORRUPT = 2,  /* src is not a valid stream */
    ZV_CHECKSUM = 3, /* src is well formed but its checksum does not match */
    ZV_PARAM = 4,    /* cfg cannot do this */
    ZV_NOMEM = 5,
    ZV_INTERNAL = 6  /* the library failed in a way that is not the data's fault */
};

/* `flags` */
#define ZV_FLAG_DETERMINISTIC 1u /* equal input and cfg give equal bytes with this library version */

#define ZV_SIZE_UNKNOWN UINT64_MAX

typedef struct zv_error {
    uint32_t struct_size; /* set by the caller */
    int32_t lib_code;     /* the library's own code, 0 if it has none */
    char msg[248];        /* NUL-terminated UTF-8; empty if there is nothing to say */
} zv_error;

typedef struct zv_codec {
    uint32_t struct_size;
    uint32_t minor;
    const char *name;        /* "zstd"; never NULL */
    const char *lib_version; /* "libzstd 1.5.7"; for messages. NULL or empty: there is no library */

    uint64_t flags;
    const void *cfg;

    /* A worker holds what a library wants to reuse between calls (contexts, scratch). Both NULL: workers are not used
     * and `worker` below is NULL. worker_new returns NULL when memory is short. */
    void *(*worker_new)(const void *cfg);
    void (*worker_free)(void *worker);

    /* The most bytes that encoding `n` bytes can take: `encode` gets room for as many, once. More than there can be
     * memory for (UINT64_MAX) says that they cannot be encoded. */
    uint64_t (*bound)(const void *cfg, uint64_t n);

    /* The decoded size as `src` declares it, or ZV_SIZE_UNKNOWN. It is a hint from untrusted bytes. NULL: never known. */
    uint64_t (*decoded_hint)(const void *cfg, const uint8_t *src, uint64_t n);

    int32_t (*encode)(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                      uint64_t *out_n, zv_error *err);
    int32_t (*decode)(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                      uint64_t *out_n, zv_error *err);

    /* Minor 1. For streams that can be decoded piece by piece, in any order and by several threads at once, each with a
     * worker of its own. Both NULL: there are none.
     *
     * part_size says how many bytes of the result each part has, of which the last may have fewer, if `src` decodes to
     * `size` bytes and has several parts; else 0, also when anything looks wrong, for `decode` to say what.
     * decode_part fills `size` bytes at `dst` with those from `begin` on: whole parts, or up to the end. All parts
     * decode if and only if `decode` does, to the same bytes. Whatever it returns instead of ZV_OK, `decode` is asked
     * next. */
    uint64_t (*part_size)(const void *cfg, const uint8_t *src, uint64_t n, uint64_t size);
    int32_t (*decode_part)(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint64_t begin, uint8_t *dst,
                           uint64_t size);

    /* Minor 2. For streams that may hold what was encoded as it is, where compression did not make it smaller. NULL:
     * they never do.
     *
     * plain_at says from where on in `src` the `size` bytes lie that `decode` would give for all of it, which are then
     * taken from there instead; ZV_SIZE_UNKNOWN if they do not, also when anything looks wrong, for `decode` to say what. */
    uint64_t (*plain_at)(const void *cfg, const uint8_t *src, uint64_t n, uint64_t size);

    /* Minor 3. For codecs that decode two streams in less time together than one after the other, as a processor does
     * something for one while the other waits. NULL: there is nothing to gain.
     *
     * decode_two fills `size[i]` bytes at `dst[i]` with all that the `n[i]` bytes at `src[i]` decode to; the streams have
     * nothing to do with each other. It returns ZV_OK if `decode` gives as many bytes for each of them, and these. Whatever
     * it returns instead, nothing is believed of either, and `decode` is asked for both. */
    int32_t (*decode_two)(const void *cfg, void *worker, const uint8_t *const src[2], const uint64_t n[2],
                          uint8_t *const dst[2], const uint64_t size[2]);

    /* Minor 4. For streams without a checksum that are decoded from their beginning on, of which no more need be decoded
     * than somebody wants. NULL: all of them must be.
     *
     * decode_first fills the first `first` bytes at `dst`, where there is room for `size`, if `src` decodes to `size` bytes
     * as far as it was looked at; what comes behind them may be anything. It returns ZV_OK if `decode` gives these bytes,
     * or finds something wrong behind them. Whatever it returns instead, `decode` is asked next. */
    int32_t (*decode_first)(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t size,
                            uint64_t first);
} zv_codec;

#ifdef __cplusplus
}
#endif
#endif
