"""The C table of the raw codec: a copy."""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memcpy

from zvcore.codecs.abi cimport (
    ZV_CODEC_CAPSULE,
    ZV_CODEC_MINOR,
    ZV_FLAG_DETERMINISTIC,
    ZV_OK,
    ZV_SPACE,
    zv_codec,
    zv_error,
)


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


# Nothing can be configured, so all codecs share one table, which lives as long as the module's code.
cdef zv_codec table
table.struct_size = sizeof(zv_codec)
table.minor = ZV_CODEC_MINOR
table.name = b"raw"
table.lib_version = b""
table.flags = ZV_FLAG_DETERMINISTIC
table.bound = bound
table.decoded_hint = decoded_hint
table.encode = copy
table.decode = copy


def codec_table():
    """A capsule with the C table."""
    return PyCapsule_New(&table, ZV_CODEC_CAPSULE, NULL)
