"""Objects that are written while their chunks are still being encoded.

Chunks lie in an object in an order that is given beforehand, each right behind the one before, so where one begins is
known only when all before it are encoded. A thread stays with one object as long as that has chunks left, so it mostly
comes to append just what it has encoded, still in its cache, and threads write to files of their own; a chunk that is
done too early is kept until its turn has come. Nobody waits for anybody: whoever finds that it is a chunk's turn
appends it, and what became ready behind it.
"""

import numpy as np

from libc.errno cimport EIO, ENOENT, ENOMEM, errno
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, strlen
from posix.types cimport off_t
from posix.uio cimport iovec
from posix.unistd cimport SEEK_SET, close, lseek, unlink

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN
from zvcore.engine.buffers cimport Buffers, Keys
from zvcore.engine.failures cimport MEMORY_FAILURE, SYSTEM_FAILURE
from zvcore.engine.slots cimport Slot, fail
from zvcore.stores.files cimport begin_file, finish_file, write_all
from zvcore.system.atomics cimport zv_fetch_add, zv_load64
from zvcore.system.files cimport zv_make_parents
from zvcore.system.mutex cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock,
)
from zvcore.system.scratch cimport reserve

import os


cdef enum:
    TAIL_BYTES = 256 << 10      # what is written at once; stays in the second-level cache
    DIRECT_BYTES = 64 << 10     # chunks of at least this are written from where they are


