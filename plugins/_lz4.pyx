"""The C table of the lz4 codec, over liblz4 and libxxhash: one kind of compressed block in four framings."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset, strstr

from zvcore.codecs.abi cimport (
    ZV_CHECKSUM,
    ZV_CORRUPT,
    ZV_NOMEM,
    ZV_OK,
    ZV_PARAM,
    ZV_SIZE_UNKNOWN,
    ZV_SPACE,
    zv_codec,
    zv_error,
)
from zvcore.codecs.capsule cimport fail, library_name, new_table, wrap_table


cdef extern from "lz4.h" nogil:
    const int LZ4_MAX_INPUT_SIZE
    const char *LZ4_versionString()
    int LZ4_compressBound(int n)
    int LZ4_compress_fast(const char *src, char *dst, int n, int cap, int acceleration)
    int LZ4_decompress_safe(const char *src, char *dst, int n, int cap)


cdef extern from "lz4hc.h" nogil:
    int LZ4_sizeofStateHC()
    int LZ4_compress_HC_extStateHC(void *state, const char *src, char *dst, int n, int cap, int level)


cdef extern from "lz4frame.h" nogil:
    ctypedef struct LZ4F_dctx:
        pass
    ctypedef struct LZ4F_frameInfo_t:
        int contentChecksumFlag
        unsigned long long contentSize
    ctypedef struct LZ4F_preferences_t:
        LZ4F_frameInfo_t frameInfo
        int compressionLevel
    ctypedef struct LZ4F_decompressOptions_t:
        unsigned int stableDst
    const unsigned int LZ4F_VERSION
    unsigned int LZ4F_isError(size_t code)
    const char *LZ4F_getErrorName(size_t code)
    size_t LZ4F_compressFrameBound(size_t n, const LZ4F_preferences_t *preferences)
    size_t LZ4F_compressFrame(void *dst, size_t cap, const void *src, size_t n, const LZ4F_preferences_t *preferences)
    size_t LZ4F_createDecompressionContext(LZ4F_dctx **context, unsigned int version)
    size_t LZ4F_freeDecompressionContext(LZ4F_dctx *context)
    void LZ4F_resetDecompressionContext(LZ4F_dctx *context)
    size_t LZ4F_decompress(LZ4F_dctx *context, void *dst, size_t *cap, const void *src, size_t *n,
                           const LZ4F_decompressOptions_t *options)


cdef extern from "xxhash.h" nogil:
    unsigned int XXH_versionNumber()
    uint32_t XXH32(const void *src, size_t n, uint32_t seed)


cdef enum Framing:
    STREAM = 0  # lz4-java's LZ4BlockOutputStream
    FRAME = 1
    SIZED = 2   # u32 size, then a block
    BLOCK = 3


FRAMINGS = {"lz4block": STREAM, "frame": FRAME, "size_prefixed": SIZED, "block": BLOCK}

cdef enum:
    HEADER = 21             # of a block in an LZ4Block stream
    METHOD_RAW = 0x10
    METHOD_LZ4 = 0x20
    FRAME_MAGIC = 0x184D2204
    # No sequence of bytes in an lz4 block stands for more than 255 bytes per byte.
    RATIO = 255

cdef uint32_t SEED = 0x9747B28C
cdef uint32_t CHECKSUM_BITS = 0x0FFFFFFF
cdef const char *MAGIC = b"LZ4Block"
cdef const char *FRAME_BYTES = b"\x04\x22\x4d\x18"


cdef struct Config:
    int framing
    bint sniff
    uint32_t block_size
    uint8_t size_class      # in the token of each block of a stream
    int acceleration
    int level               # 0: the fast compressor, else the high compression one
    bint checksum           # at the end of a frame


cdef struct Worker:
    # Made when first needed.
    void *compressor
    LZ4F_dctx *frame


cdef void *worker_new(const void *cfg) noexcept nogil:
    return calloc(1, sizeof(Worker))


cdef void worker_free(void *worker) noexcept nogil:
    cdef Worker *own = <Worker *> worker
    free(own.compressor)
    # liblz4 takes NULL.
    LZ4F_freeDecompressionContext(own.frame)
    free(own)


cdef inline uint32_t load(const uint8_t *src) noexcept nogil:
    return src[0] | <uint32_t> src[1] << 8 | <uint32_t> src[2] << 16 | <uint32_t> src[3] << 24


cdef inline void store(uint8_t *dst, uint32_t value) noexcept nogil:
    dst[0] = value & 0xFF
    dst[1] = value >> 8 & 0xFF
    dst[2] = value >> 16 & 0xFF
    dst[3] = value >> 24


cdef uint64_t block_size(const uint8_t *src, uint64_t n) noexcept nogil:
    """The size that a block stands for, from its lengths alone; ZV_SIZE_UNKNOWN if it is no block."""
    cdef const uint8_t *end = src + n
    cdef uint64_t size = 0, literals, match, offset
    cdef uint8_t token, more
    while src != end:
        token = src[0]
        src += 1
        literals = token >> 4
        if literals == 15:
            more = 255
            while more == 255:
                if src == end:
                    return ZV_SIZE_UNKNOWN
                more = src[0]
                src += 1
                literals += more
        if literals > <uint64_t> (end - src):
            return ZV_SIZE_UNKNOWN
        src += literals
        size += literals
        if src == end:
            return size
        if end - src < 2:
            return ZV_SIZE_UNKNOWN
        offset = src[0] | <uint64_t> src[1] << 8
        src += 2
        if offset == 0 or offset > size:
            return ZV_SIZE_UNKNOWN
        match = (token & 15) + 4
        if match == 19:
            more = 255
            while more == 255:
                if src == end:
                    return ZV_SIZE_UNKNOWN
                more = src[0]
                src += 1
                match += more
        size += match
    return ZV_SIZE_UNKNOWN


cdef uint64_t stream_size(const uint8_t *src, uint64_t n) noexcept nogil:
    """The size that the headers of an LZ4Block stream declare."""
    cdef uint64_t at = 0, size = 0, packed, length
    while n - at >= HEADER and memcmp(src + at, MAGIC, 8) == 0:
        packed = load(src + at + 9)
        length = load(src + at + 13)
        if length == 0:
            return size
        at += HEADER
        if packed > n - at or length > packed * RATIO:
            return ZV_SIZE_UNKNOWN
        at += packed
        size += length
    return ZV_SIZE_UNKNOWN


cdef uint64_t frame_size(const uint8_t *src, uint64_t n) noexcept nogil:
    """The size that a frame declares in its header."""
    cdef uint64_t size
    if n < 14 or load(src) != FRAME_MAGIC or src[4] >> 6 != 1 or not src[4] & 8:
        return ZV_SIZE_UNKNOWN
    size = load(src + 6) | <uint64_t> load(src + 10) << 32
    return ZV_SIZE_UNKNOWN if size // RATIO > n else size


cdef uint64_t prefix_size(const uint8_t *src, uint64_t n) noexcept nogil:
    cdef uint64_t size
    if n < 5:
        return ZV_SIZE_UNKNOWN
    size = load(src)
    return ZV_SIZE_UNKNOWN if size > (n - 4) * RATIO else size


cdef int recognised(const Config *config, const uint8_t *src, uint64_t n, uint64_t expected) noexcept nogil:
    """How this payload is framed, whatever the parameters say.

    The two magics cannot open a raw block: their first match would reach back before its start. A payload shorter than
    a magic is compared with the beginning of it. A size prefix is believed when it is the expected size, or when what
    follows is a block of just that size.
    """
    cdef uint64_t size
    if not config.sniff:
        return config.framing
    if n == 0:
        return config.framing
    if memcmp(src, MAGIC, <size_t> (n if n < 8 else 8)) == 0:
        return STREAM
    if memcmp(src, FRAME_BYTES, <size_t> (n if n < 4 else 4)) == 0:
        return FRAME
    size = prefix_size(src, n)
    if size != ZV_SIZE_UNKNOWN and (size == expected or block_size(src + 4, n - 4) == size):
        return SIZED
    return BLOCK


cdef uint64_t decoded_hint(const void *cfg, const uint8_t *src, uint64_t n) noexcept nogil:
    cdef int framing = recognised(<const Config *> cfg, src, n, ZV_SIZE_UNKNOWN)
    if framing == STREAM:
        return stream_size(src, n)
    if framing == FRAME:
        return frame_size(src, n)
    if framing == SIZED:
        return prefix_size(src, n)
    # A raw block does not say, and going through its lengths takes half as long as decoding it.
    return ZV_SIZE_UNKNOWN


# -- one block ---------------------------------------------------------------------------------------------------------


cdef int compress(const Config *config, Worker *worker, const uint8_t *src, int n, uint8_t *dst,
                  uint64_t cap) noexcept nogil:
    """The block's size, 0 if there is no room, -1 if there is no memory."""
    cdef int room = <int> (cap if cap < <uint64_t> LZ4_compressBound(n) else LZ4_compressBound(n))
    if config.level == 0:
        return LZ4_compress_fast(<const char *> src, <char *> dst, n, room, config.acceleration)
    if worker.compressor == NULL:
        worker.compressor = malloc(LZ4_sizeofStateHC())
        if worker.compressor == NULL:
            return -1
    return LZ4_compress_HC_extStateHC(worker.compressor, <const char *> src, <char *> dst, n, room, config.level)


