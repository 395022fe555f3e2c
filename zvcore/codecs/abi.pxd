"""The C function table of `zv_codec.h`, for Cython modules."""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t


cdef extern from "zv_codec.h" nogil:
    const char *ZV_CODEC_CAPSULE
    const uint32_t ZV_CODEC_MINOR
    const uint64_t ZV_SIZE_UNKNOWN
    const uint64_t ZV_FLAG_DETERMINISTIC
    const int32_t ZV_OK
    const int32_t ZV_SPACE
    const int32_t ZV_CORRUPT
    const int32_t ZV_CHECKSUM
    const int32_t ZV_PARAM
    const int32_t ZV_NOMEM
    const int32_t ZV_INTERNAL

    ctypedef struct zv_error:
        uint32_t struct_size
        int32_t lib_code
        char msg[248]

    ctypedef struct zv_codec:
        uint32_t struct_size
        uint32_t minor
        const char *name
        const char *lib_version
        uint64_t flags
        const void *cfg
        void *(*worker_new)(const void *cfg) noexcept nogil
        void (*worker_free)(void *worker) noexcept nogil
        uint64_t (*bound)(const void *cfg, uint64_t n) noexcept nogil
        uint64_t (*decoded_hint)(const void *cfg, const uint8_t *src, uint64_t n) noexcept nogil
        int32_t (*encode)(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                          uint64_t *out_n, zv_error *err) noexcept nogil
        int32_t (*decode)(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                          uint64_t *out_n, zv_error *err) noexcept nogil
        uint64_t (*part_size)(const void *cfg, const uint8_t *src, uint64_t n, uint64_t size) noexcept nogil
        int32_t (*decode_part)(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint64_t begin,
                               uint8_t *dst, uint64_t size) noexcept nogil
        uint64_t (*plain_at)(const void *cfg, const uint8_t *src, uint64_t n, uint64_t size) noexcept nogil
        int32_t (*decode_two)(const void *cfg, void *worker, const uint8_t *const *src, const uint64_t *n,
                              uint8_t *const *dst, const uint64_t *size) noexcept nogil
        int32_t (*decode_first)(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst,
                                uint64_t size, uint64_t first) noexcept nogil