cdef class Packer:
    """Objects `keys` below the folder `root`; object i will hold the chunks order[bounds[i]:bounds[i + 1]] one after
    the other, behind `head` bytes that `finish` fills in.

    Until `finish`, an object is a temporary file beside its place. What is not finished leaves nothing behind.

    What threads do for object i is work[work_bounds[i]:work_bounds[i + 1]], one thing after the other; unless given,
    each of its chunks.
    """

    def __cinit__(self, Keys keys, bytes root, order, bounds, uint64_t head, work=None, work_bounds=None):
        cdef Py_ssize_t i
        cdef const int64_t[::1] bound_view = np.ascontiguousarray(bounds, np.int64)
        cdef const int64_t[::1] work_view = bound_view
        self.keys = keys
        self.root = root
        self.root_bytes = self.root
        self.root_length = len(root)
        self.head = head
        self.object_count = len(keys)
        self.order = np.ascontiguousarray(order, np.int64)
        if len(bound_view) != self.object_count + 1:
            raise ValueError("the bounds do not fit the keys")
        if bound_view[0] != 0 or bound_view[len(keys)] != len(self.order):
            raise ValueError("the bounds do not fit the keys and chunks")
        self.work = self.order
        if work is not None:
            self.work = np.ascontiguousarray(work, np.int64)
            work_view = np.ascontiguousarray(work_bounds, np.int64)
            if len(work_view) != self.object_count + 1 or work_view[0] != 0 or work_view[len(keys)] != len(self.work):
                raise ValueError("the bounds do not fit the work")
        place = np.full(len(self.order), -1, np.int64)
        place[np.asarray(self.order)] = np.arange(len(place))
        if len(place) and place.min() < 0:
            raise ValueError("the order names a chunk twice")
        self.place = place
        self.encoded = Buffers(len(place))
        self.ready = <uint8_t *> calloc(max(len(place), 1), 1)
        self.objects = <Packed *> calloc(max(self.object_count, 1), sizeof(Packed))
        if self.ready == NULL or self.objects == NULL:
            self.object_count = 0
            raise MemoryError
        for i in range(self.object_count):
            if bound_view[i] > bound_view[i + 1] or work_view[i] > work_view[i + 1]:
                self.object_count = 0
                raise ValueError("the bounds do not fit the keys and chunks")
            self.objects[i].cursor = bound_view[i]
            self.objects[i].stop = bound_view[i + 1]
            self.objects[i].next = work_view[i]
            self.objects[i].last = work_view[i + 1]
            self.objects[i].fd = -1
            pthread_mutex_init(&self.objects[i].lock, NULL)

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.objects != NULL:
            for i in range(self.object_count):
                abandon(&self.objects[i])
                pthread_mutex_destroy(&self.objects[i].lock)
        free(self.objects)
        free(self.ready)

    def __len__(self):
        return len(self.order)

    @property
    def sizes(self):
        """uint64[n] of the encoded chunks, ABSENT for those that need not be stored."""
        return self.encoded.sizes

    cdef int64_t take(self, Slot *slot) noexcept nogil:
        cdef Packed *packed
        cdef int64_t place, i
        if slot.place >= 0:
            packed = &self.objects[slot.place]
            place = zv_fetch_add(&packed.next, 1)
            if place < packed.last:
                return self.work[place]
        while True:
            slot.place = zv_fetch_add(&self.next_object, 1)
            if slot.place >= self.object_count:
                break
            packed = &self.objects[slot.place]
            place = zv_fetch_add(&packed.next, 1)
            if place < packed.last:
                return self.work[place]
        # Every object has its thread: help one of them.
        while True:
            for i in range(self.object_count):
                packed = &self.objects[i]
                if zv_load64(&packed.next) < packed.last:
                    place = zv_fetch_add(&packed.next, 1)
                    if place < packed.last:
                        slot.place = i
                        return self.work[place]

    cdef int put(self, Slot *slot, int64_t chunk, const uint8_t *header, uint64_t header_size, const uint8_t *body,
                 uint64_t size) noexcept nogil:
        cdef int64_t place = self.place[chunk]
        cdef Packed *packed = &self.objects[slot.place]
        cdef bint turn
        pthread_mutex_lock(&packed.lock)
        turn = not packed.busy and packed.cursor == place
        if turn:
            packed.busy = True
        pthread_mutex_unlock(&packed.lock)
        if turn:
            if size != ZV_SIZE_UNKNOWN:
                self.encoded.size[chunk] = header_size + size
                if self.append(slot, packed, chunk, header, header_size) != 0:
                    return -1
                if self.append(slot, packed, chunk, body, size) != 0:
                    return -1
            pthread_mutex_lock(&packed.lock)
            packed.cursor += 1
        else:
            if size != ZV_SIZE_UNKNOWN and self.encoded.store(chunk, header, header_size, body, size) != 0:
                return fail(slot, MEMORY_FAILURE, chunk)
            pthread_mutex_lock(&packed.lock)
            self.ready[place] = True
            if packed.busy or packed.cursor != place:
                pthread_mutex_unlock(&packed.lock)
                return 0
            packed.busy = True
        while packed.cursor < packed.stop and self.ready[packed.cursor]:
            place = packed.cursor
            pthread_mutex_unlock(&packed.lock)
            chunk = self.order[place]
            if self.encoded.size[chunk] != ZV_SIZE_UNKNOWN:
                if self.append(slot, packed, chunk, self.encoded.data[chunk], self.encoded.size[chunk]) != 0:
                    return -1
                free(self.encoded.data[chunk])
                self.encoded.data[chunk] = NULL
            pthread_mutex_lock(&packed.lock)
            packed.cursor += 1
        packed.busy = False
        if packed.cursor < packed.stop:
            pthread_mutex_unlock(&packed.lock)
            return 0
        pthread_mutex_unlock(&packed.lock)
        # The last chunk: nobody else comes here any more.
        if packed.held and self.flush(slot, packed, chunk, NULL, 0) != 0:
            return -1
        free(packed.tail)
        packed.tail = NULL
        return 0

    cdef int append(self, Slot *slot, Packed *packed, int64_t chunk, const uint8_t *data, uint64_t size) noexcept nogil:
        if size >= DIRECT_BYTES:
            return self.flush(slot, packed, chunk, data, size)
        if size == 0:
            return 0
        if packed.tail == NULL:
            packed.tail = <uint8_t *> malloc(TAIL_BYTES)
            if packed.tail == NULL:
                return fail(slot, MEMORY_FAILURE, chunk)
        if packed.held + size > TAIL_BYTES and self.flush(slot, packed, chunk, NULL, 0) != 0:
            return -1
        memcpy(packed.tail + packed.held, data, size)
        packed.held += size
        return 0

    cdef int flush(self, Slot *slot, Packed *packed, int64_t chunk, const uint8_t *data, uint64_t size) noexcept nogil:
        """Write what is held and then this."""
        cdef iovec parts[2]
        cdef int code = 0
        cdef Py_ssize_t length
        cdef char *path
        if packed.fd < 0:
            length = self.keys.length(slot.place)
            path = <char *> reserve(&slot.path, self.root_length + length + 2)
            if path == NULL:
                return fail(slot, MEMORY_FAILURE, chunk)
            code = self.open_file(packed, slot.place, path)
        if code == 0:
            parts[0].iov_base = packed.tail
            parts[0].iov_len = packed.held
            parts[1].iov_base = <void *> data
            parts[1].iov_len = size
            code = write_all(packed.fd, parts, 2)
            packed.held = 0
        if code != 0:
            fail(slot, SYSTEM_FAILURE, chunk)
            slot.failure.status = code
            return -1
        return 0

    cdef int open_file(self, Packed *packed, int64_t which, char *path) noexcept nogil:
        """0 or errno. `path` has room for the path of the object."""
        cdef Py_ssize_t length = self.root_length
        cdef int fd
        memcpy(path, self.root_bytes, length)
        path[length] = b"/"
        memcpy(path + length + 1, self.keys.at(which), self.keys.length(which) + 1)
        if packed.temporary == NULL:
            packed.temporary = <char *> calloc(strlen(path) + 32, 1)
            if packed.temporary == NULL:
                return ENOMEM
        fd = begin_file(path, packed.temporary, strlen(path) + 32)
        if fd == -ENOENT:
            fd = -zv_make_parents(path)
            if fd == 0:
                fd = begin_file(path, packed.temporary, strlen(path) + 32)
        if fd < 0:
            packed.temporary[0] = 0
            return -fd
        packed.fd = fd
        if self.head and lseek(fd, <off_t> self.head, SEEK_SET) < 0:
            return errno if errno else EIO
        return 0

    def finish(self, Py_ssize_t which, const uint8_t[::1] head, const uint8_t[::1] tail, bint sync):
        """Put an object in its place, with these bytes at its start and its end."""
        if which < 0 or which >= self.object_count:
            raise IndexError(f"object {which} of {self.object_count}")
        cdef Packed *packed = &self.objects[which]
        cdef uint64_t head_size = head.shape[0], tail_size = tail.shape[0]
        cdef iovec part
        cdef int code = 0
        if head_size != self.head:
            raise ValueError(f"the head has {head_size} bytes, room was left for {self.head}")
        if packed.cursor != packed.stop:
            raise RuntimeError("not all chunks of the object are there")
        cdef bytearray path = bytearray(self.root + b"/" + os.fsencode(self.keys[which]) + b"\0")
        cdef char *where = path
        cdef bytearray other = bytearray(len(path))
        cdef char *room = other
        with nogil:
            if packed.fd < 0:
                code = self.open_file(packed, which, room)
            if code == 0:
                part.iov_base = <void *> &tail[0] if tail_size else NULL
                part.iov_len = tail_size
                code = write_all(packed.fd, &part, 1)
            if code == 0 and head_size:
                part.iov_base = <void *> &head[0]
                part.iov_len = head_size
                if lseek(packed.fd, 0, SEEK_SET) < 0:
                    code = errno if errno else EIO
                else:
                    code = write_all(packed.fd, &part, 1)
            if code == 0:
                code = finish_file(packed.fd, packed.temporary, where, sync, False)
                packed.fd = -1
                packed.temporary[0] = 0
        abandon(packed)
        if code != 0:
            raise OSError(code, os.strerror(code), os.fsdecode(bytes(path).rstrip(b"\0")))


cdef void abandon(Packed *packed) noexcept nogil:
    if packed.fd >= 0:
        close(packed.fd)
        packed.fd = -1
    if packed.temporary != NULL:
        if packed.temporary[0]:
            unlink(packed.temporary)
        free(packed.temporary)
        packed.temporary = NULL
    free(packed.tail)
    packed.tail = NULL
