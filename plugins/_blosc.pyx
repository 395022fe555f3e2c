"""The C table of the blosc codec, over c-blosc 1.

Only its context calls are used, with one thread of its own: they share nothing between threads.
"""

from libc.limits cimport INT_MAX
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strncpy

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


cdef extern from "blosc.h" nogil:
    const int BLOSC_VERSION_FORMAT
    const int BLOSC_MIN_HEADER_LENGTH
    const int BLOSC_MAX_OVERHEAD
    const int BLOSC_MAX_BUFFERSIZE
    const int BLOSC_MAX_BLOCKSIZE
    const char *blosc_get_version_string()
    int blosc_compname_to_compcode(const char *name)
    int blosc_compress_ctx(int level, int shuffle, size_t typesize, size_t n, const void *src, void *dst, size_t cap,
                           const char *compressor, size_t blocksize, int threads)
    int blosc_decompress_ctx(const void *src, void *dst, size_t cap, int threads)
    int blosc_cbuffer_validate(const void *src, size_t n, size_t *decoded)
    void blosc_cbuffer_sizes(const void *src, size_t *decoded, size_t *encoded, size_t *blocksize)
    const char *blosc_cbuffer_complib(const void *src)
    int blosc_getitem(const void *src, int start, int count, void *dst)


cdef enum:
    LARGEST_SHARED = 4 << 20    # each thread that decodes blocks of a chunk has memory for three


cdef struct Config:
    char cname[16]
    bint available      # whether this c-blosc has the compressor
    int level
    int shuffle
    int typesize
    int blocksize


cdef bint enough_memory(uint64_t blocksize) noexcept nogil:
    """Whether c-blosc will get its scratch memory, a little more than two blocks: it does not check itself."""
    cdef void *probe
    if blocksize <= 1 << 20:
        return True
    probe = malloc(2 * blocksize + 4096)
    free(probe)
    return probe != NULL


cdef uint64_t bound(const void *cfg, uint64_t n) noexcept nogil:
    return n + BLOSC_MAX_OVERHEAD if n <= <uint64_t> BLOSC_MAX_BUFFERSIZE else 0


cdef uint64_t decoded_hint(const void *cfg, const uint8_t *src, uint64_t n) noexcept nogil:
    cdef size_t size
    if n < <uint64_t> BLOSC_MIN_HEADER_LENGTH or n > INT_MAX or blosc_cbuffer_validate(src, <size_t> n, &size) != 0:
        return ZV_SIZE_UNKNOWN
    return size


cdef int32_t encode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Config *config = <const Config *> cfg
    cdef char[160] text
    cdef int size
    out_n[0] = 0
    if n > <uint64_t> BLOSC_MAX_BUFFERSIZE:
        snprintf(text, sizeof(text), b"a blosc chunk holds at most %d bytes, not %llu", BLOSC_MAX_BUFFERSIZE,
                 <unsigned long long> n)
        return fail(err, ZV_PARAM, 0, text)
    if not config.available:
        snprintf(text, sizeof(text), b"this c-blosc was built without the compressor '%s'", config.cname)
        return fail(err, ZV_PARAM, 0, text)
    out_n[0] = bound(cfg, n)
    # c-blosc writes its header and the start of its first block without checking for room.
    if cap < <uint64_t> BLOSC_MIN_HEADER_LENGTH + 4 and cap < out_n[0]:
        return fail(err, ZV_SPACE, 0, b"no room for the chunk")
    if not enough_memory(config.blocksize if <uint64_t> config.blocksize < n else n):
        return fail(err, ZV_NOMEM, 0, b"out of memory")
    # More room than the bound would change the bytes: c-blosc then keeps blocks that compression made larger.
    size = blosc_compress_ctx(config.level, config.shuffle, config.typesize, <size_t> n, src, dst,
                              <size_t> (cap if cap < out_n[0] else out_n[0]), config.cname, config.blocksize, 1)
    if size == 0:
        return fail(err, ZV_SPACE, 0, b"no room for the chunk")
    if size < 0:
        out_n[0] = 0
        return fail(err, ZV_INTERNAL, size, b"unexpected result from c-blosc")
    out_n[0] = size
    return ZV_OK


cdef enum:
    # Of the flags in a header's third byte.
    STORED = 0x02           # not compressed
    OF_THE_FUTURE = 0x08    # c-blosc takes no chunk that has it


cdef uint64_t plain_at(const void *cfg, const uint8_t *src, uint64_t n, uint64_t size) noexcept nogil:
    """Where c-blosc put what it could not make smaller. All that it checks before it copies that is checked here."""
    cdef size_t decoded, encoded, blocksize
    if (n < <uint64_t> BLOSC_MIN_HEADER_LENGTH or src[0] != BLOSC_VERSION_FORMAT or not src[2] & STORED
            or src[2] & OF_THE_FUTURE or src[3] == 0 or blosc_cbuffer_validate(src, <size_t> n, &decoded) != 0):
        return ZV_SIZE_UNKNOWN
    # `encoded` is n, as it was validated, and a size of 31 bits: nothing here wraps.
    blosc_cbuffer_sizes(src, &decoded, &encoded, &blocksize)
    if (decoded == 0 or decoded != size or encoded != decoded + BLOSC_MAX_OVERHEAD or blocksize == 0
            or blocksize > decoded or blocksize > <size_t> BLOSC_MAX_BLOCKSIZE):
        return ZV_SIZE_UNKNOWN
    return BLOSC_MAX_OVERHEAD


