"""Getting stored bytes into a thread's scratch memory.

Files are read with pread into memory that stays warm in the cache: it is as fast as mapping them, and a file that is
truncated in the meantime is an error and not a signal. Small chunks that lie close to each other are read at once.
"""

import numpy as np

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EISDIR, ENAMETOOLONG, ENOENT, ENOLINK, ENOTDIR, ENXIO
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy
from posix.stat cimport S_ISDIR, S_ISLNK, S_ISREG, lstat, stat, struct_stat
from posix.unistd cimport close

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN
from zvcore.engine.failures cimport (
    CHECKSUM_FAILURE, MEMORY_FAILURE, RANGE_FAILURE, STALE_FAILURE, TOO_LARGE_FAILURE,
)
from zvcore.engine.slots cimport fail, fail_system, reserve_stored
from zvcore.kernels.crc32 cimport crc32_of
from zvcore.stores.files cimport open_object, read_at
from zvcore.system.atomics cimport zv_compare_and_set, zv_fetch_add, zv_load
from zvcore.system.files cimport file_stamp, zv_size_of
from zvcore.system.gil cimport let_go, take_back


cdef enum:
    RUN_GAP = 16 << 10          # bytes between two chunks that are read and thrown away rather than skipped
    # A run's bytes stay in the second-level cache until they are decoded. The few KiB more are for what codecs put
    # before and behind values that they could not make smaller: eight chunks of 32 KiB, not seven, which leave one
    # alone.
    RUN_SPAN = 264 << 10
    FEW_TO_SORT = 64


cdef enum:
    NO_FILE = -2


cdef class Stored:
    """Where the stored bytes of some chunks are: `AtHand`, `WholeFiles` or `FileRanges`."""

    cdef int take_columns(self, sources, Py_ssize_t objects) except -1:
        cdef const int32_t[::1] key_view
        cdef const uint64_t[::1] offset_view, length_view
        self.run_count = self.count
        if sources.key is not None:
            column = np.ascontiguousarray(sources.key, np.int32)
            if len(column) != self.count or (self.count and (column.min() < 0 or column.max() >= objects)):
                raise ValueError("the key column does not fit the chunks and keys")
            self._keys = key_view = column
            self.key = &key_view[0] if self.count else NULL
        elif self.count != objects:
            raise ValueError(f"{self.count} chunks, but {objects} objects")
        if (sources.offset is None) != (sources.length is None):
            raise ValueError("offset and length belong together")
        if sources.offset is not None:
            offsets = np.ascontiguousarray(sources.offset, np.uint64)
            lengths = np.ascontiguousarray(sources.length, np.uint64)
            if len(offsets) != self.count or len(lengths) != self.count:
                raise ValueError("the offset and length columns do not fit the chunks")
            if self.count:
                self._offsets = offset_view = offsets
                self._lengths = length_view = lengths
                self.offset = &offset_view[0]
                self.length = &length_view[0]
        return 0

    cdef int take_plan(self, order, runs) except -1:
        cdef const int64_t[::1] order_view = order, run_view = runs
        self._plan = order, runs
        self.order = &order_view[0]
        self.runs = &run_view[0]
        return 0

    cdef int64_t object_of(self, int64_t chunk) noexcept nogil:
        return self.key[chunk] if self.key != NULL else chunk

    cdef int load(self, Slot *slot, int64_t chunk, uint64_t most, uint8_t *into, uint64_t room,
                  Bytes *found) noexcept nogil:
        found.data = NULL
        found.size = 0
        return 0

    cdef int load_part(self, Slot *slot, int64_t chunk, uint64_t most, uint64_t size, const Span *part,
                       Bytes *found) noexcept nogil:
        return self.load(slot, chunk, most, NULL, 0, found)

    cdef int load_run(self, Slot *slot, int64_t run, Bytes *found, uint64_t *base) noexcept nogil:
        found.data = NULL
        found.size = 0
        return 0

    cdef void done_with(self, Slot *slot, int64_t run) noexcept nogil:
        pass

    cdef void leave(self, Slot *slot) noexcept nogil:
        pass


