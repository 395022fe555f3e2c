"""The C tables of filters: what numcodecs does to the items of a chunk, done to its bytes."""

from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memcpy

from zvcore.codecs.abi cimport ZV_CORRUPT, ZV_OK, ZV_PARAM, ZV_SIZE_UNKNOWN, ZV_SPACE, zv_codec, zv_error
from zvcore.codecs.capsule cimport fail, new_table, wrap_table


cdef extern from "zv_filters.h" nogil:
    int ZV_I8, ZV_U8, ZV_I16, ZV_U16, ZV_I32, ZV_U32, ZV_I64, ZV_U64, ZV_F32, ZV_F64
    ctypedef void (*zv_loop)(const uint8_t *source, size_t count, uint8_t *target) noexcept nogil
    ctypedef void (*zv_scaling)(const uint8_t *source, size_t count, double scale, double offset,
                                uint8_t *target) noexcept nogil
    ctypedef void (*zv_quantization)(const uint8_t *source, size_t count, double scale, uint8_t *target) noexcept nogil
    ctypedef int (*zv_subtraction)(const uint8_t *source, size_t count, uint8_t *target) noexcept nogil
    zv_subtraction zv_delta_encoder(int items, int stored)
    zv_loop zv_delta_decoder(int items, int stored)
    void zv_row_sums(uint8_t *items, size_t count, size_t size, size_t samples)
    void zv_row_differences(uint8_t *items, size_t count, size_t size, size_t samples)
    void zv_turn(const uint8_t *source, size_t count, size_t size, uint8_t *target)
    void zv_shuffle(const uint8_t *source, size_t n, size_t size, uint8_t *target)
    void zv_unshuffle(const uint8_t *source, size_t n, size_t size, uint8_t *target)
    void zv_pack_bits(const uint8_t *source, size_t count, uint8_t *target)
    void zv_unpack_bits(const uint8_t *source, size_t count, uint8_t *target)
    void zv_round_bits_uint16_t(const uint8_t *source, size_t count, int dropped, uint8_t *target)
    void zv_round_bits_uint32_t(const uint8_t *source, size_t count, int dropped, uint8_t *target)
    void zv_round_bits_uint64_t(const uint8_t *source, size_t count, int dropped, uint8_t *target)
    zv_scaling zv_scaled[2][10]
    zv_scaling zv_unscaled[2][10]
    zv_scaling zv_stretched[2]
    zv_quantization zv_quantized[2][2]
    zv_loop zv_floats[2][2]
    zv_loop zv_cast(int origin, int to)


cdef struct Filter              # below

