"""The C table of the gzip codec, over libdeflate."""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from zvcore.codecs.abi cimport (
    ZV_CHECKSUM,
    ZV_CORRUPT,
    ZV_NOMEM,
    ZV_OK,
    ZV_SIZE_UNKNOWN,
    ZV_SPACE,
    zv_codec,
    zv_error,
)
from zvcore.codecs.capsule cimport fail, library_name, new_table, wrap_table


cdef extern from "libdeflate.h" nogil:
    const char *LIBDEFLATE_VERSION_STRING
    struct libdeflate_compressor:
        pass
    struct libdeflate_decompressor:
        pass
    enum libdeflate_result:
        LIBDEFLATE_SUCCESS
        LIBDEFLATE_BAD_DATA
        LIBDEFLATE_SHORT_OUTPUT
        LIBDEFLATE_INSUFFICIENT_SPACE
    libdeflate_compressor *libdeflate_alloc_compressor(int level)
    void libdeflate_free_compressor(libdeflate_compressor *c)
    size_t libdeflate_gzip_compress(libdeflate_compressor *c, const void *src, size_t n, void *dst, size_t cap)
    size_t libdeflate_gzip_compress_bound(libdeflate_compressor *c, size_t n)
    size_t libdeflate_zlib_compress(libdeflate_compressor *c, const void *src, size_t n, void *dst, size_t cap)
    size_t libdeflate_zlib_compress_bound(libdeflate_compressor *c, size_t n)
    libdeflate_decompressor *libdeflate_alloc_decompressor()
    void libdeflate_free_decompressor(libdeflate_decompressor *d)
    libdeflate_result libdeflate_gzip_decompress_ex(libdeflate_decompressor *d, const void *src, size_t n, void *dst,
                                                    size_t cap, size_t *used, size_t *written)
    libdeflate_result libdeflate_zlib_decompress_ex(libdeflate_decompressor *d, const void *src, size_t n, void *dst,
                                                    size_t cap, size_t *used, size_t *written)
    uint32_t libdeflate_crc32(uint32_t crc, const void *data, size_t n)
    uint32_t libdeflate_adler32(uint32_t adler, const void *data, size_t n)


cdef extern from "zv_small_deflate.h" nogil:
    size_t ZV_SMALL_MOST
    libdeflate_compressor *zv_small_alloc_compressor(int level)
    size_t zv_small_gzip_compress(libdeflate_compressor *c, const void *src, size_t n, void *dst, size_t cap)
    size_t zv_small_zlib_compress(libdeflate_compressor *c, const void *src, size_t n, void *dst, size_t cap)


cdef extern from "zv_two_streams.h" nogil:
    bint zv_knows_two_streams()
    void *zv_alloc_two_streams()
    bint zv_deflate_decompress_two(void *streams, const void **src, const size_t *n, void **dst, const size_t *size)


cdef struct Config:
    int level
    bint zlib
    bint single_member
    bint sniff

cdef struct Worker:
    # Made when first needed: a reader has no use for the compressors' large tables.
    libdeflate_compressor *compressor
    libdeflate_compressor *small    # for at most ZV_SMALL_MOST bytes
    libdeflate_decompressor *decompressor
    void *two_streams


cdef enum:
    GZIP_HEADER = 10        # without the fields that are seldom there
    GZIP_ENDING = 8
    ZLIB_HEADER = 2
    ZLIB_ENDING = 4


cdef void *worker_new(const void *cfg) noexcept nogil:
    return calloc(1, sizeof(Worker))


cdef void worker_free(void *worker) noexcept nogil:
    cdef Worker *own = <Worker *> worker
    # libdeflate takes NULL.
    libdeflate_free_compressor(own.compressor)
    libdeflate_free_compressor(own.small)
    libdeflate_free_decompressor(own.decompressor)
    free(own.two_streams)
    free(own)


cdef inline bint is_gzip(const uint8_t *src, uint64_t n) noexcept nogil:
    return n >= 2 and src[0] == 0x1F and src[1] == 0x8B


cdef inline uint32_t little_endian(const uint8_t *src) noexcept nogil:
    return <uint32_t> src[0] | <uint32_t> src[1] << 8 | <uint32_t> src[2] << 16 | <uint32_t> src[3] << 24


cdef inline uint32_t big_endian(const uint8_t *src) noexcept nogil:
    return <uint32_t> src[3] | <uint32_t> src[2] << 8 | <uint32_t> src[1] << 16 | <uint32_t> src[0] << 24


cdef uint64_t bound(const void *cfg, uint64_t n) noexcept nogil:
    if (<const Config *> cfg).zlib:
        return libdeflate_zlib_compress_bound(NULL, n)
    return libdeflate_gzip_compress_bound(NULL, n)


cdef uint64_t decoded_hint(const void *cfg, const uint8_t *src, uint64_t n) noexcept nogil:
    cdef const Config *config = <const Config *> cfg
    cdef uint64_t size
    if n < GZIP_HEADER + GZIP_ENDING or (config.zlib and not config.sniff) or not is_gzip(src, n):
        return ZV_SIZE_UNKNOWN
    # A gzip member ends with its size modulo 2**32; nearly all streams have one member.
    size = little_endian(src + n - 4)
    # DEFLATE makes at most 1032 bytes of one, so a larger size is wrong: the stream is cut off, or something follows.
    return size if size <= n * 1032 else ZV_SIZE_UNKNOWN


