"""What the first-party plugins share when they offer the table of `zv_codec.h`: capsule, version, error texts."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free

from zvcore.codecs.abi cimport ZV_CODEC_CAPSULE, ZV_CODEC_MINOR, ZV_FLAG_DETERMINISTIC, zv_codec, zv_error


cdef inline int32_t fail(zv_error *err, int32_t status, int32_t lib_code, const char *text) noexcept nogil:
    """Fill in the error that the caller will read, and return the status."""
    if err != NULL and err.struct_size >= sizeof(zv_error):
        err.lib_code = lib_code
        snprintf(err.msg, sizeof(err.msg), b"%s", text)
    return status


cdef inline bytes library_name(const char *name, const char *version):
    """For `lib_version`: the library that is loaded, which may differ from the headers. Keep the object alive."""
    return name + b" " + version


cdef inline zv_codec *new_table(const char *name, const char *lib_version, size_t config_size) except NULL:
    """A table with room for its configuration behind it (`cfg` points there), all zero; for `wrap_table`."""
    cdef zv_codec *table = <zv_codec *> calloc(1, sizeof(zv_codec) + config_size)
    if table == NULL:
        raise MemoryError
    table.struct_size = sizeof(zv_codec)
    table.minor = ZV_CODEC_MINOR
    table.name = name
    table.lib_version = lib_version
    table.flags = ZV_FLAG_DETERMINISTIC
    table.cfg = <const void *> (table + 1)
    return table


cdef inline void free_table(object capsule) noexcept:
    free(PyCapsule_GetPointer(capsule, ZV_CODEC_CAPSULE))


cdef inline object wrap_table(zv_codec *table):
    """The capsule; from here on it owns the table."""
    try:
        return PyCapsule_New(table, ZV_CODEC_CAPSULE, free_table)
    except BaseException:
        free(table)
        raise
