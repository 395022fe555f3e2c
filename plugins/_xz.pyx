"""The C table of the xz codec, over liblzma."""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free

from zvcore.codecs.abi cimport (
    ZV_CORRUPT,
    ZV_INTERNAL,
    ZV_NOMEM,
    ZV_OK,
    ZV_PARAM,
    ZV_SIZE_UNKNOWN,
    ZV_SPACE,
    zv_codec,
    zv_error,
)
from zvcore.codecs.capsule cimport fail, library_name, new_table, wrap_table


cdef extern from "lzma.h" nogil:
    ctypedef struct lzma_allocator:
        pass
    ctypedef struct lzma_index:
        pass
    ctypedef struct lzma_stream:
        const uint8_t *next_in
        size_t avail_in
        uint8_t *next_out
        size_t avail_out
        uint64_t total_out
    ctypedef struct lzma_stream_flags:
        uint64_t backward_size
    ctypedef enum lzma_ret:
        LZMA_OK
        LZMA_STREAM_END
        LZMA_UNSUPPORTED_CHECK
        LZMA_MEM_ERROR
        LZMA_MEMLIMIT_ERROR
        LZMA_FORMAT_ERROR
        LZMA_OPTIONS_ERROR
        LZMA_DATA_ERROR
        LZMA_BUF_ERROR
    ctypedef enum lzma_action:
        LZMA_FINISH
    ctypedef enum lzma_check:
        LZMA_CHECK_CRC64
    const uint32_t LZMA_CONCATENATED
    const uint32_t LZMA_TELL_UNSUPPORTED_CHECK
    const uint32_t LZMA_PRESET_EXTREME
    const size_t LZMA_STREAM_HEADER_SIZE

    const char *lzma_version_string()
    lzma_ret lzma_easy_encoder(lzma_stream *stream, uint32_t preset, lzma_check check)
    lzma_ret lzma_stream_decoder(lzma_stream *stream, uint64_t memory_limit, uint32_t flags)
    lzma_ret lzma_code(lzma_stream *stream, lzma_action action)
    void lzma_end(lzma_stream *stream)
    uint64_t lzma_memusage(const lzma_stream *stream)
    size_t lzma_stream_buffer_bound(size_t n)
    lzma_ret lzma_stream_footer_decode(lzma_stream_flags *flags, const uint8_t *footer)
    lzma_ret lzma_index_buffer_decode(lzma_index **index, uint64_t *memory_limit, const lzma_allocator *allocator,
                                      const uint8_t *src, size_t *position, size_t n)
    uint64_t lzma_index_uncompressed_size(const lzma_index *index)
    uint64_t lzma_index_file_size(const lzma_index *index)
    void lzma_index_end(lzma_index *index, const lzma_allocator *allocator)


cdef struct Config:
    uint32_t preset
    uint64_t memory_limit


cdef struct Worker:
    # liblzma keeps a stream's memory for the next call that uses the stream.
    lzma_stream encoder
    lzma_stream decoder


cdef void *worker_new(const void *cfg) noexcept nogil:
    # Zeros are what LZMA_STREAM_INIT stands for.
    return calloc(1, sizeof(Worker))


cdef void worker_free(void *worker) noexcept nogil:
    cdef Worker *own = <Worker *> worker
    lzma_end(&own.encoder)
    lzma_end(&own.decoder)
    free(own)


cdef int32_t explain(const lzma_stream *stream, lzma_ret code, const Config *config, zv_error *err) noexcept nogil:
    cdef char[160] text
    if code == LZMA_BUF_ERROR:
        return fail(err, ZV_CORRUPT, code, b"the stream ends early")
    if code == LZMA_FORMAT_ERROR:
        return fail(err, ZV_CORRUPT, code, b"not an .xz stream")
    if code == LZMA_DATA_ERROR:
        return fail(err, ZV_CORRUPT, code, b"damaged data")
    if code == LZMA_UNSUPPORTED_CHECK:
        return fail(err, ZV_PARAM, code, b"this liblzma cannot verify the stream's kind of checksum")
    if code == LZMA_OPTIONS_ERROR:
        return fail(err, ZV_PARAM, code, b"this liblzma does not have the stream's filters or options")
    if code == LZMA_MEMLIMIT_ERROR:
        snprintf(text, sizeof(text), b"decoding needs %llu bytes of working memory, more than the limit of %llu",
                 <unsigned long long> lzma_memusage(stream), <unsigned long long> config.memory_limit)
        return fail(err, ZV_PARAM, code, text)
    if code == LZMA_MEM_ERROR:
        return fail(err, ZV_NOMEM, code, b"out of memory")
    return fail(err, ZV_INTERNAL, code, b"unexpected result from liblzma")


