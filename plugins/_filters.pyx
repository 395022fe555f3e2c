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
    ctypedef int (*zv_subtraction)(const uint8_t *source, size_t count, uint8_t *target) noexcept nogil
    zv_subtraction zv_delta_encoder(int items, int stored)
    zv_loop zv_delta_decoder(int items, int stored)
    void zv_shuffle(const uint8_t *source, size_t n, size_t size, uint8_t *target)
    void zv_unshuffle(const uint8_t *source, size_t n, size_t size, uint8_t *target)
    void zv_pack_bits(const uint8_t *source, size_t count, uint8_t *target)
    void zv_unpack_bits(const uint8_t *source, size_t count, uint8_t *target)
    void zv_round_bits_uint16_t(const uint8_t *source, size_t count, int dropped, uint8_t *target)
    void zv_round_bits_uint32_t(const uint8_t *source, size_t count, int dropped, uint8_t *target)
    void zv_round_bits_uint64_t(const uint8_t *source, size_t count, int dropped, uint8_t *target)
    zv_scaling zv_scaled[2][10]
    zv_scaling zv_unscaled[2][10]
    void zv_quantized_float_float(const uint8_t *source, size_t count, double scale, uint8_t *target)
    void zv_quantized_float_double(const uint8_t *source, size_t count, double scale, uint8_t *target)
    void zv_quantized_double_float(const uint8_t *source, size_t count, double scale, uint8_t *target)
    void zv_quantized_double_double(const uint8_t *source, size_t count, double scale, uint8_t *target)
    void zv_float_of_double(const uint8_t *source, size_t count, uint8_t *target)
    void zv_double_of_float(const uint8_t *source, size_t count, uint8_t *target)


cdef struct Filter:
    int items                   # the type of the items
    int stored                  # and of what is stored for them
    uint64_t item_size
    uint64_t stored_size
    int dropped                 # bits, by bitround
    double scale
    double offset


