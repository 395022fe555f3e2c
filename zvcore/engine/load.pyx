"""Getting stored bytes into a thread's scratch memory.

Files are read with pread into memory that stays warm in the cache: it is as fast as mapping them, and a file that is
truncated in the meantime is an error and not a signal. Small chunks that lie close to each other are read at once.
"""

import numpy as np

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport ENAMETOOLONG, ENOENT, ENOTDIR
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy
from posix.unistd cimport close

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN
from zvcore.engine.failures cimport (
    MEMORY_FAILURE, RANGE_FAILURE, STALE_FAILURE, SYSTEM_FAILURE, TOO_LARGE_FAILURE,
)
from zvcore.engine.slots cimport Slot, fail
from zvcore.stores.files cimport open_object, read_at
from zvcore.system.atomics cimport zv_compare_and_set, zv_fetch_add, zv_load
from zvcore.system.files cimport file_stamp, zv_size_of
from zvcore.system.scratch cimport reserve


cdef enum:
    RUN_GAP = 16 << 10          # bytes between two chunks that are read and thrown away rather than skipped
    RUN_SPAN = 256 << 10        # a run's bytes stay in the second-level cache until they are decoded


cdef class Loader:
    """Where the stored bytes of a batch's chunks are, in a form for threads.

    `sources` is a `zvcore.layout.Sources`; `root` the folder of a local store as bytes, or None when the bytes are at
    hand (`sources.blobs`). Close it when the batch is done.
    """

    def __cinit__(self, sources, Py_ssize_t count, root, int threads):
        cdef const int32_t[::1] key_view
        cdef const uint64_t[::1] offset_view, length_view
        cdef Py_ssize_t i
        self.count = count
        self._owned = []
        self.origin = getattr(sources, "origin", None)
        if sources.blobs is not None:
            self.object_count = len(sources.blobs)
            self.views = <Py_buffer *> calloc(max(self.object_count, 1), sizeof(Py_buffer))
            self.present = <uint8_t *> calloc(max(self.object_count, 1), 1)
            if self.views == NULL or self.present == NULL:
                raise MemoryError
            self.view_count = self.object_count
            for i, blob in enumerate(sources.blobs):
                if blob is not None:
                    PyObject_GetBuffer(blob, &self.views[i], PyBUF_SIMPLE)
                    self.present[i] = True
        else:
            self.keys = sources.keys
            self.root = root
            self.root_bytes = self.root
            self.root_length = len(self.root)
            self.object_count = len(self.keys)
            self.fds = <int *> malloc(max(self.object_count, 1) * sizeof(int))
            if self.fds == NULL:
                raise MemoryError
            for i in range(self.object_count):
                self.fds[i] = -1
        if sources.key is not None:
            column = np.ascontiguousarray(sources.key, np.int32)
            if len(column) != count or (count and (column.min() < 0 or column.max() >= self.object_count)):
                raise ValueError("the key column does not fit the chunks and keys")
            self._owned.append(column)
            key_view = column
            self.key = &key_view[0] if count else NULL
        elif count != self.object_count:
            raise ValueError(f"{count} chunks, but {self.object_count} objects")
        if (sources.offset is None) != (sources.length is None):
            raise ValueError("offset and length belong together")
        if sources.offset is not None:
            offsets = np.ascontiguousarray(sources.offset, np.uint64)
            lengths = np.ascontiguousarray(sources.length, np.uint64)
            if len(offsets) != count or len(lengths) != count:
                raise ValueError("the offset and length columns do not fit the chunks")
            self._owned.extend([offsets, lengths])
            if count:
                offset_view = offsets
                length_view = lengths
                self.offset = &offset_view[0]
                self.length = &length_view[0]
        if sources.stamps is not None and self.views == NULL:
            if len(sources.stamps) != self.object_count:
                raise ValueError("the stamps do not fit the keys")
            self.stamps = <file_stamp *> calloc(max(self.object_count, 1), sizeof(file_stamp))
            if self.stamps == NULL:
                raise MemoryError
            for i, stamp in enumerate(sources.stamps):
                if stamp is not None:
                    if not isinstance(stamp, bytes) or len(<bytes> stamp) != sizeof(file_stamp):
                        raise ValueError("not a stamp of a local store")
                    memcpy(&self.stamps[i], <const char *> (<bytes> stamp), sizeof(file_stamp))
        self._plan_runs(threads)

    def __dealloc__(self):
        self.release()

    cpdef release(self):
        cdef Py_ssize_t i
        if self.views != NULL:
            for i in range(self.view_count):
                if self.present[i]:
                    PyBuffer_Release(&self.views[i])
            free(self.views)
            free(self.present)
            self.views = NULL
        if self.fds != NULL:
            for i in range(self.object_count):
                if self.fds[i] >= 0:
                    close(self.fds[i])
            free(self.fds)
            self.fds = NULL
        free(self.left)
        self.left = NULL
        free(self.stamps)
        self.stamps = NULL

    def _plan_runs(self, int threads):
        cdef Py_ssize_t i, at
        cdef int64_t[::1] order_view, run_view
        cdef uint64_t begin = 0, end = 0
        cdef int64_t before = -1, now
        cdef Py_ssize_t in_run = 0
        # At least a few runs for each thread, so that none waits for the longest.
        cdef Py_ssize_t most = max(1, self.count // (4 * threads))
        if self.offset == NULL or self.count <= 1 or self.views != NULL:
            self.run_count = self.count
            return
        self.left = <int64_t *> calloc(self.object_count, sizeof(int64_t))
        if self.left == NULL:
            raise MemoryError
        keys = self._owned[0] if self.key != NULL else np.arange(self.count)
        offsets = self._owned[1] if self.key != NULL else self._owned[0]
        order = np.lexsort((offsets, keys)).astype(np.int64)
        runs = np.empty(self.count + 1, np.int64)
        order_view = order
        run_view = runs
        with nogil:
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
        self._owned.extend([order, runs])
        self.order = &order_view[0]
        self.runs = &run_view[0]

    cdef int64_t object_of(self, int64_t chunk) noexcept nogil:
        return self.key[chunk] if self.key != NULL else chunk

    cdef char *path_of(self, Slot *slot, int64_t which, uint64_t extra) noexcept nogil:
        """The path of an object, in slot.path with room for `extra` more bytes; NULL when memory is short."""
        cdef Py_ssize_t length = self.keys.length(which)
        cdef char *path = <char *> reserve(&slot.path, self.root_length + 1 + length + 1 + extra)
        if path != NULL:
            memcpy(path, self.root_bytes, self.root_length)
            path[self.root_length] = b"/"
            memcpy(path + self.root_length + 1, self.keys.at(which), length + 1)
        return path

    cdef int open_once(self, Slot *slot, int64_t chunk, int64_t which, int *fd, file_stamp *stamp) noexcept nogil:
        """An open file for an object of ranges, shared by all threads of the batch."""
        cdef char *path
        fd[0] = zv_load(&self.fds[which])
        if fd[0] >= 0:
            return 0
        path = self.path_of(slot, which, 0)
        if path == NULL:
            return fail(slot, MEMORY_FAILURE, chunk)
        fd[0] = open_object(path, stamp)
        if fd[0] < 0:
            # The index was read a moment ago: an object that is gone now was replaced or deleted by someone.
            fail(slot, STALE_FAILURE if fd[0] == -ENOENT and self.stamps != NULL else SYSTEM_FAILURE, chunk)
            slot.failure.status = -fd[0]
            return -1
        if self.stamps != NULL and self.stamps[which].inode and memcmp(stamp, &self.stamps[which], sizeof(file_stamp)):
            close(fd[0])
            return fail(slot, STALE_FAILURE, chunk)
        if not zv_compare_and_set(&self.fds[which], -1, fd[0]):
            close(fd[0])
            fd[0] = zv_load(&self.fds[which])
        return 0

    cdef void done_with(self, int64_t run) noexcept nogil:
        if self.left != NULL:
            self.one_less(self.object_of(self.order[self.runs[run]] if self.runs != NULL else run))

    cdef void one_less(self, int64_t which) noexcept nogil:
        """With its object's last run a file is closed: a batch may touch more files than may be open."""
        cdef int fd
        if self.left == NULL:
            return
        if zv_fetch_add(&self.left[which], -1) == 1:
            fd = zv_load(&self.fds[which])
            if fd >= 0 and zv_compare_and_set(&self.fds[which], fd, -1):
                close(fd)

    cdef void done_with_chunk(self, int64_t chunk) noexcept nogil:
        self.one_less(self.object_of(chunk))

    cdef int load_span(self, Slot *slot, int64_t chunk, uint64_t offset, uint64_t length, uint8_t *into,
                       const uint8_t **data) noexcept nogil:
        cdef int64_t which = self.object_of(chunk)
        cdef uint64_t have
        cdef int64_t got
        cdef uint8_t *memory
        cdef file_stamp stamp
        cdef int fd
        if self.views != NULL:
            have = self.views[which].len if self.present[which] else 0
            if offset > have or length > have - offset:
                fail(slot, RANGE_FAILURE, chunk)
                slot.failure.offset = offset
                slot.failure.length = length
                slot.failure.found = have
                return -1
            data[0] = <const uint8_t *> self.views[which].buf + offset
            return 0
        if self.open_once(slot, chunk, which, &fd, &stamp) != 0:
            return -1
        if length > RUN_SPAN:
            # Before memory is taken for a length that only an index claims.
            if zv_size_of(fd, &have) != 0:
                return fail(slot, SYSTEM_FAILURE, chunk)
            if offset > have or length > have - offset:
                fail(slot, RANGE_FAILURE, chunk)
                slot.failure.offset = offset
                slot.failure.length = length
                slot.failure.found = have
                return -1
        memory = reserve(&slot.stored, length) if into == NULL else into
        if memory == NULL:
            return fail(slot, MEMORY_FAILURE, chunk)
        got = read_at(fd, memory, length, offset) if offset < <uint64_t> 1 << 62 else 0
        if got < 0:
            fail(slot, SYSTEM_FAILURE, chunk)
            slot.failure.status = <int> -got
            return -1
        if <uint64_t> got < length:
            fail(slot, RANGE_FAILURE, chunk)
            slot.failure.offset = offset
            slot.failure.length = length
            slot.failure.found = offset + got
            return -1
        data[0] = memory
        return 0

    cdef int load_whole(self, Slot *slot, int64_t chunk, uint64_t size_limit, const uint8_t **data,
                        uint64_t *size) noexcept nogil:
        cdef int64_t which = self.object_of(chunk)
        cdef char *path
        cdef uint8_t *memory
        cdef int64_t got
        cdef file_stamp stamp
        cdef int fd
        if self.views != NULL:
            data[0] = <const uint8_t *> self.views[which].buf if self.present[which] else NULL
            size[0] = self.views[which].len
            return 0
        data[0] = NULL
        path = self.path_of(slot, which, 0)
        if path == NULL:
            return fail(slot, MEMORY_FAILURE, chunk)
        fd = open_object(path, &stamp)
        if fd == -ENOENT or fd == -ENOTDIR or fd == -ENAMETOOLONG:
            return 0
        if fd < 0:
            fail(slot, SYSTEM_FAILURE, chunk)
            slot.failure.status = -fd
            return -1
        if stamp.size > size_limit:
            close(fd)
            fail(slot, TOO_LARGE_FAILURE, chunk)
            slot.failure.expected = size_limit
            slot.failure.found = stamp.size
            return -1
        memory = reserve(&slot.stored, stamp.size)
        if memory == NULL:
            close(fd)
            return fail(slot, MEMORY_FAILURE, chunk)
        got = read_at(fd, memory, stamp.size, 0)
        close(fd)
        if got < 0:
            fail(slot, SYSTEM_FAILURE, chunk)
            slot.failure.status = <int> -got
            return -1
        size[0] = got
        data[0] = memory
        return 0

    cdef int load_one(self, Slot *slot, int64_t chunk, uint64_t size_limit, const uint8_t **data,
                      uint64_t *size) noexcept nogil:
        """The stored bytes of one chunk; *data is NULL when it is absent."""
        if self.offset == NULL:
            return self.load_whole(slot, chunk, size_limit, data, size)
        data[0] = NULL
        if self.length[chunk] == ZV_SIZE_UNKNOWN:
            return 0
        size[0] = self.length[chunk]
        return self.load_span(slot, chunk, self.offset[chunk], self.length[chunk], NULL, data)

    cdef int load_run(self, Slot *slot, int64_t run, uint64_t size_limit, const uint8_t **data, uint64_t *size,
                      uint64_t *base) noexcept nogil:
        cdef int64_t i, chunk
        cdef uint64_t end = 0
        if self.runs == NULL:
            base[0] = self.offset[run] if self.offset != NULL else 0
            return self.load_one(slot, run, size_limit, data, size)
        chunk = self.order[self.runs[run]]
        base[0] = self.offset[chunk]
        if self.runs[run + 1] - self.runs[run] == 1:
            return self.load_one(slot, chunk, size_limit, data, size)
        for i in range(self.runs[run], self.runs[run + 1]):
            end = max(end, self.offset[self.order[i]] + self.length[self.order[i]])
        size[0] = end - base[0]
        return self.load_span(slot, chunk, base[0], size[0], NULL, data)