cdef uint64_t bound(const void *cfg, uint64_t n) noexcept nogil:
    cdef size_t size = 0 if n > <size_t> -1 else lzma_stream_buffer_bound(<size_t> n)
    if size == 0:
        return ZV_SIZE_UNKNOWN
    # liblzma's own bound is for its one-call encoder. The streaming one, whose headers the others write, cuts
    # data that does not compress into slightly smaller pieces: 3 bytes for each 60 KB instead of each 64.
    return size + n // 65536 + 64


cdef uint64_t decoded_hint(const void *cfg, const uint8_t *src, uint64_t n) noexcept nogil:
    """What the index at the end of a single stream says."""
    cdef lzma_stream_flags flags
    cdef lzma_index *index = NULL
    cdef uint64_t memory_limit = (<const Config *> cfg).memory_limit
    cdef uint64_t size = ZV_SIZE_UNKNOWN
    cdef size_t position = 0
    if n < 2 * LZMA_STREAM_HEADER_SIZE or n > <size_t> -1:
        return ZV_SIZE_UNKNOWN
    if lzma_stream_footer_decode(&flags, src + n - LZMA_STREAM_HEADER_SIZE) != LZMA_OK:
        return ZV_SIZE_UNKNOWN
    if flags.backward_size > n - 2 * LZMA_STREAM_HEADER_SIZE:
        return ZV_SIZE_UNKNOWN
    src += n - LZMA_STREAM_HEADER_SIZE - flags.backward_size
    if lzma_index_buffer_decode(&index, &memory_limit, NULL, src, &position, <size_t> flags.backward_size) != LZMA_OK:
        return ZV_SIZE_UNKNOWN
    if lzma_index_file_size(index) == n:
        size = lzma_index_uncompressed_size(index)
    lzma_index_end(index, NULL)
    return size


cdef int32_t encode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef lzma_stream *stream = &(<Worker *> worker).encoder
    cdef const Config *config = <const Config *> cfg
    cdef lzma_ret code = lzma_easy_encoder(stream, config.preset, LZMA_CHECK_CRC64)
    out_n[0] = 0
    if code == LZMA_OK:
        stream.next_in = src
        stream.avail_in = <size_t> n
        stream.next_out = dst
        stream.avail_out = <size_t> cap
        while code == LZMA_OK and stream.avail_out != 0:
            code = lzma_code(stream, LZMA_FINISH)
        if code == LZMA_STREAM_END:
            out_n[0] = stream.total_out
            return ZV_OK
        if code == LZMA_OK:
            return fail(err, ZV_SPACE, 0, b"no room for the stream")
    return explain(stream, code, config, err)


cdef int32_t decode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef lzma_stream *stream = &(<Worker *> worker).decoder
    cdef const Config *config = <const Config *> cfg
    cdef uint8_t surplus
    cdef lzma_ret code = lzma_stream_decoder(stream, config.memory_limit,
                                             LZMA_CONCATENATED | LZMA_TELL_UNSUPPORTED_CHECK)
    out_n[0] = 0
    if code == LZMA_OK:
        stream.next_in = src
        stream.avail_in = <size_t> n
        stream.next_out = dst
        stream.avail_out = <size_t> cap
        while code == LZMA_OK and stream.total_out <= cap:
            if stream.avail_out == 0:
                # The end of the stream may still have to be read; one byte more would be too many.
                stream.next_out = &surplus
                stream.avail_out = 1
            code = lzma_code(stream, LZMA_FINISH)
        if stream.total_out > cap:
            return fail(err, ZV_SPACE, 0, b"more data than expected")
        if code == LZMA_STREAM_END:
            out_n[0] = stream.total_out
            return ZV_OK
    return explain(stream, code, config, err)


cdef bytes LIBRARY = library_name(b"liblzma", lzma_version_string())


def codec_table(uint32_t preset, bint extreme, uint64_t memory_limit):
    """A capsule with the C table for these parameters, which the caller has checked."""
    cdef zv_codec *table = new_table(b"xz", LIBRARY, sizeof(Config))
    cdef Config *config = <Config *> table.cfg
    config.preset = preset | (LZMA_PRESET_EXTREME if extreme else 0)
    config.memory_limit = memory_limit
    table.worker_new = worker_new
    table.worker_free = worker_free
    table.bound = bound
    table.decoded_hint = decoded_hint
    table.encode = encode
    table.decode = decode
    return wrap_table(table)
