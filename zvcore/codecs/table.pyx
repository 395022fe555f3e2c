"""A codec's C table: checked once, then called by users here and by the engine's threads in `running`."""

cimport cython
from cpython.buffer cimport PyBuffer_Release
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from zvcore.codecs import limits

from zvcore.codecs.abi cimport ZV_CODEC_CAPSULE, ZV_OK, ZV_SIZE_UNKNOWN, zv_codec
from zvcore.codecs.buffers cimport finished, get_input, get_output, new_bytes, overlapping, text_of
from zvcore.codecs.failures cimport CodecFailure, codec_error
from zvcore.codecs.running cimport (
    Attempt,
    begin_decoding,
    decode_exactly,
    encode_once,
    more_room,
    try_decoding,
)
from zvcore.codecs.room cimport AMPLE_ROOM
from zvcore.codecs.workers cimport free_workers, give_worker, take_worker
from zvcore.system.atomics cimport zv_put_pointer, zv_take_pointer

cdef extern from "Python.h":
    void Py_DECREF(PyObject *object)
    const Py_ssize_t PY_SSIZE_T_MAX

cdef extern from *:
    """
    #include <stddef.h>
    /* What a table must reach to: everything up to and including `decode`. Later fields may be missing, so each is
     * looked at only where `struct_size` says that it is there. */
    #define ZV_CODEC_LEAST (offsetof(zv_codec, decode) + sizeof(void (*)(void)))
    /* Plugins were built with these fields in these places: appending is allowed, moving is not. */
    _Static_assert(sizeof(void *) != 8 || ZV_CODEC_LEAST == 88, "the fields up to `decode` never move");
    """
    const uint32_t ZV_CODEC_LEAST


cdef const zv_codec *checked(object capsule, str name) except NULL:
    """The table in a capsule that a codec offers, if it is one that this version can use."""
    if not PyCapsule_IsValid(capsule, ZV_CODEC_CAPSULE):
        wanted = ZV_CODEC_CAPSULE.decode()
        raise TypeError(f"codec {name!r}: __zv_codec__() must return a capsule named {wanted!r}, not {capsule!r}")
    cdef const zv_codec *table = <const zv_codec *> PyCapsule_GetPointer(capsule, ZV_CODEC_CAPSULE)
    if table.struct_size < ZV_CODEC_LEAST:
        raise TypeError(f"codec {name!r}: the C table is too short "
                        f"(expected at least {ZV_CODEC_LEAST} bytes, found {table.struct_size})")
    if table.name == NULL or table.bound == NULL or table.encode == NULL or table.decode == NULL:
        raise TypeError(f"codec {name!r}: the C table lacks one of name, bound, encode, decode")
    if (table.worker_new == NULL) != (table.worker_free == NULL):
        raise TypeError(f"codec {name!r}: the C table has only one of worker_new and worker_free")
    return table


cdef uint64_t decode_limit(max_size) except? 0:
    """How many bytes a decoded chunk may have: `max_size`, or the ceiling for everything if that is None."""
    if max_size is None:
        max_size = limits.max_decoded_size
    if max_size < 0:
        raise ValueError(f"max_size must not be negative, not {max_size}")
    return min(max_size, PY_SSIZE_T_MAX)


# -- room for streams that do not say how long they are -------------------------------------------------------------


# One piece of memory for the process, or NULL while a thread has it.
cdef void *idle_room = NULL


cdef inline bint is_a_guess(const Attempt *attempt) noexcept nogil:
    if attempt.room > <uint64_t> AMPLE_ROOM or attempt.room == attempt.limit:
        return False
    return attempt.table.decoded_hint == NULL or attempt.table.decoded_hint(
        attempt.table.cfg, attempt.given.data, attempt.given.size) == ZV_SIZE_UNKNOWN


cdef inline uint8_t *take_room() noexcept nogil:
    cdef void *room = zv_take_pointer(&idle_room)
    return <uint8_t *> (room if room != NULL else malloc(AMPLE_ROOM))


cdef inline void give_room(uint8_t *room) noexcept nogil:
    if not zv_put_pointer(&idle_room, room):
        free(room)


