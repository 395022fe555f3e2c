"""The C table of the zstd codec, over libzstd."""

from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free

from zvcore.codecs.abi cimport (
    ZV_CHECKSUM,
    ZV_CORRUPT,
    ZV_INTERNAL,
    ZV_NOMEM,
    ZV_OK,
    ZV_SIZE_UNKNOWN,
    ZV_SPACE,
    zv_codec,
    zv_error,
)
from zvcore.codecs.capsule cimport fail, library_name, new_table, wrap_table


cdef extern from "zstd.h" nogil:
    struct ZSTD_CCtx_s:
        pass
    struct ZSTD_DCtx_s:
        pass
    int ZSTD_c_compressionLevel
    int ZSTD_c_checksumFlag
    unsigned long long ZSTD_CONTENTSIZE_UNKNOWN
    unsigned long long ZSTD_CONTENTSIZE_ERROR
    const char *ZSTD_versionString()
    const char *ZSTD_getErrorName(size_t code)
    unsigned ZSTD_isError(size_t code)
    size_t ZSTD_compressBound(size_t n)
    ZSTD_CCtx_s *ZSTD_createCCtx()
    size_t ZSTD_freeCCtx(ZSTD_CCtx_s *context)
    int ZSTD_reset_session_only
    size_t ZSTD_CCtx_reset(ZSTD_CCtx_s *context, int what)
    size_t ZSTD_CCtx_setParameter(ZSTD_CCtx_s *context, int parameter, int value)
    size_t ZSTD_compress2(ZSTD_CCtx_s *context, void *dst, size_t cap, const void *src, size_t n)
    ZSTD_DCtx_s *ZSTD_createDCtx()
    size_t ZSTD_freeDCtx(ZSTD_DCtx_s *context)
    size_t ZSTD_decompressDCtx(ZSTD_DCtx_s *context, void *dst, size_t cap, const void *src, size_t n)
    unsigned long long ZSTD_getFrameContentSize(const void *src, size_t n)
    size_t ZSTD_findFrameCompressedSize(const void *src, size_t n)

cdef extern from "zv_two_frames.h" nogil:
    bint ZV_KNOWS_TWO_FRAMES
    bint zv_zstd_decompress_two(ZSTD_DCtx_s **contexts, void **dst, const size_t *size, const void **src,
                                const size_t *n)
    bint ZV_KNOWS_FIRST_BLOCKS
    bint zv_zstd_decompress_first(ZSTD_DCtx_s *context, void *dst, size_t size, size_t first, const void *src, size_t n)

cdef extern from "zstd_errors.h" nogil:
    int ZSTD_getErrorCode(size_t code)
    int ZSTD_error_dstSize_tooSmall
    int ZSTD_error_checksum_wrong
    int ZSTD_error_memory_allocation

cdef enum:
    # ZSTD_c_blockSplitterLevel of zstd 1.5.7, which only the headers for its static library name, and its value for
    # none. Splitting in advance costs a tenth to a quarter of the time, and makes labels of 64 bits 8 % larger.
    BLOCK_SPLITTER = 1017
    NO_SPLITTING = 1

cdef struct Config:
    int level
    int checksum

cdef struct Worker:
    # Made when first needed: a reader has no use for the compressor's large tables.
    ZSTD_CCtx_s *compressor
    ZSTD_DCtx_s *decompressors[2]   # the second for the second of two frames


cdef void *worker_new(const void *cfg) noexcept nogil:
    return calloc(1, sizeof(Worker))


cdef void worker_free(void *worker) noexcept nogil:
    cdef Worker *own = <Worker *> worker
    # libzstd takes NULL.
    ZSTD_freeCCtx(own.compressor)
    ZSTD_freeDCtx(own.decompressors[0])
    ZSTD_freeDCtx(own.decompressors[1])
    free(own)


cdef uint64_t bound(const void *cfg, uint64_t n) noexcept nogil:
    cdef size_t size = ZSTD_compressBound(n)
    # More than libzstd can encode is more than anyone has memory for.
    return ZV_SIZE_UNKNOWN if ZSTD_isError(size) else size


cdef uint64_t decoded_hint(const void *cfg, const uint8_t *src, uint64_t n) noexcept nogil:
    """The sum of what the frames declare, if every one does."""
    cdef unsigned long long size
    cdef uint64_t total = 0
    cdef size_t used
    while True:
        size = ZSTD_getFrameContentSize(src, n)
        if size == ZSTD_CONTENTSIZE_UNKNOWN or size == ZSTD_CONTENTSIZE_ERROR or size > ZV_SIZE_UNKNOWN - 1 - total:
            return ZV_SIZE_UNKNOWN
        total += size
        used = ZSTD_findFrameCompressedSize(src, n)
        if ZSTD_isError(used) or used > n:
            return ZV_SIZE_UNKNOWN
        if used == n:
            return total
        src += used
        n -= used


cdef int32_t failed(size_t result, zv_error *err, int32_t otherwise) noexcept nogil:
    cdef int code = ZSTD_getErrorCode(result)
    return fail(err, ZV_NOMEM if code == ZSTD_error_memory_allocation else otherwise, code, ZSTD_getErrorName(result))


