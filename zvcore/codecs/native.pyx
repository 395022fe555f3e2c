"""Runs codecs: through their C tables without the GIL, or through their Python methods, with the same checks."""

import sys

from zvcore.errors import CorruptDataError, UnsupportedError, ZvcoreError

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_CheckExact
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memmove, strchr

from zvcore.codecs.abi cimport (
    ZV_CHECKSUM,
    ZV_CODEC_CAPSULE,
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

cdef extern from "Python.h":
    # With bare pointers: a string that is being filled must have exactly one owner.
    int _PyBytes_Resize(PyObject **string, Py_ssize_t size) except -1
    PyObject *PyBytes_FromStringAndSize(const char *text, Py_ssize_t size) except NULL
    char *PyBytes_Text "PyBytes_AS_STRING"(PyObject *string) noexcept nogil
    Py_ssize_t PyBytes_GET_SIZE(PyObject *string)
    void Py_DECREF(PyObject *object)
    const Py_ssize_t PY_SSIZE_T_MAX

cdef extern from *:
    """
    #include <stddef.h>
    /* What a table must reach to: everything up to and including `decode`. */
    #define ZV_CODEC_LEAST (offsetof(zv_codec, decode) + sizeof(void (*)(void)))

    static void *zv_slot_take(void **slot)
    {
        return __atomic_exchange_n(slot, NULL, __ATOMIC_ACQUIRE);
    }
    static int zv_slot_fill(void **slot, void *worker)
    {
        void *empty = NULL;
        return __atomic_compare_exchange_n(slot, &empty, worker, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    }
    """
    const uint32_t ZV_CODEC_LEAST
    void *zv_slot_take(void **slot) noexcept nogil
    int zv_slot_fill(void **slot, void *worker) noexcept nogil

cdef enum:
    SLOTS = 8

# Without any hint the first try has this many times the room of the stored bytes, and at least this much. A second try
# starts from the beginning again, so up to a few megabytes the room is ample: what is not written to is not taken.
cdef uint64_t FIRST_RATIO = 6
cdef uint64_t FIRST_ROOM = 64 << 10
cdef uint64_t AMPLE_RATIO = 256
cdef uint64_t AMPLE_ROOM = 4 << 20
# A declared size is believed up to here, or as far as deflate could have got from the stored bytes; what declares more
# gets room step by step, as it proves itself.
cdef uint64_t BELIEVED = 16 << 20
cdef uint64_t BELIEVED_RATIO = 1040

cdef object codecs_module = None


def decode_limit(max_size):
    """How many bytes a decoded chunk may have: `max_size`, or the ceiling for everything if that is None."""
    global codecs_module
    if max_size is None:
        if codecs_module is None:
            codecs_module = sys.modules["zvcore.codecs"]
        max_size = codecs_module.max_decoded_size
    if max_size < 0:
        raise ValueError(f"max_size must not be negative, not {max_size}")
    return min(max_size, PY_SSIZE_T_MAX)


# numpy, once somebody encodes or decodes: to look at a codec takes no more than the codec.
cdef object np = None


cdef int need_numpy() except -1:
    global np
    if np is None:
        import numpy

        np = numpy
    return 0


def readable_bytes(data):
    """A memoryview of the bytes of any buffer, in C order, copied only when they do not lie so."""
    need_numpy()
    if isinstance(data, np.ndarray):
        refuse_objects(data.dtype.hasobject)
        # Through uint8: some dtypes (datetime64, bfloat16) have no buffer format of their own.
        return memoryview(np.ascontiguousarray(data).reshape(-1).view(np.uint8))
    view = memoryview(data)
    if view.format == "B" and view.ndim == 1 and view.c_contiguous:
        return view
    refuse_objects("O" in view.format)
    if not view.c_contiguous or view.nbytes == 0:
        return memoryview(view.tobytes())
    # Not by cast(), which knows no structures.
    return memoryview(np.frombuffer(view, np.uint8))


cdef int refuse_objects(bint found) except -1:
    # Their bytes are addresses: to store them is senseless, to fill them in would crash.
    if found:
        raise TypeError("Python objects have no bytes to encode or decode into")
    return 0


cdef int get_input(object data, Py_buffer *view) except -1:
    if PyBytes_CheckExact(data):
        return PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(data, view, PyBUF_ND | PyBUF_FORMAT)
    except (BufferError, ValueError):
        return PyObject_GetBuffer(readable_bytes(data), view, PyBUF_SIMPLE)
    if view.format != NULL and strchr(view.format, b"O") != NULL:
        PyBuffer_Release(view)
        return PyObject_GetBuffer(readable_bytes(data), view, PyBUF_SIMPLE)
    return 0


cdef int get_output(object out, Py_buffer *view) except -1:
    need_numpy()
    if isinstance(out, np.ndarray):
        refuse_objects(out.dtype.hasobject)
        if out.flags.c_contiguous and out.flags.writeable:
            # Through uint8: some dtypes have no buffer format of their own. A view of 0-d and empty arrays, too.
            out = out.reshape(-1).view(np.uint8)
    try:
        PyObject_GetBuffer(out, view, PyBUF_ND | PyBUF_FORMAT | PyBUF_WRITABLE)
    except (BufferError, ValueError) as error:
        raise ValueError(f"out must be a writable C-contiguous buffer: {error}") from None
    if view.format != NULL and strchr(view.format, b"O") != NULL:
        PyBuffer_Release(view)
        refuse_objects(True)
    return 0


cdef PyObject *new_bytes(uint64_t size) except NULL:
    if size > <uint64_t> PY_SSIZE_T_MAX - 64:
        raise MemoryError(f"no memory for {size} bytes")
    return PyBytes_FromStringAndSize(NULL, <Py_ssize_t> size)


cdef object finished(PyObject *string, uint64_t size):
    """The string at its final size; the caller's reference goes over to the result."""
    if <uint64_t> PyBytes_GET_SIZE(string) != size:
        _PyBytes_Resize(&string, <Py_ssize_t> size)
    result = <object> string
    Py_DECREF(string)
    return result


cdef inline bint overlapping(const Py_buffer *a, const Py_buffer *b) noexcept nogil:
    cdef const char *x = <const char *> a.buf
    cdef const char *y = <const char *> b.buf
    return a.len > 0 and b.len > 0 and x < y + b.len and y < x + a.len


def too_large(codec, limit, declared=None):
    """The error for a stream that wants more memory than it may have."""
    return CorruptDataError("the stream holds more bytes than are allowed", codec=codec, expected=f"at most {limit}",
                            found=declared)


def wrong_size(codec, expected, found):
    """The error for a stream of another size than the chunk's."""
    return CorruptDataError("the stream holds another number of bytes than the chunk", codec=codec, expected=expected,
                            found=found)


cdef object status_error(const zv_codec *table, int32_t status, int32_t lib_code, bytes message, bint decoding,
                         uint64_t cap, uint64_t needed):
    name = table.name.decode("utf-8", "replace")
    facts = []
    if table.lib_version != NULL and table.lib_version[0]:
        facts.append(table.lib_version.decode("utf-8", "replace"))
    if lib_code:
        facts.append(f"code {lib_code}")
    text = message.decode("utf-8", "replace")
    if not text:
        text = {
            ZV_CORRUPT: "not a valid stream" if decoding else "the data cannot be encoded",
            ZV_CHECKSUM: "the checksum does not match",
            ZV_PARAM: "the configuration cannot do this",
            ZV_NOMEM: "out of memory",
            ZV_INTERNAL: "the library failed",
            # Told as an error when a codec claims to have written more than it had room for.
            ZV_OK: "the library failed",
            ZV_SPACE: "the stream holds more bytes than are allowed",
        }.get(status, f"unknown status {status}")
    elif status == ZV_CHECKSUM and "checksum" not in text:
        text = f"checksum mismatch: {text}"
    if facts:
        text += f" [{', '.join(facts)}]"
    if status == ZV_NOMEM:
        return MemoryError(f"{name}: {text}")
    if status == ZV_PARAM:
        return UnsupportedError(text, codec=name)
    if decoding and status in (ZV_CORRUPT, ZV_CHECKSUM):
        return CorruptDataError(text, codec=name)
    if decoding and status == ZV_SPACE:
        return CorruptDataError(text, codec=name, expected=None if cap == ZV_SIZE_UNKNOWN else f"at most {cap}",
                                found=needed if needed else None)
    return ZvcoreError(text, codec=name)


cdef object table_error(const zv_codec *table, int32_t status, const zv_error *err, bint decoding,
                        uint64_t cap, uint64_t needed):
    # The text is the plugin's: its end is not taken for granted.
    message = (<bytes> err.msg[:sizeof(err.msg)]).split(b"\0", 1)[0]
    return status_error(table, status, err.lib_code, message, decoding, cap, needed)


@cython.final
@cython.no_gc
cdef class NativeCodec:
    """Calls a codec's C table: `encode` and `decode` as those of `Codec`."""

    def __cinit__(self, capsule):
        cdef uint32_t size
        if not PyCapsule_IsValid(capsule, ZV_CODEC_CAPSULE):
            wanted = ZV_CODEC_CAPSULE.decode()
            raise TypeError(f"__zv_codec__() must return a capsule named {wanted!r}, not {capsule!r}")
        self.table = <const zv_codec *> PyCapsule_GetPointer(capsule, ZV_CODEC_CAPSULE)
        self.capsule = capsule
        size = self.table.struct_size
        if size < ZV_CODEC_LEAST:
            raise TypeError(f"the codec table is too short (expected at least {ZV_CODEC_LEAST} bytes, found {size})")
        if (self.table.name == NULL or self.table.bound == NULL
                or self.table.encode == NULL or self.table.decode == NULL):
            raise TypeError("the codec table lacks one of name, bound, encode, decode")
        if (self.table.worker_new == NULL) != (self.table.worker_free == NULL):
            raise TypeError("the codec table has only one of worker_new and worker_free")

    def __dealloc__(self):
        cdef int i
        for i in range(SLOTS):
            if self.idle[i] != NULL:
                self.table.worker_free(self.idle[i])

    @property
    def name(self):
        return self.table.name.decode("utf-8", "replace")

    @property
    def library(self):
        """The library behind the codec and its version, for messages."""
        return "" if self.table.lib_version == NULL else self.table.lib_version.decode("utf-8", "replace")

    @property
    def flags(self):
        return self.table.flags

    cdef void *take_worker(self) noexcept nogil:
        """A worker for this thread alone; NULL if the codec has none, or when memory is short."""
        cdef void *worker
        cdef int i
        if self.table.worker_new == NULL:
            return NULL
        for i in range(SLOTS):
            if self.idle[i] != NULL:
                worker = zv_slot_take(&self.idle[i])
                if worker != NULL:
                    return worker
        return self.table.worker_new(self.table.cfg)

    cdef void give_worker(self, void *worker) noexcept nogil:
        cdef int i
        if worker == NULL:
            return
        for i in range(SLOTS):
            if self.idle[i] == NULL and zv_slot_fill(&self.idle[i], worker):
                return
        self.table.worker_free(worker)

    cdef int32_t run(self, bint decoding, const Py_buffer *src, void *dst, uint64_t cap, uint64_t *size,
                     zv_error *err) noexcept nogil:
        """Encode or decode with a worker of the pool; never more than `cap` bytes."""
        cdef const zv_codec *table = self.table
        cdef void *worker
        cdef int32_t status
        size[0] = 0
        err.struct_size = sizeof(zv_error)
        err.lib_code = 0
        err.msg[0] = 0
        worker = self.take_worker()
        if worker == NULL and table.worker_new != NULL:
            return ZV_NOMEM
        status = (table.decode if decoding else table.encode)(
            table.cfg, worker, <const uint8_t *> src.buf, src.len, <uint8_t *> dst, cap, size, err)
        self.give_worker(worker)
        return ZV_INTERNAL if status == ZV_OK and size[0] > cap else status

    cdef uint64_t hint(self, const Py_buffer *src) noexcept nogil:
        if self.table.decoded_hint == NULL:
            return ZV_SIZE_UNKNOWN
        return self.table.decoded_hint(self.table.cfg, <const uint8_t *> src.buf, src.len)

    def bound(self, uint64_t n):
        """The most bytes that encoding `n` bytes can take."""
        return self.table.bound(self.table.cfg, n)

    def decoded_hint(self, data):
        """The decoded size that a stream declares, or None. Untrusted."""
        cdef Py_buffer src
        cdef uint64_t size
        get_input(data, &src)
        size = self.hint(&src)
        PyBuffer_Release(&src)
        return None if size == ZV_SIZE_UNKNOWN else size

    def encode(self, data):
        """The stored form of the bytes of any buffer."""
        cdef Py_buffer src
        cdef zv_error err
        cdef uint64_t cap, size
        cdef int32_t status
        cdef PyObject *result
        get_input(data, &src)
        try:
            cap = self.table.bound(self.table.cfg, src.len)
            result = new_bytes(cap)
            with nogil:
                status = self.run(False, &src, PyBytes_Text(result), cap, &size, &err)
            if status == ZV_OK:
                return finished(result, size)
            Py_DECREF(result)
            raise table_error(self.table, status, &err, False, cap, size)
        finally:
            PyBuffer_Release(&src)

    def decode(self, data, out=None, max_size=None):
        """The bytes that a stream stands for, in `out` (which they must fill) or as new bytes of at most `max_size`."""
        cdef Py_buffer src
        get_input(data, &src)
        try:
            if out is None:
                return self.decode_new(&src, decode_limit(max_size), max_size is not None)
            self.decode_into(&src, out)
            return out
        finally:
            PyBuffer_Release(&src)

    cdef int decode_into(self, const Py_buffer *src, object out) except -1:
        cdef Py_buffer dst
        cdef zv_error err
        cdef uint64_t size
        cdef int32_t status
        get_output(out, &dst)
        try:
            if overlapping(src, &dst):
                raise ValueError("out overlaps the data to be decoded")
            with nogil:
                status = self.run(True, src, dst.buf, dst.len, &size, &err)
            if status == ZV_SPACE:
                raise wrong_size(self.name, dst.len, size if size > <uint64_t> dst.len else f"more than {dst.len}")
            if status != ZV_OK:
                raise table_error(self.table, status, &err, True, dst.len, size)
            if size != <uint64_t> dst.len:
                raise wrong_size(self.name, dst.len, size)
            return 0
        finally:
            PyBuffer_Release(&dst)

    cdef object decode_new(self, const Py_buffer *src, uint64_t limit, bint expected):
        cdef zv_error err
        cdef uint64_t cap, size, believed, n = src.len
        cdef int32_t status
        cdef PyObject *result
        believed = max(BELIEVED, n * BELIEVED_RATIO) if n < (<uint64_t> 1 << 48) else limit
        cap = self.hint(src)
        if cap == ZV_SIZE_UNKNOWN:
            # A caller who says how much may come mostly knows how much will.
            cap = max(FIRST_ROOM, n * FIRST_RATIO, min(n * AMPLE_RATIO, AMPLE_ROOM))
            if expected and limit <= BELIEVED:
                cap = limit
        elif cap > limit:
            raise too_large(self.name, limit, cap)
        cap = min(cap, believed, limit)
        while True:
            result = new_bytes(cap)
            with nogil:
                status = self.run(True, src, PyBytes_Text(result), cap, &size, &err)
            if status == ZV_OK:
                return finished(result, size)
            Py_DECREF(result)
            if status != ZV_SPACE:
                raise table_error(self.table, status, &err, True, limit, size)
            if cap >= limit or size > limit:
                raise too_large(self.name, limit, size if size > limit else None)
            if size <= cap or size > believed:
                # cap is at most PY_SSIZE_T_MAX, so this cannot wrap around by more than the limit cuts off again.
                size = max(FIRST_ROOM, cap * 4 if cap < (<uint64_t> 1 << 60) else limit)
            cap = min(size, limit)


def decode_through(function, name, data, out, max_size):
    """Decode by a Python function of (data, max_size), with the checks that decoding through a table has."""
    cdef Py_buffer dst
    cdef Py_buffer result
    view = readable_bytes(data)
    if out is None:
        limit = decode_limit(max_size)
        decoded = called(function, name, view, limit)
        if not isinstance(decoded, bytes):
            decoded = readable_bytes(decoded)
        if len(decoded) > limit:
            raise too_large(name, limit, len(decoded))
        return decoded
    get_output(out, &dst)
    try:
        decoded = readable_bytes(called(function, name, view, dst.len))
        if decoded.nbytes != dst.len:
            raise wrong_size(name, dst.len, decoded.nbytes)
        PyObject_GetBuffer(decoded, &result, PyBUF_SIMPLE)
        if result.len:
            memmove(dst.buf, result.buf, result.len)
        PyBuffer_Release(&result)
        return out
    finally:
        PyBuffer_Release(&dst)


def called(function, name, view, limit):
    try:
        return function(view, limit)
    except ZvcoreError as error:
        raise error.located(codec=name)
    except (MemoryError, NotImplementedError):
        raise
    except Exception as error:
        # Whatever a library raises over stored bytes is a fault of these bytes; the cause tells if it is not.
        raise CorruptDataError(f"not a valid stream ({type(error).__name__}: {error})", codec=name) from error
