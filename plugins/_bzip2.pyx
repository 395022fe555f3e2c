"""The C table of the bzip2 codec, over libbz2."""

from libc.stdint cimport UINT32_MAX, int32_t, uint8_t, uint64_t
from libc.string cimport memset

from zvcore.codecs.abi cimport (
    ZV_CORRUPT,
    ZV_INTERNAL,
    ZV_NOMEM,
    ZV_OK,
    ZV_SPACE,
    zv_codec,
    zv_error,
)
from zvcore.codecs.capsule cimport fail, library_name, new_table, wrap_table


cdef extern from "bzlib.h" nogil:
    ctypedef struct bz_stream:
        char *next_in
        unsigned int avail_in
        char *next_out
        unsigned int avail_out
    int BZ_OK
    int BZ_RUN
    int BZ_FINISH
    int BZ_RUN_OK
    int BZ_FINISH_OK
    int BZ_STREAM_END
    int BZ_MEM_ERROR
    int BZ_DATA_ERROR
    int BZ_DATA_ERROR_MAGIC
    const char *BZ2_bzlibVersion()
    int BZ2_bzCompressInit(bz_stream *stream, int block_size, int verbosity, int work_factor)
    int BZ2_bzCompress(bz_stream *stream, int action)
    int BZ2_bzCompressEnd(bz_stream *stream)
    int BZ2_bzDecompressInit(bz_stream *stream, int verbosity, int small)
    int BZ2_bzDecompress(bz_stream *stream)
    int BZ2_bzDecompressEnd(bz_stream *stream)


cdef struct Config:
    int block_size


cdef unsigned int piece(uint64_t n) noexcept nogil:
    """libbz2 counts in 32 bits."""
    return <unsigned int> (n if n < UINT32_MAX else UINT32_MAX)


cdef uint64_t bound(const void *cfg, uint64_t n) noexcept nogil:
    # As the library's manual says: one percent larger than the data, plus 600 bytes.
    return n + n // 100 + 601


cdef int32_t encode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef bz_stream stream
    cdef uint64_t done = 0, written = 0
    cdef unsigned int given, room
    cdef int code
    out_n[0] = 0
    memset(&stream, 0, sizeof(stream))
    code = BZ2_bzCompressInit(&stream, (<const Config *> cfg).block_size, 0, 0)
    if code != BZ_OK:
        return explain(code, err)
    code = BZ_FINISH_OK
    while code == BZ_RUN_OK or code == BZ_FINISH_OK:
        if written == cap:
            BZ2_bzCompressEnd(&stream)
            return fail(err, ZV_SPACE, 0, b"no room for the stream")
        given = piece(n - done)
        room = piece(cap - written)
        stream.next_in = <char *> src + done
        stream.avail_in = given
        stream.next_out = <char *> dst + written
        stream.avail_out = room
        code = BZ2_bzCompress(&stream, BZ_FINISH if given == n - done else BZ_RUN)
        done += given - stream.avail_in
        written += room - stream.avail_out
    BZ2_bzCompressEnd(&stream)
    if code != BZ_STREAM_END:
        return explain(code, err)
    out_n[0] = written
    return ZV_OK


cdef int32_t decode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    """Streams that follow each other are one, as for the bzip2 program."""
    cdef uint64_t done = 0, written = 0
    cdef int32_t status = ZV_OK
    out_n[0] = 0
    if n == 0:
        return fail(err, ZV_CORRUPT, 0, b"the stream ends early")
    while done < n and status == ZV_OK:
        status = decode_stream(src, n, &done, dst, cap, &written, err)
    if status == ZV_OK:
        out_n[0] = written
    return status


cdef int32_t decode_stream(const uint8_t *src, uint64_t n, uint64_t *done, uint8_t *dst, uint64_t cap,
                           uint64_t *written, zv_error *err) noexcept nogil:
    cdef bz_stream stream
    cdef char surplus
    cdef unsigned int given, room
    cdef int code
    memset(&stream, 0, sizeof(stream))
    code = BZ2_bzDecompressInit(&stream, 0, 0)
    if code != BZ_OK:
        return explain(code, err)
    while code == BZ_OK:
        given = piece(n - done[0])
        room = piece(cap - written[0])
        stream.next_in = <char *> src + done[0]
        stream.avail_in = given
        stream.next_out = <char *> dst + written[0]
        stream.avail_out = room
        if room == 0:
            # The end of the stream may still have to be read; one byte more would be too many.
            stream.next_out = &surplus
            stream.avail_out = 1
        code = BZ2_bzDecompress(&stream)
        done[0] += given - stream.avail_in
        if room == 0:
            if stream.avail_out == 0:
                BZ2_bzDecompressEnd(&stream)
                return fail(err, ZV_SPACE, 0, b"more data than expected")
        else:
            written[0] += room - stream.avail_out
        if code == BZ_OK and done[0] == n and stream.avail_out != 0:
            BZ2_bzDecompressEnd(&stream)
            return fail(err, ZV_CORRUPT, 0, b"the stream ends early")
    BZ2_bzDecompressEnd(&stream)
    return ZV_OK if code == BZ_STREAM_END else explain(code, err)


cdef int32_t explain(int code, zv_error *err) noexcept nogil:
    if code == BZ_DATA_ERROR_MAGIC:
        return fail(err, ZV_CORRUPT, code, b"not a bzip2 stream, or something else after one")
    if code == BZ_DATA_ERROR:
        return fail(err, ZV_CORRUPT, code, b"damaged data")
    if code == BZ_MEM_ERROR:
        return fail(err, ZV_NOMEM, code, b"out of memory")
    return fail(err, ZV_INTERNAL, code, b"unexpected result from libbz2")


cdef bytes LIBRARY = library_name(b"libbz2", BZ2_bzlibVersion())


def codec_table(int block_size):
    """A capsule with the C table for these parameters, which the caller has checked."""
    cdef zv_codec *table = new_table(b"bzip2", LIBRARY, sizeof(Config))
    (<Config *> table.cfg).block_size = block_size
    table.bound = bound
    table.encode = encode
    table.decode = decode
    return wrap_table(table)