@cython.final
@cython.no_gc
cdef class Table:
    """A codec's C functions, with the workers that no thread uses now."""

    def __cinit__(self, capsule, str name=""):
        self.table = checked(capsule, name)
        self.capsule = capsule

    def __dealloc__(self):
        if self.table != NULL:
            free_workers(self.table, &self.workers)

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

    def bound(self, uint64_t n):
        """The most bytes that encoding `n` bytes can take."""
        return self.table.bound(self.table.cfg, n)

    def decoded_hint(self, data):
        """The decoded size that a stream declares, or None. Untrusted."""
        cdef Py_buffer src
        cdef uint64_t size = ZV_SIZE_UNKNOWN
        get_input(data, &src)
        if self.table.decoded_hint != NULL:
            size = self.table.decoded_hint(self.table.cfg, <const uint8_t *> src.buf, src.len)
        PyBuffer_Release(&src)
        return None if size == ZV_SIZE_UNKNOWN else size

    cdef object error(self, const CodecFailure *failure):
        return codec_error(failure, self.table, self.name)

    cdef int32_t run(self, Attempt *attempt, uint8_t *into, CodecFailure *failure,
                     int32_t (*function)(Attempt *, uint8_t *, CodecFailure *) noexcept nogil) noexcept nogil:
        """Run this function with a worker."""
        failure.status = take_worker(self.table, &self.workers, &attempt.worker)
        if failure.status != ZV_OK:
            failure.decoding = True
            failure.said.lib_code = 0
            failure.said.msg[0] = 0
            return failure.status
        function(attempt, into, failure)
        give_worker(self.table, &self.workers, attempt.worker)
        return failure.status

    def encode(self, data):
        """The stored form of the bytes of any buffer."""
        cdef Py_buffer src
        cdef Attempt attempt
        cdef CodecFailure failure
        cdef PyObject *result
        get_input(data, &src)
        try:
            attempt.table = self.table
            attempt.given.data = <const uint8_t *> src.buf
            attempt.given.size = src.len
            attempt.room = self.table.bound(self.table.cfg, src.len)
            result = new_bytes(attempt.room)
            with nogil:
                self.run(&attempt, <uint8_t *> text_of(result), &failure, encode_once)
            if failure.status == ZV_OK:
                return finished(result, attempt.size)
            Py_DECREF(result)
            raise self.error(&failure)
        finally:
            PyBuffer_Release(&src)

    def decode(self, data, out=None, max_size=None):
        """The bytes that a stream stands for, in `out` (which they must fill) or as new bytes of at most `max_size`."""
        cdef Py_buffer src
        get_input(data, &src)
        try:
            if out is None:
                return self.decode_new(&src, decode_limit(max_size))
            self.decode_into(&src, out)
            return out
        finally:
            PyBuffer_Release(&src)

    cdef int decode_into(self, const Py_buffer *src, object out) except -1:
        cdef Py_buffer dst
        cdef Attempt attempt
        cdef CodecFailure failure
        get_output(out, &dst)
        try:
            if overlapping(src, &dst):
                raise ValueError("out overlaps the data to be decoded")
            attempt.table = self.table
            attempt.given.data = <const uint8_t *> src.buf
            attempt.given.size = src.len
            attempt.room = dst.len
            with nogil:
                self.run(&attempt, <uint8_t *> dst.buf, &failure, decode_exactly)
            if failure.status != ZV_OK:
                raise self.error(&failure)
            return 0
        finally:
            PyBuffer_Release(&dst)

    cdef object decode_new(self, const Py_buffer *src, uint64_t limit):
        cdef Attempt attempt
        cdef CodecFailure failure
        cdef PyObject *result
        attempt.table = self.table
        attempt.given.data = <const uint8_t *> src.buf
        attempt.given.size = src.len
        attempt.limit = limit
        begin_decoding(&attempt, &failure)
        if failure.status == ZV_OK and is_a_guess(&attempt):
            made = self.decode_guessing(&attempt, &failure)
            if made is not None:
                return made
        while failure.status == ZV_OK:
            result = new_bytes(attempt.room)
            with nogil:
                self.run(&attempt, <uint8_t *> text_of(result), &failure, try_decoding)
            if failure.status == ZV_OK:
                return finished(result, attempt.size)
            Py_DECREF(result)
            more_room(&attempt, &failure)
        raise self.error(&failure)

    cdef object decode_guessing(self, Attempt *attempt, CodecFailure *failure):
        """The first try in memory that is kept, so that what was guessed too large costs nothing; None: not enough."""
        cdef uint8_t *room = take_room()
        if room == NULL:
            return None
        with nogil:
            self.run(attempt, room, failure, try_decoding)
        try:
            if failure.status == ZV_OK:
                return PyBytes_FromStringAndSize(<char *> room, <Py_ssize_t> attempt.size)
        finally:
            give_room(room)
        more_room(attempt, failure)
        return None