cdef int32_t encode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Config *config = <const Config *> cfg
    cdef Worker *own = <Worker *> worker
    if n <= ZV_SMALL_MOST:
        if own.small == NULL:
            own.small = zv_small_alloc_compressor(config.level)
            if own.small == NULL:
                return ZV_NOMEM
        if config.zlib:
            out_n[0] = zv_small_zlib_compress(own.small, src, n, dst, cap)
        else:
            out_n[0] = zv_small_gzip_compress(own.small, src, n, dst, cap)
    elif own.compressor == NULL:
        own.compressor = libdeflate_alloc_compressor(config.level)
        if own.compressor == NULL:
            return ZV_NOMEM
    if n <= ZV_SMALL_MOST:
        pass
    elif config.zlib:
        out_n[0] = libdeflate_zlib_compress(own.compressor, src, n, dst, cap)
    else:
        out_n[0] = libdeflate_gzip_compress(own.compressor, src, n, dst, cap)
    if out_n[0] == 0:
        out_n[0] = bound(cfg, n)
        return ZV_SPACE
    return ZV_OK


cdef int32_t decode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Config *config = <const Config *> cfg
    cdef Worker *own = <Worker *> worker
    cdef libdeflate_result result
    cdef size_t used, written
    cdef uint64_t total = 0
    cdef bint zlib = config.zlib
    out_n[0] = 0
    if own.decompressor == NULL:
        own.decompressor = libdeflate_alloc_decompressor()
        if own.decompressor == NULL:
            return ZV_NOMEM
    if config.sniff:
        zlib = not is_gzip(src, n)
    while True:
        used = written = 0
        if zlib:
            result = libdeflate_zlib_decompress_ex(own.decompressor, src, n, dst, cap - total, &used, &written)
        else:
            result = libdeflate_gzip_decompress_ex(own.decompressor, src, n, dst, cap - total, &used, &written)
        if result == LIBDEFLATE_INSUFFICIENT_SPACE:
            return ZV_SPACE
        if result != LIBDEFLATE_SUCCESS:
            return fail(err, ZV_CORRUPT, result, b"not a valid zlib stream" if zlib else b"not a valid gzip stream")
        total += written
        # Not `dst += written` before the end is known: dst may be NULL when nothing is written.
        if used == n:
            out_n[0] = total
            return ZV_OK
        src += used
        n -= used
        if written:
            dst += written
        if zlib or config.single_member or not is_gzip(src, n):
            return fail(err, ZV_CORRUPT, 0, b"there are bytes after the end of the stream")


# What lies between the header and the ending of a stream.
cdef struct Deflated:
    const uint8_t *data
    size_t size
    bint zlib
    uint32_t checksum


cdef bint open_stream(const Config *config, const uint8_t *src, uint64_t n, uint64_t size,
                      Deflated *inner) noexcept nogil:
    """Whether it is a stream of one member with a plain header, of this size as far as it says so."""
    inner.zlib = not is_gzip(src, n) if config.sniff else config.zlib
    if inner.zlib:
        if n < ZLIB_HEADER + ZLIB_ENDING or src[0] & 15 != 8 or src[0] >> 4 > 7 or src[1] & 32:
            return False
        if (<uint32_t> src[0] << 8 | src[1]) % 31:
            return False
        inner.data = src + ZLIB_HEADER
        inner.size = n - ZLIB_HEADER - ZLIB_ENDING
        inner.checksum = big_endian(src + n - ZLIB_ENDING)
        return True
    if n < GZIP_HEADER + GZIP_ENDING or not is_gzip(src, n) or src[2] != 8 or src[3]:
        return False
    inner.data = src + GZIP_HEADER
    inner.size = n - GZIP_HEADER - GZIP_ENDING
    inner.checksum = little_endian(src + n - GZIP_ENDING)
    return little_endian(src + n - 4) == <uint32_t> size


cdef int32_t decode_two(const void *cfg, void *worker, const uint8_t *const *src, const uint64_t *n,
                        uint8_t *const *dst, const uint64_t *size) noexcept nogil:
    cdef Worker *own = <Worker *> worker
    cdef Deflated inner
    cdef const void *streams[2]
    cdef void *results[2]
    cdef size_t lengths[2]
    cdef size_t sizes[2]
    cdef uint32_t checksums[2]
    cdef bint zlib[2]
    cdef uint32_t found
    cdef int i
    if own.two_streams == NULL:
        own.two_streams = zv_alloc_two_streams()
        if own.two_streams == NULL:
            return ZV_NOMEM
    for i in range(2):
        if not open_stream(<const Config *> cfg, src[i], n[i], size[i], &inner):
            return ZV_CORRUPT
        streams[i] = inner.data
        lengths[i] = inner.size
        results[i] = dst[i]
        sizes[i] = size[i]
        checksums[i] = inner.checksum
        zlib[i] = inner.zlib
    if not zv_deflate_decompress_two(own.two_streams, streams, lengths, results, sizes):
        return ZV_CORRUPT
    for i in range(2):
        found = libdeflate_adler32(1, dst[i], sizes[i]) if zlib[i] else libdeflate_crc32(0, dst[i], sizes[i])
        if found != checksums[i]:
            return ZV_CHECKSUM
    return ZV_OK


cdef bytes LIBRARY = library_name(b"libdeflate", LIBDEFLATE_VERSION_STRING)


def codec_table(int level, bint zlib, bint single_member, bint sniff):
    """A capsule with the C table for these parameters, which the caller has checked."""
    cdef zv_codec *table = new_table(b"gzip", LIBRARY, sizeof(Config))
    cdef Config *config = <Config *> table.cfg
    config.level = level
    config.zlib = zlib
    config.single_member = single_member
    config.sniff = sniff
    table.worker_new = worker_new
    table.worker_free = worker_free
    table.bound = bound
    table.decoded_hint = decoded_hint
    table.encode = encode
    table.decode = decode
    if zv_knows_two_streams():
        table.decode_two = decode_two
    return wrap_table(table)