cdef int32_t encode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Config *config = <const Config *> cfg
    cdef Worker *own = <Worker *> worker
    cdef size_t result
    out_n[0] = 0
    if own.compressor == NULL:
        own.compressor = ZSTD_createCCtx()
        if own.compressor == NULL:
            return ZV_NOMEM
        # Other versions return an error for a parameter that they do not know, which changes nothing.
        ZSTD_CCtx_setParameter(own.compressor, BLOCK_SPLITTER, NO_SPLITTING)
    # Parameters outlive a call, so after the first time these are two cheap checks.
    result = ZSTD_CCtx_setParameter(own.compressor, ZSTD_c_compressionLevel, config.level)
    if not ZSTD_isError(result):
        result = ZSTD_CCtx_setParameter(own.compressor, ZSTD_c_checksumFlag, config.checksum)
    if not ZSTD_isError(result):
        result = ZSTD_compress2(own.compressor, dst, cap, src, n)
    if ZSTD_isError(result):
        # It stopped in the middle of a frame and would refuse to begin another.
        ZSTD_CCtx_reset(own.compressor, ZSTD_reset_session_only)
        if ZSTD_getErrorCode(result) == ZSTD_error_dstSize_tooSmall:
            out_n[0] = bound(cfg, n)
            return ZV_SPACE
        return failed(result, err, ZV_INTERNAL)
    out_n[0] = result
    return ZV_OK


cdef bint make_decompressors(Worker *own, int count) noexcept nogil:
    cdef int i
    for i in range(count):
        if own.decompressors[i] == NULL:
            own.decompressors[i] = ZSTD_createDCtx()
        if own.decompressors[i] == NULL:
            return False
    return True


cdef int32_t decode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef Worker *own = <Worker *> worker
    cdef unsigned long long declared
    cdef size_t result
    out_n[0] = 0
    if n == 0:
        # libzstd accepts empty input as zero frames.
        return fail(err, ZV_CORRUPT, 0, b"there is no frame")
    declared = ZSTD_getFrameContentSize(src, n)
    if declared != ZSTD_CONTENTSIZE_UNKNOWN and declared != ZSTD_CONTENTSIZE_ERROR and declared > cap:
        out_n[0] = declared
        return ZV_SPACE
    if not make_decompressors(own, 1):
        return ZV_NOMEM
    # All frames, one after the other; skippable ones are skipped.
    result = ZSTD_decompressDCtx(own.decompressors[0], dst, cap, src, n)
    if not ZSTD_isError(result):
        out_n[0] = result
        return ZV_OK
    if ZSTD_getErrorCode(result) == ZSTD_error_dstSize_tooSmall:
        return ZV_SPACE
    return failed(result, err, ZV_CHECKSUM if ZSTD_getErrorCode(result) == ZSTD_error_checksum_wrong else ZV_CORRUPT)


cdef int32_t decode_two(const void *cfg, void *worker, const uint8_t *const *src, const uint64_t *n,
                        uint8_t *const *dst, const uint64_t *size) noexcept nogil:
    cdef Worker *own = <Worker *> worker
    cdef const void *frames[2]
    cdef void *results[2]
    cdef size_t lengths[2]
    cdef size_t sizes[2]
    cdef int i
    if not make_decompressors(own, 2):
        return ZV_NOMEM
    for i in range(2):
        frames[i] = src[i]
        lengths[i] = n[i]
        results[i] = dst[i]
        sizes[i] = size[i]
    return ZV_OK if zv_zstd_decompress_two(own.decompressors, results, sizes, frames, lengths) else ZV_CORRUPT


cdef int32_t decode_first(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t size,
                          uint64_t first) noexcept nogil:
    cdef Worker *own = <Worker *> worker
    if not make_decompressors(own, 1):
        return ZV_NOMEM
    return ZV_OK if zv_zstd_decompress_first(own.decompressors[0], dst, size, first, src, n) else ZV_CORRUPT


cdef bytes LIBRARY = library_name(b"libzstd", ZSTD_versionString())


def is_one_frame(const uint8_t[::1] data not None, uint64_t size):
    """Whether this is one frame to its end, by the headers of its blocks, which holds so much, if it says."""
    cdef unsigned long long said
    if data.shape[0] < 4 or data[0] != 0x28 or data[1] != 0xB5 or data[2] != 0x2F or data[3] != 0xFD:
        return False
    said = ZSTD_getFrameContentSize(&data[0], data.shape[0])
    if said != ZSTD_CONTENTSIZE_UNKNOWN and said != size:
        return False
    return ZSTD_findFrameCompressedSize(&data[0], data.shape[0]) == <size_t> data.shape[0]


def codec_table(int level, bint checksum):
    """A capsule with the C table for these parameters, which the caller has checked."""
    cdef zv_codec *table = new_table(b"zstd", LIBRARY, sizeof(Config))
    cdef Config *config = <Config *> table.cfg
    config.level = level
    config.checksum = checksum
    table.worker_new = worker_new
    table.worker_free = worker_free
    table.bound = bound
    table.decoded_hint = decoded_hint
    table.encode = encode
    table.decode = decode
    if ZV_KNOWS_TWO_FRAMES:
        table.decode_two = decode_two
    if ZV_KNOWS_FIRST_BLOCKS:
        table.decode_first = decode_first
    return wrap_table(table)
