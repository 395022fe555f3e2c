"""The C table of the codec that packs labels."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free

from zvcore.codecs.abi cimport (
    ZV_CODEC_CAPSULE,
    ZV_CODEC_MINOR,
    ZV_CORRUPT,
    ZV_FLAG_DETERMINISTIC,
    ZV_NOMEM,
    ZV_OK,
    ZV_PARAM,
    ZV_SPACE,
    zv_codec,
    zv_error,
)
from zvcore.kernels.compressed_segmentation cimport (
    SEG_NOMEM,
    SEG_OK,
    SEG_SPACE,
    seg_bound,
    seg_decoded_size,
    seg_fault,
    seg_form,
    seg_form_is_sane,
)
from zvcore.kernels.compressed_segmentation_decode cimport seg_decode
from zvcore.kernels.compressed_segmentation_encode cimport seg_encode


cdef struct Table:
    zv_codec codec
    seg_form form


cdef void describe(const seg_fault *fault, zv_error *err) noexcept nogil:
    if err == NULL or err.struct_size < sizeof(zv_error):
        return
    snprintf(err.msg, sizeof(err.msg), b"channel %lld, block %lld: %s (%llu of at most %llu)",
             <long long> fault.channel, <long long> fault.block, fault.what, <unsigned long long> fault.found,
             <unsigned long long> fault.limit)


cdef uint64_t bound(const void *cfg, uint64_t n) noexcept nogil:
    return seg_bound(<const seg_form *> cfg)


cdef uint64_t decoded_hint(const void *cfg, const uint8_t *src, uint64_t n) noexcept nogil:
    return seg_decoded_size(<const seg_form *> cfg)


cdef int32_t encode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const seg_form *form = <const seg_form *> cfg
    cdef seg_fault fault
    cdef int status
    out_n[0] = 0
    if n != seg_decoded_size(form):
        fault.what = b"the chunk has another shape than its codec"
        fault.channel = fault.block = -1
        fault.found = n
        fault.limit = seg_decoded_size(form)
        describe(&fault, err)
        return ZV_PARAM
    status = seg_encode(form, src, dst, cap, out_n, &fault)
    if status == SEG_OK:
        return ZV_OK
    if status == SEG_SPACE:
        out_n[0] = seg_bound(form)
        return ZV_SPACE
    if status == SEG_NOMEM:
        return ZV_NOMEM
    describe(&fault, err)
    return ZV_PARAM


cdef int32_t decode(const void *cfg, void *worker, const uint8_t *src, uint64_t n, uint8_t *dst, uint64_t cap,
                    uint64_t *out_n, zv_error *err) noexcept nogil:
    cdef const seg_form *form = <const seg_form *> cfg
    cdef seg_fault fault
    cdef uint64_t size = seg_decoded_size(form)
    out_n[0] = size
    if cap < size:
        return ZV_SPACE
    if seg_decode(form, src, n, dst, &fault) != SEG_OK:
        describe(&fault, err)
        return ZV_CORRUPT
    return ZV_OK


cdef void free_table(object capsule) noexcept:
    free(PyCapsule_GetPointer(capsule, ZV_CODEC_CAPSULE))


def codec_table(tuple shape not None, tuple block not None, int itemsize):
    """A capsule for chunks of this shape (x, y, z, channels); a ValueError when there can be none."""
    cdef Table *table
    cdef int axis
    if len(shape) != 4 or len(block) != 3:
        raise ValueError(f"a chunk has a shape (x, y, z, channels) and blocks (x, y, z), not {shape} and {block}")
    table = <Table *> calloc(1, sizeof(Table))
    if table == NULL:
        raise MemoryError
    try:
        for axis in range(3):
            table.form.shape[axis] = shape[axis]
            table.form.block[axis] = block[axis]
        table.form.channels = shape[3]
        table.form.itemsize = itemsize
        if not seg_form_is_sane(&table.form):
            raise ValueError(f"chunks of shape {shape} cannot be packed in blocks of {block}")
        table.codec.struct_size = sizeof(zv_codec)
        table.codec.minor = ZV_CODEC_MINOR
        table.codec.name = b"compressed_segmentation"
        table.codec.lib_version = b"zvcore"
        table.codec.flags = ZV_FLAG_DETERMINISTIC
        table.codec.cfg = &table.form
        table.codec.bound = bound
        table.codec.decoded_hint = decoded_hint
        table.codec.encode = encode
        table.codec.decode = decode
        return PyCapsule_New(table, ZV_CODEC_CAPSULE, free_table)
    except BaseException:
        free(table)
        raise
