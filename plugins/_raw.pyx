"""The C table of the raw codec: a copy."""

from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memcpy

from zvcore.codecs.abi cimport ZV_OK, ZV_SPACE, zv_codec, zv_error
from zvcore.codecs.capsule cimport new_table, wrap_table


cdef uint64_t bound(const void *cfg, uint64_t n) noexcept nogil:
    return n


cdef uint64_t decoded_hint(const void *cfg, const uint8_t *src, uint64_t n) noexcept nogil:
    return n


cdef int32_t copy(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                  uint64_t *out_n, zv_error *err) noexcept nogil:
    out_n[0] = n
    if n > cap:
        return ZV_SPACE
    if n:
        memcpy(dst, src, n)
    return ZV_OK


def codec_table():
    """A capsule with the C table."""
    cdef zv_codec *table = new_table(b"raw", b"", 0)
    table.bound = bound
    table.decoded_hint = decoded_hint
    table.encode = copy
    table.decode = copy
    return wrap_table(table)