# Returns whether something is lost that numcodecs would lose in silence.
ctypedef int (*Work)(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil


# By their names in numpy.
TYPES = {
    "int8": ZV_I8, "uint8": ZV_U8, "int16": ZV_I16, "uint16": ZV_U16, "int32": ZV_I32, "uint32": ZV_U32,
    "int64": ZV_I64, "uint64": ZV_U64, "float32": ZV_F32, "float64": ZV_F64,
}


cdef int32_t each_item(Work work, const Filter *it, const uint8_t *src, uint64_t n, uint64_t size, uint64_t into,
                       uint8_t *dst, uint64_t cap, uint64_t *out_n, zv_error *err) noexcept nogil:
    """For filters that turn each item of `size` bytes into one of `into` bytes."""
    out_n[0] = 0
    if n % size:
        return fail(err, ZV_CORRUPT, 0, b"the bytes are no whole number of items")
    if n // size > ZV_SIZE_UNKNOWN // 16:
        return fail(err, ZV_PARAM, 0, b"too many items")
    out_n[0] = n // size * into
    if cap < out_n[0]:
        return ZV_SPACE
    if n and work(it, src, n // size, dst):
        return fail(err, ZV_PARAM, 0, b"items differ by more than what is stored of them can say")
    return ZV_OK


cdef uint64_t bound_of_items(const void *cfg, uint64_t n) noexcept nogil:
    cdef const Filter *it = <const Filter *> cfg
    return n // it.item_size * it.stored_size + it.stored_size if n < ZV_SIZE_UNKNOWN // 16 else ZV_SIZE_UNKNOWN


cdef uint64_t hint_of_items(const void *cfg, const uint8_t *src, uint64_t n) noexcept nogil:
    cdef const Filter *it = <const Filter *> cfg
    return n // it.stored_size * it.item_size if n < ZV_SIZE_UNKNOWN // 16 else ZV_SIZE_UNKNOWN


# -- delta

cdef int differences(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    return zv_delta_encoder(it.items, it.stored)(source, count, target)


cdef int sums(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    zv_delta_decoder(it.items, it.stored)(source, count, target)
    return 0


cdef int32_t encode_delta(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                          uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Filter *it = <const Filter *> cfg
    return each_item(differences, it, src, n, it.item_size, it.stored_size, dst, cap, out_n, err)


cdef int32_t decode_delta(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                          uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Filter *it = <const Filter *> cfg
    return each_item(sums, it, src, n, it.stored_size, it.item_size, dst, cap, out_n, err)


# -- fixedscaleoffset

cdef int scaled(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    zv_scaled[it.items - ZV_F32][it.stored](source, count, it.scale, it.offset, target)
    return 0


cdef int unscaled(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    zv_unscaled[it.items - ZV_F32][it.stored](source, count, it.scale, it.offset, target)
    return 0


cdef int32_t encode_scaled(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                           uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Filter *it = <const Filter *> cfg
    return each_item(scaled, it, src, n, it.item_size, it.stored_size, dst, cap, out_n, err)


cdef int32_t decode_scaled(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                           uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Filter *it = <const Filter *> cfg
    return each_item(unscaled, it, src, n, it.stored_size, it.item_size, dst, cap, out_n, err)


# -- quantize

cdef int quantized(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    if it.items == ZV_F32 and it.stored == ZV_F32:
        zv_quantized_float_float(source, count, it.scale, target)
    elif it.items == ZV_F32:
        zv_quantized_float_double(source, count, it.scale, target)
    elif it.stored == ZV_F32:
        zv_quantized_double_float(source, count, it.scale, target)
    else:
        zv_quantized_double_double(source, count, it.scale, target)
    return 0


cdef int as_they_are(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    if it.items == it.stored:
        memcpy(target, source, count * it.item_size)
    elif it.items == ZV_F32:
        zv_float_of_double(source, count, target)
    else:
        zv_double_of_float(source, count, target)
    return 0


cdef int32_t encode_quantized(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                              uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Filter *it = <const Filter *> cfg
    return each_item(quantized, it, src, n, it.item_size, it.stored_size, dst, cap, out_n, err)


cdef int32_t decode_quantized(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                              uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Filter *it = <const Filter *> cfg
    return each_item(as_they_are, it, src, n, it.stored_size, it.item_size, dst, cap, out_n, err)


# -- bitround

cdef int rounded(const Filter *it, const uint8_t *source, size_t count, uint8_t *target) noexcept nogil:
    if it.dropped == 0:
        memcpy(target, source, count * it.item_size)
    elif it.item_size == 2:
        zv_round_bits_uint16_t(source, count, it.dropped, target)
    elif it.item_size == 4:
        zv_round_bits_uint32_t(source, count, it.dropped, target)
    else:
        zv_round_bits_uint64_t(source, count, it.dropped, target)
    return 0


cdef int32_t encode_rounded(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                            uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const Filter *it = <const Filter *> cfg
    return each_item(rounded, it, src, n, it.item_size, it.stored_size, dst, cap, out_n, err)


# -- shuffle

cdef uint64_t as_many(const void *cfg, uint64_t n) noexcept nogil:
    return n


cdef uint64_t as_many_decoded(const void *cfg, const uint8_t *src, uint64_t n) noexcept nogil:
    return n


cdef int32_t encode_shuffled(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                             uint64_t *out_n, zv_error *err) noexcept nogil:
    out_n[0] = n
    if cap < n:
        return ZV_SPACE
    if n:
        zv_shuffle(src, n, (<const Filter *> cfg).item_size, dst)
    return ZV_OK


cdef int32_t decode_shuffled(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                             uint64_t *out_n, zv_error *err) noexcept nogil:
    out_n[0] = n
    if cap < n:
        return ZV_SPACE
    if n:
        zv_unshuffle(src, n, (<const Filter *> cfg).item_size, dst)
    return ZV_OK


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
        return fail(err, ZV_CORRUPT, 0, b"packed bits begin with the number of bits that stand for nothing")
    if n > ZV_SIZE_UNKNOWN // 16:
        return fail(err, ZV_PARAM, 0, b"too many bits")
    out_n[0] = 8 * (n - 1) - src[0]
    if cap < out_n[0]:
        return ZV_SPACE
    if out_n[0]:
        zv_unpack_bits(src + 1, out_n[0], dst)
    return ZV_OK


# -- tables

cdef zv_codec *table_of(const char *name, str items, str stored, uint64_t size, uint64_t stored_size) except NULL:
    cdef zv_codec *table = new_table(name, b"zvcore", sizeof(Filter))
    cdef Filter *it = <Filter *> table.cfg
    it.items = TYPES.get(items, -1)
    it.stored = TYPES.get(stored, -1)
    it.item_size = size
    it.stored_size = stored_size
    table.bound = bound_of_items
    table.decoded_hint = hint_of_items
    return table


def delta_table(str items, str stored, size, stored_size):
    cdef zv_codec *table = table_of(b"delta", items, stored, size, stored_size)
    table.encode = encode_delta
    table.decode = decode_delta
    return wrap_table(table)


def scaling_table(str items, str stored, size, stored_size, double scale, double offset):
    cdef zv_codec *table = table_of(b"fixedscaleoffset", items, stored, size, stored_size)
    (<Filter *> table.cfg).scale = scale
    (<Filter *> table.cfg).offset = offset
    table.encode = encode_scaled
    table.decode = decode_scaled
    return wrap_table(table)


def quantizing_table(str items, str stored, size, stored_size, double scale):
    cdef zv_codec *table = table_of(b"quantize", items, stored, size, stored_size)
    (<Filter *> table.cfg).scale = scale
    table.encode = encode_quantized
    table.decode = decode_quantized
    return wrap_table(table)


def rounding_table(size, int dropped):
    cdef zv_codec *table = table_of(b"bitround", "", "", size, size)
    (<Filter *> table.cfg).dropped = dropped
    (<Filter *> table.cfg).items = (<Filter *> table.cfg).stored = 0
    table.encode = encode_rounded
    table.decode = decode_quantized
    return wrap_table(table)


def shuffle_table(size):
    cdef zv_codec *table = table_of(b"shuffle", "", "", size, size)
    table.bound = as_many
    table.decoded_hint = as_many_decoded
    table.encode = encode_shuffled
    table.decode = decode_shuffled
    return wrap_table(table)


def bits_table():
    cdef zv_codec *table = table_of(b"packbits", "", "", 1, 1)
    table.bound = bound_of_bits
    table.decoded_hint = hint_of_bits
    table.encode = encode_bits
    table.decode = decode_bits
    return wrap_table(table)
