"""The C table of the codec that makes PNG pictures of chunks, over the table of one that makes zlib streams.

It reads what may hold a chunk, as libpng does: grey and coloured pixels of 8 and 16 bits, interlaced or not. Damage in
pieces that are for decoration, and whatever follows the pixels, is passed over.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

from zvcore.codecs.abi cimport (
    ZV_CHECKSUM, ZV_CODEC_CAPSULE, ZV_CORRUPT, ZV_NOMEM, ZV_OK, ZV_PARAM, ZV_SPACE, zv_codec, zv_error,
)
from zvcore.codecs.capsule cimport fail, new_table
from zvcore.kernels.crc32 cimport crc32_of
from zvcore.kernels.png_filters cimport choose_filter, undo_filter


cdef enum:
    HEADER_END = 33         # of the signature and the first piece
    AROUND = 12             # bytes of each piece besides its content
    LARGEST_SIDE = 0x7FFFFFFF
    MOST_INFLATED = 1032    # bytes that DEFLATE makes of one
    MOST_KEPT = 4 << 20     # bytes of memory that wait for the next picture
    GRAY = 0
    RGB = 2
    PALETTE = 3
    GRAY_ALPHA = 4
    RGB_ALPHA = 6
    PASSES = 7


cdef struct Config:
    uint64_t width, height, pixels      # of the pictures that are written; others have as many pixels
    int channels
    int itemsize
    const zv_codec *zlib
    PyObject *owner                     # of that table


cdef struct Memory:
    uint8_t *data
    uint64_t size


cdef struct Worker:
    const zv_codec *codec               # of `zlib`
    void *zlib
    Memory stream                       # of several pieces, one after the other
    Memory lines                        # with their filters


cdef struct Picture:
    uint64_t width, height
    int channels
    int depth
    bint palette
    bint interlaced
    const uint8_t *stream
    uint64_t stream_size


# The lines of one pass of an interlaced picture, or of all of one that is not.
cdef struct Pass:
    uint64_t x, y, dx, dy, width, height


cdef uint8_t *take(Memory *memory, uint64_t size) noexcept nogil:
    if memory.size < size or memory.data == NULL:
        free(memory.data)
        memory.data = <uint8_t *> malloc(size + 1)
        memory.size = size if memory.data != NULL else 0
    return memory.data


cdef void let_go(Memory *memory, uint64_t most) noexcept nogil:
    if memory.size > most:
        free(memory.data)
        memory.data = NULL
        memory.size = 0


cdef void *worker_new(const void *cfg) noexcept nogil:
    cdef const zv_codec *codec = (<const Config *> cfg).zlib
    cdef Worker *own = <Worker *> calloc(1, sizeof(Worker))
    if own == NULL:
        return NULL
    own.codec = codec
    if codec.worker_new != NULL:
        own.zlib = codec.worker_new(codec.cfg)
        if own.zlib == NULL:
            free(own)
            return NULL
    return own


cdef void worker_free(void *worker) noexcept nogil:
    cdef Worker *own = <Worker *> worker
    if own.zlib != NULL:
        own.codec.worker_free(own.zlib)
    free(own.stream.data)
    free(own.lines.data)
    free(own)


cdef inline uint32_t number_at(const uint8_t *at) noexcept nogil:
    return <uint32_t> at[0] << 24 | <uint32_t> at[1] << 16 | <uint32_t> at[2] << 8 | <uint32_t> at[3]


cdef inline void put_number(uint8_t *at, uint32_t number) noexcept nogil:
    at[0] = <uint8_t> (number >> 24)
    at[1] = <uint8_t> (number >> 16)
    at[2] = <uint8_t> (number >> 8)
    at[3] = <uint8_t> number


# --- reading


cdef int32_t wrong_sum(const uint8_t *piece, zv_error *err) noexcept nogil:
    cdef char text[80]
    snprintf(text, sizeof(text), b"the checksum of the picture's piece %.4s does not match", <const char *> (piece + 4))
    return fail(err, ZV_CHECKSUM, 0, text)


cdef inline bint is_sound(const uint8_t *piece, uint64_t length) noexcept nogil:
    return crc32_of(piece + 4, 4 + length) == number_at(piece + 8 + length)


cdef int32_t open_header(const uint8_t *src, uint64_t n, Picture *picture, zv_error *err) noexcept nogil:
    cdef int kind
    if n < HEADER_END or memcmp(src, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16) != 0:
        return fail(err, ZV_CORRUPT, 0, b"not a PNG picture")
    if not is_sound(src + 8, 13):
        return wrong_sum(src + 8, err)
    picture.width = number_at(src + 16)
    picture.height = number_at(src + 20)
    picture.depth = src[24]
    kind = src[25]
    picture.palette = kind == PALETTE
    picture.channels = 3 if kind == RGB else 2 if kind == GRAY_ALPHA else 4 if kind == RGB_ALPHA else 1
    picture.interlaced = src[28] == 1
    if (kind not in (GRAY, RGB, PALETTE, GRAY_ALPHA, RGB_ALPHA) or src[26] or src[27] or src[28] > 1
            or not 0 < picture.width <= LARGEST_SIDE or not 0 < picture.height <= LARGEST_SIDE):
        return fail(err, ZV_CORRUPT, 0, b"the header is none that a PNG picture may have")
    return ZV_OK


cdef int32_t find_pixels(const uint8_t *src, uint64_t n, uint64_t *at, zv_error *err) noexcept nogil:
    """Where the first piece of pixels begins."""
    cdef uint64_t length
    cdef const uint8_t *piece
    at[0] = HEADER_END
    while n - at[0] >= AROUND:
        piece = src + at[0]
        length = number_at(piece)
        if length > n - at[0] - AROUND:
            break
        if memcmp(piece + 4, b"IDAT", 4) == 0:
            return ZV_OK
        if memcmp(piece + 4, b"tRNS", 4) == 0:
            return fail(err, ZV_CORRUPT, 0, b"the picture has a colour that is transparent, which no chunk has")
        if memcmp(piece + 4, b"PLTE", 4) != 0 and not piece[4] & 32:
            return fail(err, ZV_CORRUPT, 0, b"the picture has no pixels before a piece that is not known")
        at[0] += AROUND + length
    return fail(err, ZV_CORRUPT, 0, b"the picture ends before its pixels begin")


cdef int32_t open_picture(Worker *own, const uint8_t *src, uint64_t n, Picture *picture,
                          zv_error *err) noexcept nogil:
    """The header, and the pieces of pixels as one stream, the checksums of both looked at."""
    cdef uint64_t at = 0, first, length, size = 0, pieces = 0
    cdef uint8_t *into
    cdef int32_t status = open_header(src, n, picture, err)
    if status == ZV_OK:
        status = find_pixels(src, n, &at, err)
    if status != ZV_OK:
        return status
    first = at
    while n - at >= AROUND and memcmp(src + at + 4, b"IDAT", 4) == 0:
        length = number_at(src + at)
        if length > n - at - AROUND:
            return fail(err, ZV_CORRUPT, 0, b"the picture ends within its pixels")
        if not is_sound(src + at, length):
            return wrong_sum(src + at, err)
        size += length
        pieces += 1
        at += AROUND + length
    picture.stream = src + first + 8
    picture.stream_size = size
    if pieces == 1:
        return ZV_OK
    into = take(&own.stream, size)
    if into == NULL:
        return ZV_NOMEM
    picture.stream = into
    at = first
    while pieces:
        length = number_at(src + at)
        memcpy(into, src + at + 8, length)
        into += length
        at += AROUND + length
        pieces -= 1
    return ZV_OK


cdef int32_t check_picture(const Config *config, const Picture *picture, zv_error *err) noexcept nogil:
    """Whether it is one of this chunk."""
    cdef char text[200]
    if picture.palette or picture.depth != 8 * config.itemsize:
        snprintf(text, sizeof(text), b"the picture has another kind of pixel: expected %d bits without a palette, "
                 b"found %d bits%s", 8 * config.itemsize, picture.depth, b" of a palette" if picture.palette else b"")
        return fail(err, ZV_CORRUPT, 0, text)
    if picture.width * picture.height != config.pixels or picture.channels != config.channels:
        snprintf(text, sizeof(text), b"the picture is not one of this chunk: expected %llu pixels of %d channels, "
                 b"found %llu x %llu of %d", <unsigned long long> config.pixels, config.channels,
                 <unsigned long long> picture.width, <unsigned long long> picture.height, picture.channels)
        return fail(err, ZV_CORRUPT, 0, text)
    return ZV_OK


cdef Pass pass_of(const Picture *picture, int number) noexcept nogil:
    """Number -1 is all of a picture that is not interlaced."""
    cdef Pass found = Pass(0, 0, 1, 1, picture.width, picture.height)
    if number < 0:
        return found
    found.x = 4 if number == 1 else 2 if number == 3 else 1 if number == 5 else 0
    found.y = 4 if number == 2 else 2 if number == 4 else 1 if number == 6 else 0
    found.dx = 8 if number < 2 else 4 if number < 4 else 2 if number < 6 else 1
    found.dy = 8 if number < 3 else 4 if number < 5 else 2
    found.width = (picture.width + found.dx - 1 - found.x) // found.dx if picture.width > found.x else 0
    found.height = (picture.height + found.dy - 1 - found.y) // found.dy if picture.height > found.y else 0
    if found.width == 0:
        found.height = 0
    return found


cdef uint64_t bytes_of_lines(const Picture *picture, uint64_t distance) noexcept nogil:
    cdef Pass part = pass_of(picture, -1)
    cdef uint64_t total = 0
    cdef int number
    if not picture.interlaced:
        return part.height * (1 + part.width * distance)
    for number in range(PASSES):
        part = pass_of(picture, number)
        total += part.height * (1 + part.width * distance)
    return total


cdef void spread(const Config *config, const uint8_t *line, uint64_t count, uint64_t at, uint64_t step,
                 uint8_t *dst) noexcept nogil:
    """The pixels of a line to their places among the voxels: each channel for itself, the low byte first."""
    cdef uint64_t i, channel, channels = config.channels
    cdef uint8_t *to
    cdef const uint8_t *pixel
    for channel in range(channels):
        to = dst + (channel * config.pixels + at) * config.itemsize
        if config.itemsize == 1:
            pixel = line + channel
            for i in range(count):
                to[i * step] = pixel[i * channels]
        else:
            pixel = line + 2 * channel
            for i in range(count):
                to[2 * i * step] = pixel[2 * i * channels + 1]
                to[2 * i * step + 1] = pixel[2 * i * channels]


cdef int32_t undo_pass(const Config *config, const Picture *picture, const Pass *part, uint8_t **lines,
                       uint8_t *dst, zv_error *err) noexcept nogil:
    cdef size_t distance = config.channels * config.itemsize
    cdef size_t length = part.width * distance
    cdef uint64_t row, at
    cdef uint8_t *line
    cdef const uint8_t *above = NULL
    # Bytes that lie as they do in the picture need no second place.
    cdef bint direct = distance == 1 and part.dx == 1
    for row in range(part.height):
        at = (part.y + row * part.dy) * picture.width + part.x
        line = dst + at if direct else lines[0] + 1
        if undo_filter(lines[0][0], lines[0] + 1, above, line, length, distance) != 0:
            return fail(err, ZV_CORRUPT, 0, b"a line of the picture has a filter that PNG has none of")
        if not direct:
            spread(config, line, part.width, at, part.dx, dst)
        above = line
        lines[0] += 1 + length
    return ZV_OK


cdef int32_t undo_lines(const Config *config, const Picture *picture, uint8_t *lines, uint8_t *dst,
                        zv_error *err) noexcept nogil:
    cdef Pass part
    cdef int number
    cdef int32_t status = ZV_OK
    if not picture.interlaced:
        part = pass_of(picture, -1)
        return undo_pass(config, picture, &part, &lines, dst, err)
    for number in range(PASSES):
        part = pass_of(picture, number)
        status = undo_pass(config, picture, &part, &lines, dst, err)
        if status != ZV_OK:
            break
    return status


cdef int32_t inflate(const Config *config, Worker *own, const Picture *picture, uint64_t size,
                     zv_error *err) noexcept nogil:
    cdef uint64_t found = 0
    cdef int32_t status
    # Before memory is taken for what the header alone says.
    if size // MOST_INFLATED > picture.stream_size:
        return fail(err, ZV_CORRUPT, 0, b"the picture has fewer pixels than its header says")
    if take(&own.lines, size) == NULL:
        return ZV_NOMEM
    status = config.zlib.decode(config.zlib.cfg, own.zlib, picture.stream, picture.stream_size, own.lines.data, size,
                                &found, err)
    if status == ZV_SPACE:
        return fail(err, ZV_CORRUPT, 0, b"the picture has more pixels than its header says")
    if status == ZV_OK and found != size:
        return fail(err, ZV_CORRUPT, 0, b"the picture has fewer pixels than its header says")
    return status


cdef int32_t decode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Config *config = <const Config *> cfg
    cdef Worker *own = <Worker *> worker
    cdef Picture picture
    cdef uint64_t distance = config.channels * config.itemsize
    cdef uint64_t size = config.pixels * distance
    cdef int32_t status = open_picture(own, src, n, &picture, err)
    out_n[0] = 0
    if status == ZV_OK:
        status = check_picture(config, &picture, err)
    if status == ZV_OK and cap < size:
        out_n[0] = size
        status = ZV_SPACE
    if status == ZV_OK:
        status = inflate(config, own, &picture, bytes_of_lines(&picture, distance), err)
    if status == ZV_OK:
        status = undo_lines(config, &picture, own.lines.data, dst, err)
    if status == ZV_OK:
        out_n[0] = size
    let_go(&own.stream, MOST_KEPT)
    let_go(&own.lines, MOST_KEPT)
    return status


# --- writing


cdef void gather(const Config *config, const uint8_t *src, uint64_t at, uint8_t *line) noexcept nogil:
    """The voxels from `at` on as the pixels of a line."""
    cdef uint64_t i, channel, channels = config.channels
    cdef const uint8_t *voxel
    for channel in range(channels):
        voxel = src + (channel * config.pixels + at) * config.itemsize
        if config.itemsize == 1:
            for i in range(config.width):
                line[i * channels + channel] = voxel[i]
        else:
            for i in range(config.width):
                line[2 * (i * channels + channel)] = voxel[2 * i + 1]
                line[2 * (i * channels + channel) + 1] = voxel[2 * i]


cdef uint64_t bytes_to_deflate(const Config *config) noexcept nogil:
    return config.height * (1 + config.width * config.channels * config.itemsize)


cdef int32_t filter_lines(const Config *config, Worker *own, const uint8_t *src) noexcept nogil:
    cdef size_t distance = config.channels * config.itemsize
    cdef size_t length = config.width * distance
    cdef uint8_t *to
    cdef uint8_t *spare
    cdef uint8_t *line
    cdef const uint8_t *above = NULL
    cdef uint64_t row
    if take(&own.lines, bytes_to_deflate(config)) == NULL or take(&own.stream, 3 * length) == NULL:
        return ZV_NOMEM
    to = own.lines.data
    spare = own.stream.data + 2 * length
    for row in range(config.height):
        if distance == 1:
            line = <uint8_t *> src + row * config.width
        else:
            line = own.stream.data + row % 2 * length
            gather(config, src, row * config.width, line)
        choose_filter(line, above, to, spare, length, distance)
        above = line
        to += 1 + length
    return ZV_OK


cdef uint8_t *end_piece(uint8_t *piece, uint64_t length) noexcept nogil:
    """Where the next one begins, once the kind and the content of this one are there."""
    put_number(piece, <uint32_t> length)
    put_number(piece + 8 + length, crc32_of(piece + 4, 4 + length))
    return piece + AROUND + length


cdef uint64_t bound(const void *cfg, uint64_t n) noexcept nogil:
    cdef const Config *config = <const Config *> cfg
    return config.zlib.bound(config.zlib.cfg, n + config.height) + HEADER_END + 2 * AROUND


cdef int32_t encode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Config *config = <const Config *> cfg
    cdef Worker *own = <Worker *> worker
    cdef uint8_t *at = dst
    cdef uint64_t found = 0
    cdef int32_t status
    out_n[0] = 0
    if n != config.pixels * config.channels * config.itemsize:
        return fail(err, ZV_PARAM, 0, b"the chunk has another shape than its codec")
    if cap < bound(cfg, n):
        out_n[0] = bound(cfg, n)
        return ZV_SPACE
    memcpy(at, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16)
    put_number(at + 16, <uint32_t> config.width)
    put_number(at + 20, <uint32_t> config.height)
    at[24] = 8 * config.itemsize
    at[25] = (GRAY if config.channels == 1 else GRAY_ALPHA if config.channels == 2 else RGB if config.channels == 3
              else RGB_ALPHA)
    at[26] = at[27] = at[28] = 0
    at = end_piece(at + 8, 13)
    status = filter_lines(config, own, src)
    if status == ZV_OK:
        status = config.zlib.encode(config.zlib.cfg, own.zlib, own.lines.data, bytes_to_deflate(config), at + 8,
                                    cap - HEADER_END - 2 * AROUND, &found, err)
    let_go(&own.stream, MOST_KEPT)
    let_go(&own.lines, MOST_KEPT)
    if status != ZV_OK:
        return status
    memcpy(at + 4, b"IDAT", 4)
    at = end_piece(at, found)
    memcpy(at + 4, b"IEND", 4)
    out_n[0] = end_piece(at, 0) - dst
    return ZV_OK


# --- the table


cdef void free_table(object capsule) noexcept:
    cdef zv_codec *table = <zv_codec *> PyCapsule_GetPointer(capsule, ZV_CODEC_CAPSULE)
    Py_DECREF(<object> (<const Config *> table.cfg).owner)
    free(table)


def codec_table(tuple shape not None, int itemsize, zlib not None):
    """A capsule for chunks of this shape (x, y, z, channels), which the caller has checked; `zlib` is the capsule of a
    codec whose streams are those of zlib.
    """
    cdef const zv_codec *inner = <const zv_codec *> PyCapsule_GetPointer(zlib, ZV_CODEC_CAPSULE)
    cdef zv_codec *table = new_table(b"png", inner.lib_version, sizeof(Config))
    cdef Config *config = <Config *> table.cfg
    try:
        config.width = shape[0]
        config.height = shape[1] * shape[2]
        config.pixels = config.width * config.height
        config.channels = shape[3]
        config.itemsize = itemsize
        config.zlib = inner
        config.owner = <PyObject *> zlib
        table.worker_new = worker_new
        table.worker_free = worker_free
        table.bound = bound
        table.encode = encode
        table.decode = decode
        Py_INCREF(zlib)
        return PyCapsule_New(table, ZV_CODEC_CAPSULE, free_table)
    except BaseException:
        free(table)
        raise
