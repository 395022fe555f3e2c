"""Objects that are written while their chunks are still being encoded.

Chunks lie in an object in an order that is given beforehand, each right behind the one before, so where one begins is
known only when all before it are encoded. A thread stays with one object as long as that has chunks left, so it mostly
comes to append just what it has encoded, still in its cache, and threads write to files of their own; a chunk that is
done too early is kept until its turn has come. No thread waits for another: the one that finds that it is a chunk's
turn appends it, and what became ready behind it.
"""

import numpy as np

cimport cython
from libc.errno cimport EIO, ENOENT, ENOMEM, errno
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, strlen
from posix.fcntl cimport O_RDONLY
from posix.types cimport off_t
from posix.uio cimport iovec
from posix.unistd cimport SEEK_SET, close, lseek, unlink

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN
from zvcore.codecs.running cimport Bytes
from zvcore.engine.batches cimport Task
from zvcore.engine.buffers cimport Buffers, Keys
from zvcore.engine.failures cimport MEMORY_FAILURE, STALE_FAILURE, SYSTEM_FAILURE, Failure, failure_error
from zvcore.engine.paths cimport Paths
from zvcore.engine.prepared cimport Chains, Prepared
from zvcore.engine.slots cimport Slot, fail, fail_system
from zvcore.engine.work cimport Work
from zvcore.stores.file_writes cimport (
    DURABILITY_FSYNC, DURABILITY_LATE, begin_file, finish_file, make_folders, write_all,
)
from zvcore.stores.files cimport absent
from zvcore.system.atomics cimport zv_fetch_add, zv_load64
from zvcore.system.files cimport file_stamp, zv_fstat, zv_open
from zvcore.system.mutex cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock,
)

import os
from typing import NamedTuple

from zvcore.errors import ConflictError
from zvcore.stores.late_writes import start
from zvcore.stores.writing import ANYTHING, Anything


cdef enum:
    TAIL_BYTES = 256 << 10      # what is written at once; stays in the second-level cache
    DIRECT_BYTES = 64 << 10     # chunks of at least this are written from where they are
    APART = 8                   # sizes and pointers that fill a line of the caches: so many lie between two objects'