@cython.final
cdef class AtHand(Stored):
    """Bytes that were fetched already."""

    def __cinit__(self, sources, Py_ssize_t count):
        cdef Py_ssize_t i
        if sources.offset is not None:
            raise ValueError("bytes at hand are those of whole chunks")
        self.count = count
        self.take_columns(sources, len(sources.blobs))
        if sources.parts is not None and count:
            self.take_parts(sources.parts)
        self.views = <Py_buffer *> calloc(max(<Py_ssize_t> len(sources.blobs), 1), sizeof(Py_buffer))
        self.present = <uint8_t *> calloc(max(<Py_ssize_t> len(sources.blobs), 1), 1)
        if self.views == NULL or self.present == NULL:
            raise MemoryError
        self.view_count = len(sources.blobs)
        for i, blob in enumerate(sources.blobs):
            if blob is not None:
                PyObject_GetBuffer(blob, &self.views[i], PyBUF_SIMPLE)
                self.present[i] = True

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.view_count):
            if self.present[i]:
                PyBuffer_Release(&self.views[i])
        free(self.views)
        free(self.present)

    cdef int take_parts(self, parts) except -1:
        cdef const uint64_t[:, ::1] view
        column = np.ascontiguousarray(parts, np.uint64)
        if column.shape != (self.count, 3):
            raise ValueError("the column of parts does not fit the chunks")
        self._parts = view = column
        self.parts = &view[0, 0]
        return 0

    cdef const uint64_t *find(self, int64_t chunk, Bytes *found) noexcept nogil:
        cdef int64_t which = self.object_of(chunk)
        found.data = <const uint8_t *> self.views[which].buf if self.present[which] else NULL
        found.size = self.views[which].len
        if found.data == NULL or self.parts == NULL or self.parts[3 * chunk + 1] == 0:
            return NULL
        return &self.parts[3 * chunk]

    cdef int load(self, Slot *slot, int64_t chunk, uint64_t most, uint8_t *into, uint64_t room,
                  Bytes *found) noexcept nogil:
        cdef const uint64_t *part = self.find(chunk, found)
        return 0 if part == NULL else fail_range(slot, chunk, 0, part[2], found.size)

    cdef int load_part(self, Slot *slot, int64_t chunk, uint64_t most, uint64_t size, const Span *part,
                       Bytes *found) noexcept nogil:
        cdef const uint64_t *there = self.find(chunk, found)
        cdef Span fetched
        if there == NULL:
            return 0
        fetched = Span(there[0], there[1])
        if (found.size != fetched.end - fetched.begin or size != there[2]
                or part.begin < fetched.begin or part.end > fetched.end):
            return fail_range(slot, chunk, part.begin, part.end - part.begin, found.size)
        found.data = begin_of(found.data, &fetched)
        found.size = size
        return 0


cdef int in_its_place(const char *path) noexcept nogil:
    """What has the name of a file that is not there, as an errno: a folder, a link to nothing, a pipe. 0: nothing.

    Only where nothing has its name can a chunk never have been stored.
    """
    cdef struct_stat found
    if lstat(path, &found) != 0:
        return 0
    if S_ISLNK(found.st_mode) and stat(path, &found) != 0:
        return ENOLINK
    # One that is there by now was not when it was opened.
    if S_ISREG(found.st_mode):
        return 0
    return EISDIR if S_ISDIR(found.st_mode) else ENXIO