cdef int32_t decode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef char[160] text
    cdef const char *compressor
    cdef size_t decoded, encoded, blocksize
    cdef int size
    out_n[0] = 0
    if n < <uint64_t> BLOSC_MIN_HEADER_LENGTH:
        return fail(err, ZV_CORRUPT, 0, b"too short for a blosc header")
    if src[0] != BLOSC_VERSION_FORMAT:
        snprintf(text, sizeof(text), b"not a blosc chunk of format %d, which c-blosc 1 reads, but of %d%s",
                 BLOSC_VERSION_FORMAT, <int> src[0],
                 <const char *> b" (blosc2)" if BLOSC_VERSION_FORMAT < src[0] < 8 else <const char *> b"")
        return fail(err, ZV_CORRUPT, 0, text)
    # Negative sizes come out as huge ones.
    blosc_cbuffer_sizes(src, &decoded, &encoded, &blocksize)
    if encoded != n:
        snprintf(text, sizeof(text), b"the header says %d bytes, but there are %llu", <int> encoded,
                 <unsigned long long> n)
        return fail(err, ZV_CORRUPT, 0, text)
    if blosc_cbuffer_validate(src, <size_t> n, &decoded) != 0:
        return fail(err, ZV_CORRUPT, 0, b"impossible sizes in the header")
    if decoded > cap:
        out_n[0] = decoded
        return fail(err, ZV_SPACE, 0, b"more data than expected")
    if decoded == 0:
        return ZV_OK
    if blocksize == 0 or blocksize > decoded:
        return fail(err, ZV_CORRUPT, 0, b"impossible block size in the header")
    if plain_at(cfg, src, n, decoded) != ZV_SIZE_UNKNOWN:
        # c-blosc would copy it block by block.
        memcpy(dst, src + BLOSC_MAX_OVERHEAD, decoded)
        out_n[0] = decoded
        return ZV_OK
    if not enough_memory(blocksize):
        return fail(err, ZV_NOMEM, 0, b"out of memory")
    # Given no more than the declared size, so that its check of the block size means something.
    size = blosc_decompress_ctx(src, dst, decoded, 1)
    # Fewer bytes than declared come from blocks that do not divide into items; what they left out was never written.
    if size >= 0 and <size_t> size == decoded:
        out_n[0] = decoded
        return ZV_OK
    if size == -5:
        compressor = blosc_cbuffer_complib(src)
        snprintf(text, sizeof(text), b"this c-blosc was built without the compressor of the chunk, %s",
                 compressor if compressor != NULL else <const char *> b"which is unknown")
        return fail(err, ZV_PARAM, size, text)
    return fail(err, ZV_CORRUPT, size if size < 0 else 0, b"damaged chunk")


cdef uint64_t part_size(const void *cfg, const uint8_t *src, uint64_t n, uint64_t size) noexcept nogil:
    """A block's size: where blocks are compressed, there are several, and each holds whole items. Others have gaps, or
    ends that cannot be asked for, as c-blosc takes numbers of items.
    """
    cdef size_t decoded, encoded, blocksize
    if (n < <uint64_t> BLOSC_MIN_HEADER_LENGTH or src[0] != BLOSC_VERSION_FORMAT or src[2] & (STORED | OF_THE_FUTURE)
            or src[3] == 0 or blosc_cbuffer_validate(src, <size_t> n, &decoded) != 0 or decoded != size):
        return 0
    blosc_cbuffer_sizes(src, &decoded, &encoded, &blocksize)
    if blocksize == 0 or blocksize >= decoded or blocksize % src[3] or decoded % src[3]:
        return 0
    return blocksize if blocksize <= LARGEST_SHARED and enough_memory(2 * blocksize) else 0


cdef int32_t decode_part(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint64_t begin, uint8_t *dst,
                         uint64_t size) noexcept nogil:
    # The sizes are those that `part_size` has seen: all of them fit.
    if blosc_getitem(src, <int> (begin // src[3]), <int> (size // src[3]), dst) != <int> size:
        return ZV_CORRUPT
    return ZV_OK


cdef bytes LIBRARY = library_name(b"c-blosc", blosc_get_version_string())


def codec_table(str cname, int level, int shuffle, int typesize, int blocksize):
    """A capsule with the C table for these parameters, which the caller has checked."""
    cdef zv_codec *table = new_table(b"blosc", LIBRARY, sizeof(Config))
    cdef Config *config = <Config *> table.cfg
    strncpy(config.cname, cname.encode(), sizeof(config.cname) - 1)
    config.available = blosc_compname_to_compcode(config.cname) >= 0
    config.level = level
    config.shuffle = shuffle
    config.typesize = typesize
    config.blocksize = blocksize
    table.bound = bound
    table.decoded_hint = decoded_hint
    table.encode = encode
    table.decode = decode
    table.part_size = part_size
    table.decode_part = decode_part
    table.plain_at = plain_at
    return wrap_table(table)