@cython.final
cdef class Packer(Sink):
    """Objects `keys` of a local array; object i will hold the chunks order[bounds[i]:bounds[i + 1]] one after the
    other, behind `head` bytes that `finish` fills in.

    Until `finish`, an object is a temporary file beside its place. What is not finished leaves nothing behind.

    What threads do for object i is work[work_bounds[i]:work_bounds[i + 1]], one thing after the other; unless given,
    each of its chunks.
    """

    def __cinit__(self, Keys keys, Prepared prepared not None, order, bounds, uint64_t head, work=None,
                  work_bounds=None):
        self.paths = Paths(keys, prepared.root)
        self.durability = prepared.durability
        if self.durability == DURABILITY_LATE:
            start()
        self.head = head
        self.order = np.ascontiguousarray(order, np.int64)
        self.work = self.order if work is None else np.ascontiguousarray(work, np.int64)
        bounds = checked_bounds(bounds, len(keys), len(self.order))
        work_bounds = bounds if work is None else checked_bounds(work_bounds, len(keys), len(self.work))
        place = np.full(len(self.order), -1, np.int64)
        place[np.asarray(self.order)] = np.arange(len(place))
        if len(place) and place.min() < 0:
            raise ValueError("the order names a chunk twice")
        self.place = place
        self.row = place + APART * np.repeat(np.arange(len(keys)), np.diff(bounds))[place]
        self.encoded = Buffers(len(place) + APART * len(keys))
        self.ready = <uint8_t *> calloc(max(len(place), 1), 1)
        self.objects = <Packed *> calloc(max(<Py_ssize_t> len(keys), 1), sizeof(Packed))
        if self.ready == NULL or self.objects == NULL:
            raise MemoryError
        self.make_objects(bounds, work_bounds)

    cdef int make_objects(self, const int64_t[::1] bounds, const int64_t[::1] work_bounds) except -1:
        cdef Py_ssize_t i
        self.object_count = len(self.paths)
        for i in range(self.object_count):
            self.objects[i].cursor = bounds[i]
            self.objects[i].stop = bounds[i + 1]
            self.objects[i].next = work_bounds[i]
            self.objects[i].last = work_bounds[i + 1]
            self.objects[i].fd = -1
            pthread_mutex_init(&self.objects[i].lock, NULL)
        return 0

    def __dealloc__(self):
        cdef Py_ssize_t i
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
        return self.encoded.sizes[np.asarray(self.row)]

    cdef int check(self, Py_ssize_t chunks, Py_ssize_t items) except -1:
        if chunks != len(self.order) or items != len(self.work):
            raise ValueError("the packer is for another number of chunks or of pieces of work")
        return 0

    # --- which chunk is next

    cdef int64_t next_of(self, int64_t which) noexcept nogil:
        cdef int64_t place = zv_fetch_add(&self.objects[which].next, 1)
        return self.work[place] if place < self.objects[which].last else -1

    cdef bint in_any_order(self) noexcept nogil:
        return False

    cdef int64_t take(self, Slot *slot, int64_t item) noexcept nogil:
        cdef int64_t found, i
        if slot.place >= 0:
            found = self.next_of(slot.place)
            if found >= 0:
                return found
        while True:
            slot.place = zv_fetch_add(&self.next_object, 1)
            if slot.place >= self.object_count:
                break
            found = self.next_of(slot.place)
            if found >= 0:
                return found
        # Every object has its thread: help one of them.
        while True:
            for i in range(self.object_count):
                if zv_load64(&self.objects[i].next) < self.objects[i].last:
                    found = self.next_of(i)
                    if found >= 0:
                        slot.place = i
                        return found

    # --- chunks that are encoded

    cdef bint begin_turn(self, Packed *packed, int64_t place) noexcept nogil:
        cdef bint turn
        pthread_mutex_lock(&packed.lock)
        turn = not packed.busy and packed.cursor == place
        if turn:
            packed.busy = True
        pthread_mutex_unlock(&packed.lock)
        return turn

    cdef int put(self, Slot *slot, int64_t chunk, Bytes head, Bytes body) noexcept nogil:
        cdef int64_t place = self.place[chunk]
        cdef Packed *packed = &self.objects[slot.place]
        if self.begin_turn(packed, place):
            self.encoded.size[self.row[chunk]] = head.size + body.size
            if self.append(slot, packed, chunk, head) != 0 or self.append(slot, packed, chunk, body) != 0:
                return -1
            pthread_mutex_lock(&packed.lock)
            packed.cursor += 1
            return self.append_ready(slot, packed, chunk)
        if self.encoded.store(self.row[chunk], head.data, head.size, body.data, body.size) != 0:
            return fail(slot, MEMORY_FAILURE, chunk)
        return self.leave_out(slot, chunk)

    cdef int leave_out(self, Slot *slot, int64_t chunk) noexcept nogil:
        """Also for a chunk that is kept until its turn has come."""
        cdef int64_t place = self.place[chunk]
        cdef Packed *packed = &self.objects[slot.place]
        pthread_mutex_lock(&packed.lock)
        self.ready[place] = True
        if packed.busy or packed.cursor != place:
            pthread_mutex_unlock(&packed.lock)
            return 0
        packed.busy = True
        return self.append_ready(slot, packed, chunk)

    cdef int append_ready(self, Slot *slot, Packed *packed, int64_t chunk) noexcept nogil:
        cdef Bytes data
        cdef int64_t row
        while packed.cursor < packed.stop and self.ready[packed.cursor]:
            chunk = self.order[packed.cursor]
            pthread_mutex_unlock(&packed.lock)
            row = self.row[chunk]
            if self.encoded.size[row] != ZV_SIZE_UNKNOWN:
                data.data = self.encoded.data[row]
                data.size = self.encoded.size[row]
                if self.append(slot, packed, chunk, data) != 0:
                    return -1
                self.encoded.drop(row)
            pthread_mutex_lock(&packed.lock)
            packed.cursor += 1
        packed.busy = False
        if packed.cursor < packed.stop:
            pthread_mutex_unlock(&packed.lock)
            return 0
        pthread_mutex_unlock(&packed.lock)
        # The last chunk: no other thread comes here any more.
        data.data = NULL
        data.size = 0
        if packed.held and self.flush(slot, packed, chunk, data) != 0:
            return -1
        free(packed.tail)
        packed.tail = NULL
        return 0

    # --- files

    cdef int append(self, Slot *slot, Packed *packed, int64_t chunk, Bytes data) noexcept nogil:
        cdef Bytes nothing
        if data.size >= DIRECT_BYTES:
            return self.flush(slot, packed, chunk, data)
        if data.size == 0:
            return 0
        if packed.tail == NULL:
            packed.tail = <uint8_t *> malloc(TAIL_BYTES)
            if packed.tail == NULL:
                return fail(slot, MEMORY_FAILURE, chunk)
        if packed.held + data.size > TAIL_BYTES:
            nothing.data = NULL
            nothing.size = 0
            if self.flush(slot, packed, chunk, nothing) != 0:
                return -1
        memcpy(packed.tail + packed.held, data.data, data.size)
        packed.held += data.size
        return 0

    cdef int flush(self, Slot *slot, Packed *packed, int64_t chunk, Bytes data) noexcept nogil:
        cdef iovec parts[2]
        cdef int code = 0
        cdef char *path
        if packed.fd < 0:
            path = self.paths.write(&slot.path, slot.place)
            if path == NULL:
                return fail(slot, MEMORY_FAILURE, chunk)
            code = self.open_file(packed, path)
        if code == 0:
            parts[0].iov_base = packed.tail
            parts[0].iov_len = packed.held
            parts[1].iov_base = <void *> data.data
            parts[1].iov_len = data.size
            code = write_all(packed.fd, parts, 2)
            packed.held = 0
        return fail_system(slot, chunk, code) if code != 0 else 0

    cdef int open_file(self, Packed *packed, char *path) noexcept nogil:
        cdef int fd
        if packed.temporary == NULL:
            packed.temporary = <char *> calloc(strlen(path) + 32, 1)
            if packed.temporary == NULL:
                return ENOMEM
        fd = begin_file(NULL, path, packed.temporary, strlen(path) + 32)
        if fd == -ENOENT:
            fd = -make_folders(path, self.paths.length, self.durability == DURABILITY_FSYNC)
            if fd == 0:
                fd = begin_file(NULL, path, packed.temporary, strlen(path) + 32)
        if fd < 0:
            packed.temporary[0] = 0
            return -fd
        packed.fd = fd
        if self.head and lseek(fd, <off_t> self.head, SEEK_SET) < 0:
            return errno if errno else EIO
        return 0

    def finish(self, dict ends, Work work not None):
        """Put objects in their places; `ends` has the `Ends` of each by its number.

        Threads share them: freeing what an old file had takes as long as writing some of a new one.
        """
        cdef Finishing finishing = Finishing(self, ends)
        cdef Failure failure
        if finishing.perform(finishing.count, work.threads_for(0), None, &failure):
            return
        if failure.kind == SYSTEM_FAILURE:
            raise OSError(failure.status, os.strerror(failure.status), os.fsdecode(self.paths[failure.job]))
        if failure.kind == STALE_FAILURE:
            raise ConflictError("somebody else has changed the object", key=os.fsdecode(self.paths[failure.job]))
        raise failure_error(&failure, ())

    cdef int finish_one(self, Packed *packed, char *path, iovec *head, iovec *tail) noexcept nogil:
        cdef int code = 0
        if packed.fd < 0:
            code = self.open_file(packed, path)
        if code == 0:
            code = write_all(packed.fd, tail, 1)
        if code == 0 and head.iov_len:
            if lseek(packed.fd, 0, SEEK_SET) < 0:
                code = errno if errno else EIO
            else:
                code = write_all(packed.fd, head, 1)
        if code == 0:
            code = finish_file(packed.fd, NULL, packed.temporary, path, self.durability, False)
            packed.fd = -1
            packed.temporary[0] = 0
        abandon(packed)
        return code