@cython.final
cdef class WholeFiles(Stored):
    """Files of which each is a chunk."""

    def __cinit__(self, sources, Py_ssize_t count, bytes root):
        self.count = count
        self.present = sources.present
        self.paths = Paths(sources.keys, root)
        self.take_columns(sources, len(self.paths))

    cdef int open_file(self, Slot *slot, int64_t chunk, uint64_t most, file_stamp *stamp) noexcept nogil:
        """The descriptor of a chunk's file, NO_FILE if there is none, -1 with a failure."""
        cdef char *path = self.paths.write(&slot.path, self.object_of(chunk))
        cdef int fd, code
        if path == NULL:
            return fail(slot, MEMORY_FAILURE, chunk)
        fd = open_object(path, stamp)
        if self.present and (fd == -ENOENT or fd == -ENOTDIR or fd == -ENAMETOOLONG):
            return fail(slot, STALE_FAILURE, chunk)
        if fd == -ENOENT:
            code = in_its_place(path)
            return fail_system(slot, chunk, code) if code != 0 else NO_FILE
        if fd == -ENOTDIR or fd == -ENAMETOOLONG:
            return NO_FILE
        if fd < 0:
            return fail_system(slot, chunk, -fd)
        if stamp.size > most:
            close(fd)
            fail(slot, TOO_LARGE_FAILURE, chunk)
            slot.failure.expected = most
            slot.failure.found = stamp.size
            return -1
        return fd

    cdef int load(self, Slot *slot, int64_t chunk, uint64_t most, uint8_t *into, uint64_t room,
                  Bytes *found) noexcept nogil:
        cdef uint8_t *memory
        cdef int64_t got
        cdef file_stamp stamp
        cdef int fd = self.open_file(slot, chunk, most, &stamp)
        found.data = NULL
        if fd < 0:
            return 0 if fd == NO_FILE else -1
        memory = into if into != NULL and stamp.size == room else reserve_stored(slot, stamp.size)
        if memory == NULL:
            close(fd)
            return fail(slot, MEMORY_FAILURE, chunk)
        got = read_at(fd, memory, stamp.size, 0)
        close(fd)
        if got < 0:
            return fail_system(slot, chunk, <int> -got)
        found.size = got
        found.data = memory
        return 0

    cdef int load_part(self, Slot *slot, int64_t chunk, uint64_t most, uint64_t size, const Span *part,
                       Bytes *found) noexcept nogil:
        cdef uint8_t *memory
        cdef int64_t got = -1
        cdef file_stamp stamp
        cdef int fd = self.open_file(slot, chunk, most, &stamp)
        found.data = NULL
        if fd < 0:
            return 0 if fd == NO_FILE else -1
        memory = reserve_stored(slot, part.end - part.begin) if stamp.size == size else NULL
        if memory != NULL:
            got = read_at(fd, memory, part.end - part.begin, part.begin)
        close(fd)
        if got < 0 or <uint64_t> got != part.end - part.begin:
            return self.load(slot, chunk, most, NULL, 0, found)     # which says what is wrong
        found.size = size
        found.data = begin_of(memory, part)
        return 0