cdef int32_t encode_block(const Config *config, Worker *worker, const uint8_t *src, uint64_t n, uint8_t *dst,
                          uint64_t cap, uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef int size
    cdef uint8_t nothing = 0
    if n > <uint64_t> LZ4_MAX_INPUT_SIZE:
        return fail(err, ZV_PARAM, 0, b"one lz4 block holds at most 2113929216 bytes; 'lz4block' and 'frame' hold more")
    out_n[0] = LZ4_compressBound(<int> n)
    if cap == 0:
        return fail(err, ZV_SPACE, 0, b"no room for the block")
    size = compress(config, worker, src if n else &nothing, <int> n, dst, cap)
    if size < 0:
        return fail(err, ZV_NOMEM, 0, b"out of memory")
    if size == 0:
        return fail(err, ZV_SPACE, 0, b"no room for the block")
    out_n[0] = size
    return ZV_OK


cdef int32_t decode_block(const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap, uint64_t *out_n,
                          zv_error *err) noexcept nogil:
    cdef int size
    cdef uint64_t needed
    cdef char nothing = 0
    if n > <uint64_t> LZ4_compressBound(LZ4_MAX_INPUT_SIZE):
        return fail(err, ZV_CORRUPT, 0, b"longer than any lz4 block")
    size = LZ4_decompress_safe(<const char *> src if n else &nothing, <char *> dst if cap else &nothing, <int> n,
                               <int> (cap if cap < LZ4_MAX_INPUT_SIZE else LZ4_MAX_INPUT_SIZE))
    if size >= 0:
        out_n[0] = size
        return ZV_OK
    # liblz4 does not say whether the block or the room was at fault.
    needed = block_size(src, n)
    if needed == ZV_SIZE_UNKNOWN or needed <= cap:
        return fail(err, ZV_CORRUPT, size, b"damaged lz4 block")
    out_n[0] = needed
    return fail(err, ZV_SPACE, size, b"more data than expected")


# -- size-prefixed blocks ----------------------------------------------------------------------------------------------


cdef int32_t encode_sized(const Config *config, Worker *worker, const uint8_t *src, uint64_t n, uint8_t *dst,
                          uint64_t cap, uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef int32_t status = encode_block(config, worker, src, n, dst + 4 if cap > 4 else NULL, cap - 4 if cap > 4 else 0,
                                       out_n, err)
    if status == ZV_OK:
        store(dst, <uint32_t> n)
    if out_n[0]:
        out_n[0] += 4
    return status


cdef int32_t decode_sized(const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap, uint64_t *out_n,
                          zv_error *err) noexcept nogil:
    cdef uint64_t size = prefix_size(src, n)
    cdef int32_t status
    if n < 5:
        return fail(err, ZV_CORRUPT, 0, b"too short for a size and a block")
    if size == ZV_SIZE_UNKNOWN:
        return fail(err, ZV_CORRUPT, 0, b"the declared size is larger than so short a block can be")
    if size > cap:
        out_n[0] = size
        return fail(err, ZV_SPACE, 0, b"more data than expected")
    status = decode_block(src + 4, n - 4, dst, size, out_n, err)
    if status == ZV_SPACE or (status == ZV_OK and out_n[0] != size):
        out_n[0] = 0
        return fail(err, ZV_CORRUPT, 0, b"the block does not have the declared size")
    return status


# -- LZ4Block streams --------------------------------------------------------------------------------------------------


cdef int32_t encode_stream(const Config *config, Worker *worker, const uint8_t *src, uint64_t n, uint8_t *dst,
                           uint64_t cap, uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef uint64_t at = 0, done = 0, room
    cdef uint32_t length, size
    cdef int packed
    while True:
        length = <uint32_t> (n - done if n - done < config.block_size else config.block_size)
        room = cap - at
        if room < HEADER:
            break
        room -= HEADER
        memcpy(dst + at, MAGIC, 8)
        if length == 0:
            dst[at + 8] = METHOD_RAW | config.size_class
            memset(dst + at + 9, 0, 12)
            out_n[0] = at + HEADER
            return ZV_OK
        packed = compress(config, worker, src + done, length, dst + at + HEADER, room) if room else 0
        if packed < 0:
            return fail(err, ZV_NOMEM, 0, b"out of memory")
        if packed == 0 and room < <uint64_t> LZ4_compressBound(length):
            # It is unknown whether lz4 would have made the block smaller, and so which bytes are the right ones.
            break
        if packed == 0 or <uint32_t> packed >= length:
            if room < length:
                break
            memcpy(dst + at + HEADER, src + done, length)
            dst[at + 8] = METHOD_RAW | config.size_class
            size = length
        else:
            dst[at + 8] = METHOD_LZ4 | config.size_class
            size = packed
        store(dst + at + 9, size)
        store(dst + at + 13, length)
        store(dst + at + 17, XXH32(src + done, length, SEED) & CHECKSUM_BITS)
        done += length
        at += HEADER + size
    out_n[0] = bound(config, n)
    return fail(err, ZV_SPACE, 0, b"no room for the stream")


cdef int32_t bad_stream(zv_error *err, int32_t status, uint64_t at, const char *what) noexcept nogil:
    cdef char[160] text
    snprintf(text, sizeof(text), b"LZ4Block stream: block at byte %llu: %s", <unsigned long long> at, what)
    return fail(err, status, 0, text)


cdef int32_t decode_stream(const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap, uint64_t *out_n,
                           zv_error *err) noexcept nogil:
    """One stream; bytes after its end mark are ignored, as lz4-java does."""
    cdef uint64_t at = 0, start, done = 0
    cdef uint32_t packed, length, checksum
    cdef uint8_t method
    while True:
        if n - at < HEADER:
            return bad_stream(err, ZV_CORRUPT, at, b"the stream ends early, without its end mark")
        if memcmp(src + at, MAGIC, 8) != 0:
            return bad_stream(err, ZV_CORRUPT, at, b"wrong magic")
        start = at
        method = src[at + 8] & 0xF0
        packed = load(src + at + 9)
        length = load(src + at + 13)
        checksum = load(src + at + 17)
        if method != METHOD_RAW and method != METHOD_LZ4:
            return bad_stream(err, ZV_CORRUPT, start, b"unknown method")
        if length > <uint32_t> 1 << (10 + (src[at + 8] & 0x0F)) or (length == 0) != (packed == 0):
            return bad_stream(err, ZV_CORRUPT, start, b"impossible lengths")
        if packed > <uint32_t> LZ4_MAX_INPUT_SIZE or (method == METHOD_RAW and length != packed):
            return bad_stream(err, ZV_CORRUPT, start, b"impossible lengths")
        at += HEADER
        if length == 0:
            if checksum != 0:
                return bad_stream(err, ZV_CHECKSUM, start, b"end mark with a checksum")
            out_n[0] = done
            return ZV_OK
        if packed > n - at:
            return bad_stream(err, ZV_CORRUPT, start, b"the stream ends early")
        if length > packed * <uint64_t> RATIO:
            return bad_stream(err, ZV_CORRUPT, start, b"impossible lengths")
        if length > cap - done:
            out_n[0] = stream_size(src, n)
            if out_n[0] == ZV_SIZE_UNKNOWN or out_n[0] <= cap:
                out_n[0] = 0
            return fail(err, ZV_SPACE, 0, b"more data than expected")
        if method == METHOD_RAW:
            memcpy(dst + done, src + at, length)
        elif <int64_t>length != LZ4_decompress_safe(<const char *> src + at, <char *> dst + done, packed, length):
            return bad_stream(err, ZV_CORRUPT, start, b"damaged data")
        if XXH32(dst + done, length, SEED) & CHECKSUM_BITS != checksum:
            return bad_stream(err, ZV_CHECKSUM, start, b"checksum mismatch")
        done += length
        at += packed


# -- frames ------------------------------------------------------------------------------------------------------------


cdef void fill_preferences(const Config *config, uint64_t n, LZ4F_preferences_t *preferences) noexcept nogil:
    memset(preferences, 0, sizeof(LZ4F_preferences_t))
    preferences.frameInfo.contentChecksumFlag = config.checksum
    # Asks for the size to be written; liblz4 takes 0 for unknown.
    preferences.frameInfo.contentSize = n
    preferences.compressionLevel = config.level
    if config.level == 0 and config.acceleration > 1:
        preferences.compressionLevel = 1 - config.acceleration


cdef int32_t bad_frame(size_t code, zv_error *err) noexcept nogil:
    cdef const char *name = LZ4F_getErrorName(code)
    if strstr(name, b"allocation") != NULL:
        return fail(err, ZV_NOMEM, <int32_t> code, b"out of memory")
    return fail(err, ZV_CHECKSUM if strstr(name, b"hecksum") != NULL else ZV_CORRUPT, <int32_t> code, name)


cdef int32_t encode_frame(const Config *config, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                          uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef LZ4F_preferences_t preferences
    cdef size_t size
    fill_preferences(config, n, &preferences)
    if cap < LZ4F_compressFrameBound(<size_t> n, &preferences):
        out_n[0] = LZ4F_compressFrameBound(<size_t> n, &preferences)
        return fail(err, ZV_SPACE, 0, b"no room for the frame")
    size = LZ4F_compressFrame(dst, <size_t> cap, src, <size_t> n, &preferences)
    if LZ4F_isError(size):
        return bad_frame(size, err)
    out_n[0] = size
    return ZV_OK


cdef int32_t decode_frames(Worker *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap, uint64_t *out_n,
                           zv_error *err) noexcept nogil:
    """Frames that follow each other are one, as the format says."""
    cdef LZ4F_decompressOptions_t options
    cdef size_t code, given, room
    cdef uint64_t at = 0, done = 0, declared
    cdef bint outside = True    # between two frames
    cdef uint8_t surplus
    if worker.frame == NULL:
        code = LZ4F_createDecompressionContext(&worker.frame, LZ4F_VERSION)
        if LZ4F_isError(code):
            worker.frame = NULL
            return bad_frame(code, err)
    LZ4F_resetDecompressionContext(worker.frame)
    memset(&options, 0, sizeof(options))
    options.stableDst = 1
    while True:
        if outside:
            if at == n and at != 0:
                out_n[0] = done
                return ZV_OK
            if n - at >= 6 and load(src + at) == FRAME_MAGIC and src[at + 4] & 1:
                return fail(err, ZV_PARAM, 0, b"the frame needs a dictionary")
            declared = frame_size(src + at, n - at)
            if declared != ZV_SIZE_UNKNOWN and declared > cap - done:
                out_n[0] = done + declared
                return fail(err, ZV_SPACE, 0, b"more data than expected")
            outside = False
        given = <size_t> (n - at)
        room = <size_t> (cap - done)
        if room == 0:
            # The end of the frame may still have to be read; one byte more would be too many.
            room = 1
            code = LZ4F_decompress(worker.frame, &surplus, &room, src + at, &given, &options)
            if not LZ4F_isError(code) and room != 0:
                return fail(err, ZV_SPACE, 0, b"more data than expected")
        else:
            code = LZ4F_decompress(worker.frame, dst + done, &room, src + at, &given, &options)
        if LZ4F_isError(code):
            return bad_frame(code, err)
        at += given
        done += room
        if code == 0:
            outside = True
        elif given == 0 and room == 0:
            return fail(err, ZV_CORRUPT, 0, b"the frame ends early")


# -- the table ---------------------------------------------------------------------------------------------------------


cdef uint64_t bound(const void *cfg, uint64_t n) noexcept nogil:
    cdef const Config *config = <const Config *> cfg
    cdef LZ4F_preferences_t preferences
    if config.framing == STREAM:
        # Every block may be stored as it is; lz4's attempt at the last one needs more room than that.
        return (n + (n // config.block_size + 2) * HEADER
                + LZ4_compressBound(<int> config.block_size) - config.block_size)
    if config.framing == FRAME:
        fill_preferences(config, n, &preferences)
        return LZ4F_compressFrameBound(<size_t> n, &preferences)
    if n > <uint64_t> LZ4_MAX_INPUT_SIZE:
        return 0
    return LZ4_compressBound(<int> n) + (4 if config.framing == SIZED else 0)


cdef int32_t encode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Config *config = <const Config *> cfg
    out_n[0] = 0
    if config.framing == STREAM:
        return encode_stream(config, <Worker *> worker, src, n, dst, cap, out_n, err)
    if config.framing == FRAME:
        return encode_frame(config, src, n, dst, cap, out_n, err)
    if config.framing == SIZED:
        return encode_sized(config, <Worker *> worker, src, n, dst, cap, out_n, err)
    return encode_block(config, <Worker *> worker, src, n, dst, cap, out_n, err)


cdef int32_t decode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Config *config = <const Config *> cfg
    cdef int framing = recognised(config, src, n, cap)
    cdef int32_t status = decode_as(framing, <Worker *> worker, src, n, dst, cap, out_n, err)
    if status != ZV_CORRUPT or not config.sniff:
        return status
    if framing == SIZED:
        # A raw block whose first four bytes happen to be the expected size.
        framing = BLOCK
        status = decode_as(framing, <Worker *> worker, src, n, dst, cap, out_n, err)
    if status == ZV_CORRUPT and framing == BLOCK:
        # No program writes such a stream; the error says what it should be.
        return decode_as(config.framing, <Worker *> worker, src, n, dst, cap, out_n, err)
    return status


cdef int32_t decode_as(int framing, Worker *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                       uint64_t *out_n, zv_error *err) noexcept nogil:
    out_n[0] = 0
    if framing == STREAM:
        return decode_stream(src, n, dst, cap, out_n, err)
    if framing == FRAME:
        return decode_frames(worker, src, n, dst, cap, out_n, err)
    if framing == SIZED:
        return decode_sized(src, n, dst, cap, out_n, err)
    return decode_block(src, n, dst, cap, out_n, err)


cdef unsigned int xxhash = XXH_versionNumber()
cdef bytes LIBRARY = library_name(b"liblz4", LZ4_versionString()) + b", " + library_name(
    b"libxxhash", b"%d.%d.%d" % (xxhash // 10000, xxhash // 100 % 100, xxhash % 100))


def codec_table(str framing, bint sniff, uint32_t block_size, int acceleration, int level, bint checksum):
    """A capsule with the C table for these parameters, which the caller has checked."""
    cdef zv_codec *table = new_table(b"lz4", LIBRARY, sizeof(Config))
    cdef Config *config = <Config *> table.cfg
    config.framing = FRAMINGS[framing]
    config.sniff = sniff
    config.block_size = block_size
    # Size classes go by powers of two; the smallest is 1024.
    config.size_class = <uint8_t> max(0, (int(block_size) - 1).bit_length() - 10)
    config.acceleration = acceleration
    config.level = level
    config.checksum = checksum
    table.worker_new = worker_new
    table.worker_free = worker_free
    table.bound = bound
    table.decoded_hint = decoded_hint
    table.encode = encode
    table.decode = decode
    return wrap_table(table)