# What a filter does to `count` items. Returns whether data is lost that numcodecs would lose in silence.
ctypedef int (*Work)(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil

cdef struct Filter:
    Work encoding
    Work decoding
    int items                   # the type of the items
    int stored                  # the type in which they are stored
    uint64_t item_size
    uint64_t stored_size
    uint64_t element            # how many bytes shuffle takes apart
    int dropped                 # bits, by bitround
    bint turned                 # whether items, and what is stored of them, have the other byte order
    double scale
    double offset
    uint64_t row                # items of a row, by horizontal_difference
    uint64_t samples            # items of a pixel


# By their names in numpy.
TYPES = {
    "int8": ZV_I8, "uint8": ZV_U8, "int16": ZV_I16, "uint16": ZV_U16, "int32": ZV_I32, "uint32": ZV_U32,
    "int64": ZV_I64, "uint64": ZV_U64, "float32": ZV_F32, "float64": ZV_F64,
}


# -- filters that turn each item into one of another size, or of the same

cdef int32_t each_item(Work work, const Filter *it, const uint8_t *src, uint64_t n, uint64_t size, uint64_t into,
                       uint8_t *dst, uint64_t cap, uint64_t *out_n, zv_error *err) noexcept nogil:
    """Items of `size` bytes become items of `into` bytes."""
    out_n[0] = 0
    if n % size:
        return fail(err, ZV_CORRUPT, 0, b"the bytes are not a whole number of items")
    if n // size > ZV_SIZE_UNKNOWN // 16:
        return fail(err, ZV_PARAM, 0, b"too many items")
    out_n[0] = n // size * into
    if cap < out_n[0]:
        return ZV_SPACE
    if n and work(it, src, n // size, dst):
        if it.items >= ZV_F32:
            return fail(err, ZV_PARAM, 0,
                        b"behind a NaN, an infinity or too large a difference, differences give back other values")
        return fail(err, ZV_PARAM, 0, b"items differ by more than the stored type can hold")
    return ZV_OK


cdef int32_t encode_items(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                          uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Filter *it = <const Filter *> cfg
    return each_item(it.encoding, it, src, n, it.item_size, it.stored_size, dst, cap, out_n, err)


cdef int32_t decode_items(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                          uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Filter *it = <const Filter *> cfg
    return each_item(it.decoding, it, src, n, it.stored_size, it.item_size, dst, cap, out_n, err)


cdef uint64_t bound_of_items(const void *cfg, uint64_t n) noexcept nogil:
    cdef const Filter *it = <const Filter *> cfg
    return n // it.item_size * it.stored_size if n < ZV_SIZE_UNKNOWN // 16 else ZV_SIZE_UNKNOWN


cdef uint64_t hint_of_items(const void *cfg, const uint8_t *src, uint64_t n) noexcept nogil:
    cdef const Filter *it = <const Filter *> cfg
    return n // it.stored_size * it.item_size if n < ZV_SIZE_UNKNOWN // 16 else ZV_SIZE_UNKNOWN


cdef zv_codec *table_of(const char *name, int items, int stored, uint64_t size, uint64_t stored_size, Work encoding,
                        Work decoding) except NULL:
    cdef zv_codec *table = new_table(name, b"zvcore", sizeof(Filter))
    cdef Filter *it = <Filter *> table.cfg
    it.items = items
    it.stored = stored
    it.encoding = encoding
    it.decoding = decoding
    it.item_size = size
    it.stored_size = stored_size
    table.bound = bound_of_items
    table.decoded_hint = hint_of_items
    table.encode = encode_items
    table.decode = decode_items
    return table


# -- delta

cdef int differences(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    if not it.turned:
        return zv_delta_encoder(it.items, it.stored)(source, count, target)
    zv_turn(source, count, it.item_size, target)
    cdef int lost = zv_delta_encoder(it.items, it.stored)(target, count, target)
    zv_turn(target, count, it.item_size, target)
    return lost


cdef int sums(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    if it.turned:
        zv_turn(source, count, it.item_size, target)
        source = target
    zv_delta_decoder(it.items, it.stored)(source, count, target)
    if it.turned:
        zv_turn(target, count, it.item_size, target)
    return 0


def delta_table(str items, str stored, size, stored_size, bint turned):
    cdef zv_codec *table = table_of(b"delta", TYPES[items], TYPES[stored], size, stored_size, differences, sums)
    (<Filter *> table.cfg).turned = turned
    return wrap_table(table)


# -- horizontal_difference

cdef void each_row(const Filter *it, const uint8_t *source, size_t count, uint8_t *target, bint summing) noexcept nogil:
    cdef size_t first = 0, length
    if it.turned:
        zv_turn(source, count, it.item_size, target)
    else:
        memcpy(target, source, count * it.item_size)
    while first < count:
        length = min(it.row, count - first)
        if summing:
            zv_row_sums(target + first * it.item_size, length, it.item_size, it.samples)
        else:
            zv_row_differences(target + first * it.item_size, length, it.item_size, it.samples)
        first += length
    if it.turned:
        zv_turn(target, count, it.item_size, target)


cdef int row_differences(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    each_row(it, source, count, target, False)
    return 0


cdef int row_sums(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    each_row(it, source, count, target, True)
    return 0


def horizontal_table(size, uint64_t row, uint64_t samples, bint turned):
    cdef zv_codec *table = table_of(b"horizontal_difference", ZV_U8, ZV_U8, size, size, row_differences, row_sums)
    cdef Filter *it = <Filter *> table.cfg
    it.row = row
    it.samples = samples
    it.turned = turned
    return wrap_table(table)


# -- astype

cdef int cast_to(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    zv_cast(it.items, it.stored)(source, count, target)
    return 0


cdef int cast_back(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    zv_cast(it.stored, it.items)(source, count, target)
    return 0


def casting_table(str items, str stored, size, stored_size):
    return wrap_table(table_of(b"astype", TYPES[items], TYPES[stored], size, stored_size, cast_to, cast_back))


# -- fixedscaleoffset

cdef int scaled(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    zv_scaled[it.items - ZV_F32][it.stored](source, count, it.scale, it.offset, target)
    return 0


cdef int unscaled(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    zv_unscaled[it.items - ZV_F32][it.stored](source, count, it.scale, it.offset, target)
    return 0


def scaling_table(str items, str stored, size, stored_size, double scale, double offset):
    cdef zv_codec *table = table_of(b"fixedscaleoffset", TYPES[items], TYPES[stored], size, stored_size, scaled,
                                    unscaled)
    (<Filter *> table.cfg).scale = scale
    (<Filter *> table.cfg).offset = offset
    return wrap_table(table)


# -- scale_offset

cdef int stretched(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    zv_stretched[it.items - ZV_F32](source, count, it.scale, it.offset, target)
    return 0


def stretching_table(str items, size, double scale, double offset):
    cdef zv_codec *table = table_of(b"scale_offset", TYPES[items], TYPES[items], size, size, stretched, unscaled)
    (<Filter *> table.cfg).scale = scale
    (<Filter *> table.cfg).offset = offset
    return wrap_table(table)


# -- quantize

cdef int quantized(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    zv_quantized[it.items - ZV_F32][it.stored - ZV_F32](source, count, it.scale, target)
    return 0


cdef int as_floats(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    zv_floats[it.stored - ZV_F32][it.items - ZV_F32](source, count, target)
    return 0


def quantizing_table(str items, str stored, size, stored_size, double scale):
    cdef zv_codec *table = table_of(b"quantize", TYPES[items], TYPES[stored], size, stored_size, quantized, as_floats)
    (<Filter *> table.cfg).scale = scale
    return wrap_table(table)


# -- bitround

cdef int rounded(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    if it.dropped == 0:
        return as_they_are(it, source, count, target)
    if it.item_size == 2:
        zv_round_bits_uint16_t(source, count, it.dropped, target)
    elif it.item_size == 4:
        zv_round_bits_uint32_t(source, count, it.dropped, target)
    else:
        zv_round_bits_uint64_t(source, count, it.dropped, target)
    return 0


cdef int as_they_are(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    memcpy(target, source, count * it.item_size)
    return 0


def rounding_table(size, int dropped):
    cdef zv_codec *table = table_of(b"bitround", 0, 0, size, size, rounded, as_they_are)
    (<Filter *> table.cfg).dropped = dropped
    return wrap_table(table)


# -- shuffle: of bytes, as the last element need not be whole

cdef int shuffled(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    zv_shuffle(source, count, it.element, target)
    return 0


cdef int unshuffled(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    zv_unshuffle(source, count, it.element, target)
    return 0


def shuffle_table(size):
    cdef zv_codec *table = table_of(b"shuffle", 0, 0, 1, 1, shuffled, unshuffled)
    (<Filter *> table.cfg).element = size
    return wrap_table(table)


# -- packbits: a byte in front says how many bits of the last byte are unused

cdef uint64_t bound_of_bits(const void *cfg, uint64_t n) noexcept nogil:
    return 1 + n // 8 + (n % 8 != 0)


cdef uint64_t hint_of_bits(const void *cfg, const uint8_t *src, uint64_t n) noexcept nogil:
    if n < 2 or n > ZV_SIZE_UNKNOWN // 16 or src[0] > 7:
        return ZV_SIZE_UNKNOWN
    return 8 * (n - 1) - src[0]


cdef int32_t encode_bits(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                         uint64_t *out_n, zv_error *err) noexcept nogil:
    out_n[0] = bound_of_bits(cfg, n)
    if cap < out_n[0]:
        return ZV_SPACE
    dst[0] = <uint8_t> ((8 - n % 8) % 8)
    if n:
        zv_pack_bits(src, n, dst + 1)
    return ZV_OK


cdef int32_t decode_bits(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                         uint64_t *out_n, zv_error *err) noexcept nogil:
    out_n[0] = 0
    if n == 0 or src[0] > (7 if n > 1 else 0):
        return fail(err, ZV_CORRUPT, 0, b"packed bits must begin with the number of unused bits")
    if n > ZV_SIZE_UNKNOWN // 16:
        return fail(err, ZV_PARAM, 0, b"too many bits")
    out_n[0] = 8 * (n - 1) - src[0]
    if cap < out_n[0]:
        return ZV_SPACE
    if out_n[0]:
        zv_unpack_bits(src + 1, out_n[0], dst)
    return ZV_OK


def bits_table():
    cdef zv_codec *table = new_table(b"packbits", b"zvcore", 0)
    table.bound = bound_of_bits
    table.decoded_hint = hint_of_bits
    table.encode = encode_bits
    table.decode = decode_bits
    return wrap_table(table)