class Ends(NamedTuple):
    """What stands at the start of an object and at its end; and the stamp of the file whose place it may take, None if
    there may be none: another one was put there by somebody who takes no locks.
    """

    head: bytes
    tail: bytes
    replaces: bytes | Anything | None = ANYTHING


@cython.final
@cython.no_gc
cdef class Finishing(Task):
    """Puts objects of a packer in their places."""

    def __cinit__(self, Packer packer not None, dict ends not None):
        cdef bytes head, tail
        cdef End *end
        self.packer = packer
        self.kept = ends
        self.chains = Chains(())
        self.ends = <End *> calloc(max(<Py_ssize_t> len(ends), 1), sizeof(End))
        if self.ends == NULL:
            raise MemoryError
        for which, (head, tail, replaces) in ends.items():
            if which < 0 or which >= packer.object_count:
                raise IndexError(f"object {which} of {packer.object_count}")
            if len(head) != packer.head:
                raise ValueError(f"the head has {len(head)} bytes, room was left for {packer.head}")
            if packer.objects[<int64_t> which].cursor != packer.objects[<int64_t> which].stop:
                raise RuntimeError("not all chunks of the object are there")
            end = &self.ends[self.count]
            end.which = which
            end.head.iov_base = <char *> head
            end.head.iov_len = len(head)
            end.tail.iov_base = <char *> tail
            end.tail.iov_len = len(tail)
            end.checked = replaces is not ANYTHING
            if end.checked and replaces is not None:
                if len(replaces) != sizeof(file_stamp):
                    raise ValueError(f"a stamp of {len(replaces)} bytes")
                memcpy(&end.replaces, <const char *> replaces, sizeof(file_stamp))
            self.count += 1

    def __dealloc__(self):
        free(self.ends)

    cdef int run(self, Slot *slot, int64_t item) noexcept nogil:
        cdef End *end = &self.ends[item]
        cdef char *path = self.packer.paths.write(&slot.path, end.which)
        cdef int code
        if path == NULL:
            return fail(slot, MEMORY_FAILURE, end.which)
        if end.checked and not is_still(path, &end.replaces):
            return fail(slot, STALE_FAILURE, end.which)
        code = self.packer.finish_one(&self.packer.objects[end.which], path, &end.head, &end.tail)
        return fail_system(slot, end.which, code) if code != 0 else 0


cdef bint is_still(const char *path, const file_stamp *expected) noexcept nogil:
    """Whether the file at this path has this stamp; one of inode 0 stands for no file."""
    cdef file_stamp found
    # Opened, since only that makes a network file system ask its server.
    cdef int fd = zv_open(path, O_RDONLY), code
    if fd < 0:
        return absent(errno) and expected.inode == 0
    code = zv_fstat(fd, &found)
    close(fd)
    return code == 0 and memcmp(&found, expected, sizeof(file_stamp)) == 0


cdef object checked_bounds(bounds, Py_ssize_t objects, Py_ssize_t count):
    bounds = np.ascontiguousarray(bounds, np.int64)
    if len(bounds) != objects + 1 or bounds[0] != 0 or bounds[objects] != count or (np.diff(bounds) < 0).any():
        raise ValueError("the bounds do not fit the keys and chunks")
    return bounds


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
