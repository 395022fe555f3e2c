"""The C table of the codec that makes JPEG pictures of chunks, over libjpeg.

Built where libjpeg is there; elsewhere pictures go through simplejpeg, which needs Python's lock for each of them.
"""

from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.stdio cimport snprintf

from zvcore.codecs.abi cimport (
    ZV_CORRUPT, ZV_INTERNAL, ZV_NOMEM, ZV_OK, ZV_PARAM, ZV_SPACE, zv_codec, zv_error,
)
from zvcore.codecs.capsule cimport fail, new_table, wrap_table


cdef extern from "zv_jpeg.h" nogil:
    ctypedef struct zv_jpeg:
        const char *text
    ctypedef struct zv_jpeg_planes:
        uint64_t width
        uint64_t height
        int channels
    enum:
        ZV_JPEG_OK
        ZV_JPEG_BAD
        ZV_JPEG_OTHER
        ZV_JPEG_NO_ROOM
        ZV_JPEG_NO_MEMORY
    const char *ZV_JPEG_LIBRARY
    zv_jpeg *zv_jpeg_new()
    void zv_jpeg_free(zv_jpeg *own)
    int zv_jpeg_read(zv_jpeg *own, const uint8_t *src, uint64_t n, const zv_jpeg_planes *wanted, uint8_t *dst,
                     uint64_t first)
    int zv_jpeg_write(zv_jpeg *own, const uint8_t *src, const zv_jpeg_planes *planes, int quality, uint8_t *dst,
                      uint64_t room, uint64_t *size)


cdef struct Config:
    zv_jpeg_planes planes       # of the pictures that are written; others have as many pixels
    uint64_t size               # of a chunk
    int quality


cdef void *worker_new(const void *cfg) noexcept nogil:
    return zv_jpeg_new()


cdef void worker_free(void *worker) noexcept nogil:
    zv_jpeg_free(<zv_jpeg *> worker)


cdef int32_t read_first(const Config *config, zv_jpeg *own, const uint8_t *src, uint64_t n, uint8_t *dst,
                        uint64_t first, zv_error *err) noexcept nogil:
    cdef char text[248]
    cdef int found = zv_jpeg_read(own, src, n, &config.planes, dst, first)
    if found == ZV_JPEG_OK:
        return ZV_OK
    if found == ZV_JPEG_NO_MEMORY:
        return ZV_NOMEM
    snprintf(text, sizeof(text), b"%s%s", b"not a valid picture: " if found == ZV_JPEG_BAD else b"", own.text)
    return fail(err, ZV_CORRUPT, 0, text)


cdef int32_t decode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Config *config = <const Config *> cfg
    cdef int32_t status
    out_n[0] = 0
    if cap < config.size:
        out_n[0] = config.size
        return ZV_SPACE
    status = read_first(config, <zv_jpeg *> worker, src, n, dst, config.size, err)
    if status == ZV_OK:
        out_n[0] = config.size
    return status


cdef int32_t decode_first(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t size,
                          uint64_t first) noexcept nogil:
    cdef const Config *config = <const Config *> cfg
    if size != config.size or first > size:
        return ZV_CORRUPT
    return read_first(config, <zv_jpeg *> worker, src, n, dst, first, NULL)


cdef uint64_t bound(const void *cfg, uint64_t n) noexcept nogil:
    """As turbojpeg's: no block takes more than twice its pixels, and the headers are short."""
    cdef const Config *config = <const Config *> cfg
    cdef uint64_t width = (config.planes.width + 7) // 8 * 8, height = (config.planes.height + 7) // 8 * 8
    return width * height * (2 if config.planes.channels == 1 else 6) + 2048


cdef int32_t encode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Config *config = <const Config *> cfg
    cdef zv_jpeg *own = <zv_jpeg *> worker
    cdef int found
    out_n[0] = 0
    if n != config.size:
        return fail(err, ZV_PARAM, 0, b"the chunk has another shape than its codec")
    if cap < bound(cfg, n):
        out_n[0] = bound(cfg, n)
        return ZV_SPACE
    found = zv_jpeg_write(own, src, &config.planes, config.quality, dst, cap, out_n)
    if found == ZV_JPEG_OK:
        return ZV_OK
    if found == ZV_JPEG_NO_ROOM:
        return ZV_SPACE
    if found == ZV_JPEG_NO_MEMORY:
        return ZV_NOMEM
    return fail(err, ZV_INTERNAL, 0, own.text)


def codec_table(uint64_t width, uint64_t height, int channels, int quality):
    """A capsule for chunks of so many pixels; the caller has seen that JPEG can have such sides."""
    cdef zv_codec *table = new_table(b"jpeg", ZV_JPEG_LIBRARY, sizeof(Config))
    cdef Config *config = <Config *> table.cfg
    config.planes = zv_jpeg_planes(width, height, channels)
    config.size = width * height * channels
    config.quality = quality
    table.worker_new = worker_new
    table.worker_free = worker_free
    table.bound = bound
    table.encode = encode
    table.decode = decode
    table.decode_first = decode_first
    return wrap_table(table)
