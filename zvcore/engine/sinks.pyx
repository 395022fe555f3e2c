"""Where encoded chunks go, chunk by chunk, while others are still being encoded. `packer.Packer` is one more sink."""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint64_t
from posix.uio cimport iovec

from zvcore.codecs.running cimport Bytes
from zvcore.engine.buffers cimport Buffers, Keys
from zvcore.engine.failures cimport MEMORY_FAILURE
from zvcore.engine.paths cimport Paths
from zvcore.engine.prepared cimport Prepared
from zvcore.engine.slots cimport Slot, fail, fail_system
from zvcore.stores.file_writes cimport DURABILITY_FSYNC, DURABILITY_LATE, remove_file, replace_in_folder

from zvcore.stores.late_writes import start


cdef class Sink:
    """Takes encoded chunks. Unless `store_empty` is set, chunks that hold nothing but the fill value are left out."""

    cdef int check(self, Py_ssize_t chunks, Py_ssize_t items) except -1:
        return 0

    cdef int64_t take(self, Slot *slot, int64_t item) noexcept nogil:
        return item

    cdef bint in_any_order(self) noexcept nogil:
        return True

    cdef uint8_t *room_for(self, int64_t chunk, uint64_t size) noexcept nogil:
        return NULL

    cdef int put(self, Slot *slot, int64_t chunk, Bytes head, Bytes body) noexcept nogil:
        return 0

    cdef int leave_out(self, Slot *slot, int64_t chunk) noexcept nogil:
        return 0


@cython.final
cdef class Gathered(Sink):
    """Keeps the chunks in memory: `chunks` has a row for each, absent where a chunk need not be stored."""

    def __cinit__(self, Py_ssize_t count):
        self.chunks = Buffers(count)

    cdef int check(self, Py_ssize_t chunks, Py_ssize_t items) except -1:
        if chunks != self.chunks.count:
            raise ValueError(f"there are {chunks} chunks to gather, there is room for {self.chunks.count}")
        return 0

    cdef uint8_t *room_for(self, int64_t chunk, uint64_t size) noexcept nogil:
        return self.chunks.reserve(chunk, size)

    cdef int put(self, Slot *slot, int64_t chunk, Bytes head, Bytes body) noexcept nogil:
        if head.size == 0 and body.data != NULL and body.data == self.chunks.data[chunk]:
            self.chunks.size[chunk] = body.size
        elif self.chunks.store(chunk, head.data, head.size, body.data, body.size) != 0:
            return fail(slot, MEMORY_FAILURE, chunk)
        return 0

    cdef int leave_out(self, Slot *slot, int64_t chunk) noexcept nogil:
        self.chunks.drop(chunk)
        return 0


@cython.final
cdef class Files(Sink):
    """Writes each chunk to a file of its own; the file of a chunk that need not be stored is removed."""

    def __cinit__(self, Keys keys, Prepared prepared not None):
        self.paths = Paths(keys, prepared.root)
        self.durability = prepared.durability
        if self.durability == DURABILITY_LATE:
            start()

    cdef int check(self, Py_ssize_t chunks, Py_ssize_t items) except -1:
        if chunks != len(self.paths):
            raise ValueError(f"there are {chunks} chunks and {len(self.paths)} files")
        return 0

    cdef int put(self, Slot *slot, int64_t chunk, Bytes head, Bytes body) noexcept nogil:
        cdef char *path = self.paths.write(&slot.path, chunk)
        cdef iovec parts[2]
        cdef int status
        if path == NULL:
            return fail(slot, MEMORY_FAILURE, chunk)
        parts[0].iov_base = <void *> head.data
        parts[0].iov_len = head.size
        parts[1].iov_base = <void *> body.data
        parts[1].iov_len = body.size
        status = replace_in_folder(&slot.folder, path, self.paths.length, parts, 2, self.durability)
        return fail_system(slot, chunk, status) if status != 0 else 0

    cdef int leave_out(self, Slot *slot, int64_t chunk) noexcept nogil:
        cdef char *path = self.paths.write(&slot.path, chunk)
        cdef int status
        if path == NULL:
            return fail(slot, MEMORY_FAILURE, chunk)
        status = remove_file(&slot.folder, path, self.durability == DURABILITY_FSYNC)
        return fail_system(slot, chunk, status) if status != 0 else 0
