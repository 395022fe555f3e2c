"""The C table of the crc32c codec, over zvcore's own kernel."""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memcpy

from zvcore.codecs.abi cimport ZV_CHECKSUM, ZV_CORRUPT, ZV_OK, ZV_SIZE_UNKNOWN, ZV_SPACE, zv_codec, zv_error
from zvcore.codecs.capsule cimport fail, new_table, wrap_table
from zvcore.kernels.crc32c cimport crc32c_of

cdef enum:
    CHECKSUM_SIZE = 4


cdef void put(uint8_t *at, uint32_t value) noexcept nogil:
    """Little-endian, whatever the machine is."""
    at[0] = <uint8_t> value
    at[1] = <uint8_t> (value >> 8)
    at[2] = <uint8_t> (value >> 16)
    at[3] = <uint8_t> (value >> 24)


cdef uint64_t bound(const void *cfg, uint64_t n) noexcept nogil:
    return n + CHECKSUM_SIZE


cdef uint64_t decoded_hint(const void *cfg, const uint8_t *src, uint64_t n) noexcept nogil:
    return n - CHECKSUM_SIZE if n >= CHECKSUM_SIZE else ZV_SIZE_UNKNOWN


cdef int32_t encode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    out_n[0] = n + CHECKSUM_SIZE
    if cap < out_n[0]:
        return ZV_SPACE
    if n:
        memcpy(dst, src, n)
    put(dst + n, crc32c_of(src, n, 0))
    return ZV_OK


cdef int32_t decode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef uint32_t found, stored
    cdef char text[96]
    out_n[0] = 0
    if n < CHECKSUM_SIZE:
        return fail(err, ZV_CORRUPT, 0, b"too short for a checksum of 4 bytes")
    n -= CHECKSUM_SIZE
    if n > cap:
        out_n[0] = n
        return ZV_SPACE
    found = crc32c_of(src, n, 0)
    stored = src[n] | (<uint32_t> src[n + 1] << 8) | (<uint32_t> src[n + 2] << 16) | (<uint32_t> src[n + 3] << 24)
    if found != stored:
        snprintf(text, sizeof(text), b"the checksum does not match: expected %08x, found %08x", stored, found)
        return fail(err, ZV_CHECKSUM, 0, text)
    if n:
        memcpy(dst, src, n)
    out_n[0] = n
    return ZV_OK


def codec_table():
    """A capsule with the C table."""
    cdef zv_codec *table = new_table(b"crc32c", b"zvcore", 0)
    table.bound = bound
    table.decoded_hint = decoded_hint
    table.encode = encode
    table.decode = decode
    return wrap_table(table)