@cython.final
cdef class FileRanges(Stored):
    """Ranges of files that hold several chunks. A file is open as long as there is something to read from it."""

    def __cinit__(self, sources, Py_ssize_t count, bytes root, int threads):
        cdef Py_ssize_t i
        self.count = count
        self.paths = Paths(sources.keys, root)
        self.take_columns(sources, len(self.paths))
        self.fds = <int *> malloc(max(<Py_ssize_t> len(self.paths), 1) * sizeof(int))
        if self.fds == NULL:
            raise MemoryError
        self.object_count = len(self.paths)
        for i in range(self.object_count):
            self.fds[i] = -1
        if sources.stamps is not None:
            self.take_stamps(sources.stamps)
        if sources.crc32 is not None and count:
            self.take_checksums(sources.crc32)
        if count > 1:
            self.left = <int64_t *> calloc(self.object_count, sizeof(int64_t))
            if self.left == NULL:
                raise MemoryError
            if threads:
                # At least a few runs for each thread, so that none waits for the longest.
                self.plan_runs(max(1, count // (4 * threads)))
            else:
                for i in range(count):
                    self.left[self.object_of(i)] += 1

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.object_count):
            if self.fds[i] >= 0:
                close(self.fds[i])
        free(self.fds)
        free(self.left)
        free(self.stamps)

    cdef int take_stamps(self, stamps) except -1:
        cdef Py_ssize_t i
        if len(stamps) != self.object_count:
            raise ValueError("the stamps do not fit the keys")
        self.stamps = <file_stamp *> calloc(max(self.object_count, 1), sizeof(file_stamp))
        if self.stamps == NULL:
            raise MemoryError
        for i, stamp in enumerate(stamps):
            if stamp is not None:
                if not isinstance(stamp, bytes) or len(<bytes> stamp) != sizeof(file_stamp):
                    raise ValueError("not a stamp of a local store")
                memcpy(&self.stamps[i], <const char *> (<bytes> stamp), sizeof(file_stamp))
        return 0

    cdef int take_checksums(self, checksums) except -1:
        cdef const uint64_t[::1] view
        column = np.ascontiguousarray(checksums, np.uint64)
        if len(column) != self.count:
            raise ValueError("the column of checksums does not fit the chunks")
        self._crc32 = view = column
        self.crc32 = &view[0]
        return 0

    cdef int check(self, Slot *slot, int64_t chunk, const uint8_t *data) noexcept nogil:
        cdef uint64_t found
        if self.crc32 == NULL or self.crc32[chunk] == ZV_SIZE_UNKNOWN:
            return 0
        found = crc32_of(data, self.length[chunk])
        if found == self.crc32[chunk]:
            return 0
        fail(slot, CHECKSUM_FAILURE, chunk)
        slot.failure.expected = self.crc32[chunk]
        slot.failure.found = found
        return -1

    cdef object in_stored_order(self):
        """The chunks by object and offset. A few are put in order here: numpy gives the GIL away for them."""
        cdef Py_ssize_t i, place
        cdef int64_t[::1] view
        if self.count > FEW_TO_SORT:
            keys = np.arange(self.count) if self._keys is None else self._keys
            return np.lexsort((self._offsets, keys)).astype(np.int64)
        order = np.empty(self.count, np.int64)
        view = order
        for i in range(self.count):
            place = i
            while place > 0 and self.is_before(i, view[place - 1]):
                view[place] = view[place - 1]
                place -= 1
            view[place] = i
        return order

    cdef bint is_before(self, int64_t chunk, int64_t other) noexcept nogil:
        cdef int64_t which = self.object_of(chunk), whose = self.object_of(other)
        return which < whose or (which == whose and self.offset[chunk] < self.offset[other])

    cdef int plan_runs(self, Py_ssize_t most) except -1:
        """Put the chunks in the order in which they are stored, and together those that are read at once."""
        cdef Py_ssize_t i, at, in_run = 0
        cdef int64_t[::1] order_view, run_view
        cdef uint64_t begin = 0, end = 0
        cdef int64_t before = -1, now
        order = self.in_stored_order()
        runs = np.empty(self.count + 1, np.int64)
        order_view = order
        run_view = runs
        self.run_count = 0
        python = let_go(self.count)
        for i in range(self.count):
            at = order_view[i]
            now = self.object_of(at)
            if (in_run and now == before and in_run < most and self.length[at] != ZV_SIZE_UNKNOWN
                    and self.length[at] <= RUN_SPAN and self.offset[at] >= begin
                    and self.offset[at] <= end + RUN_GAP and self.offset[at] + self.length[at] - begin <= RUN_SPAN):
                end = max(end, self.offset[at] + self.length[at])
                in_run += 1
                continue
            run_view[self.run_count] = i
            self.run_count += 1
            self.left[now] += 1
            before = now
            begin = self.offset[at]
            end = begin + self.length[at]
            in_run = 1
            if self.length[at] == ZV_SIZE_UNKNOWN or self.length[at] > RUN_SPAN or end < begin:
                in_run = 0
        run_view[self.run_count] = self.count
        take_back(python)
        return self.take_plan(order, runs)

    cdef int open_once(self, Slot *slot, int64_t chunk, int64_t which) noexcept nogil:
        """A file that all threads of the batch share, open from now on; -1 with a failure."""
        cdef char *path
        cdef file_stamp stamp
        cdef int fd = zv_load(&self.fds[which])
        if fd >= 0:
            return fd
        path = self.paths.write(&slot.path, which)
        if path == NULL:
            return fail(slot, MEMORY_FAILURE, chunk)
        fd = open_object(path, &stamp)
        if fd < 0:
            # The index was read a moment ago: an object that is gone now was replaced or deleted by someone.
            if fd == -ENOENT and self.stamps != NULL:
                return fail(slot, STALE_FAILURE, chunk)
            return fail_system(slot, chunk, -fd)
        if self.stamps != NULL and self.stamps[which].inode and memcmp(&stamp, &self.stamps[which], sizeof(file_stamp)):
            close(fd)
            return fail(slot, STALE_FAILURE, chunk)
        if not zv_compare_and_set(&self.fds[which], -1, fd):
            close(fd)
            fd = zv_load(&self.fds[which])
        return fd

    cdef void done_with(self, Slot *slot, int64_t run) noexcept nogil:
        cdef int64_t which = self.object_of(self.order[self.runs[run]] if self.runs != NULL else run)
        if which != slot.object:
            self.leave(slot)
            slot.object = which
        slot.finished += 1

    cdef void leave(self, Slot *slot) noexcept nogil:
        """With its object's last run a file is closed: a batch may touch more files than may be open."""
        cdef int64_t which = slot.object, finished = slot.finished
        cdef int fd
        slot.object = -1
        slot.finished = 0
        if finished and self.left != NULL and zv_fetch_add(&self.left[which], -finished) == finished:
            fd = zv_load(&self.fds[which])
            if fd >= 0 and zv_compare_and_set(&self.fds[which], fd, -1):
                close(fd)

    cdef int load_span(self, Slot *slot, int64_t chunk, uint64_t offset, uint8_t *into, Bytes *found) noexcept nogil:
        """The `found.size` bytes at an offset of a chunk's object."""
        cdef uint64_t have
        cdef int64_t got
        cdef int fd = self.open_once(slot, chunk, self.object_of(chunk)), code
        if fd < 0:
            return -1
        if found.size > RUN_SPAN:
            # Before memory is taken for a length that only an index claims.
            code = zv_size_of(fd, &have)
            if code != 0:
                return fail_system(slot, chunk, code)
            if offset > have or found.size > have - offset:
                return fail_range(slot, chunk, offset, found.size, have)
        if into == NULL:
            into = reserve_stored(slot, found.size)
        if into == NULL:
            return fail(slot, MEMORY_FAILURE, chunk)
        got = read_at(fd, into, found.size, offset) if offset < <uint64_t> 1 << 62 else 0
        if got < 0:
            return fail_system(slot, chunk, <int> -got)
        if <uint64_t> got < found.size:
            return fail_range(slot, chunk, offset, found.size, offset + got)
        found.data = into
        return 0

    cdef int load(self, Slot *slot, int64_t chunk, uint64_t most, uint8_t *into, uint64_t room,
                  Bytes *found) noexcept nogil:
        found.data = NULL
        if self.length[chunk] == ZV_SIZE_UNKNOWN:
            return 0
        found.size = self.length[chunk]
        if self.load_span(slot, chunk, self.offset[chunk], into if found.size == room else NULL, found) != 0:
            return -1
        return self.check(slot, chunk, found.data)

    cdef int load_part(self, Slot *slot, int64_t chunk, uint64_t most, uint64_t size, const Span *part,
                       Bytes *found) noexcept nogil:
        cdef uint64_t offset = self.offset[chunk], have
        cdef uint8_t *memory = NULL
        cdef int fd = -1
        cdef bint checked = self.crc32 != NULL and self.crc32[chunk] != ZV_SIZE_UNKNOWN
        # A checksum is one of all that is stored.
        if not checked and self.length[chunk] == size and offset < <uint64_t> 1 << 62:
            fd = self.open_once(slot, chunk, self.object_of(chunk))
            if fd < 0:
                return -1
            if zv_size_of(fd, &have) == 0 and have >= offset and have - offset >= size:
                memory = reserve_stored(slot, part.end - part.begin)
        if memory == NULL or read_at(fd, memory, part.end - part.begin,
                                     offset + part.begin) != <int64_t> (part.end - part.begin):
            return self.load(slot, chunk, most, NULL, 0, found)     # which says what is wrong
        found.size = size
        found.data = begin_of(memory, part)
        return 0

    cdef int load_run(self, Slot *slot, int64_t run, Bytes *found, uint64_t *base) noexcept nogil:
        cdef int64_t first = self.order[self.runs[run]], chunk
        cdef int64_t i
        cdef uint64_t end = 0
        for i in range(self.runs[run], self.runs[run + 1]):
            end = max(end, self.offset[self.order[i]] + self.length[self.order[i]])
        base[0] = self.offset[first]
        found.size = end - base[0]
        if self.load_span(slot, first, base[0], NULL, found) != 0:
            return -1
        for i in range(self.runs[run], self.runs[run + 1]):
            chunk = self.order[i]
            if self.check(slot, chunk, found.data + (self.offset[chunk] - base[0])) != 0:
                return -1
        return 0


cdef int fail_range(Slot *slot, int64_t chunk, uint64_t offset, uint64_t length, uint64_t have) noexcept nogil:
    fail(slot, RANGE_FAILURE, chunk)
    slot.failure.offset = offset
    slot.failure.length = length
    slot.failure.found = have
    return -1


cdef Stored stored_of(Chunks chunks, int threads):
    sources, root = chunks.sources, chunks.prepared.root
    if sources.blobs is not None:
        return AtHand(sources, chunks.count)
    if root is None:
        raise ValueError("the bytes of the chunks are neither at hand nor in files")
    if sources.offset is None:
        return WholeFiles(sources, chunks.count, root)
    return FileRanges(sources, chunks.count, root, threads)
