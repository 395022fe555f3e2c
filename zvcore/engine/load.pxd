"""Getting stored bytes into a thread's scratch memory."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from zvcore.engine.buffers cimport Keys
from zvcore.engine.slots cimport Slot
from zvcore.system.files cimport file_stamp


cdef class Loader:
    """Where the stored bytes of a batch's chunks are, in a form for threads."""
    cdef Py_ssize_t count
    cdef Keys keys
    cdef object origin                  # the Sources that the bytes at hand came from, or None
    cdef object _owned                  # arrays and views whose memory the pointers below lead to
    cdef const int32_t *key             # NULL: chunk i is object i
    cdef const uint64_t *offset         # NULL: whole objects
    cdef const uint64_t *length
    cdef Py_ssize_t object_count
    cdef int *fds                       # per object; -1: not open
    cdef int64_t *left                  # per object: runs that are still to be done
    cdef file_stamp *stamps             # per object, inode 0 where it is not known; or NULL
    cdef Py_buffer *views               # per object: bytes at hand instead of files
    cdef uint8_t *present               # per view: whether there are any bytes
    cdef Py_ssize_t view_count
    cdef bytes root
    cdef const char *root_bytes
    cdef Py_ssize_t root_length
    # Consecutive entries of `order` that are read at once: run r is order[runs[r]:runs[r + 1]].
    cdef readonly Py_ssize_t run_count
    cdef const int64_t *order
    cdef const int64_t *runs

    cdef int open_once(self, Slot *slot, int64_t chunk, int64_t which, int *fd, file_stamp *stamp) noexcept nogil
    cdef void done_with(self, int64_t run) noexcept nogil
    # The same where each chunk is a run: with a loader for as many threads as there are chunks.
    cdef void done_with_chunk(self, int64_t chunk) noexcept nogil
    cdef void one_less(self, int64_t which) noexcept nogil
    # With `into`, the bytes of a file are read there and not into the slot's scratch.
    cdef int load_span(self, Slot *slot, int64_t chunk, uint64_t offset, uint64_t length, uint8_t *into,
                       const uint8_t **data) noexcept nogil
    cdef int load_whole(self, Slot *slot, int64_t chunk, uint64_t size_limit, const uint8_t **data,
                        uint64_t *size) noexcept nogil
    cpdef release(self)
    cdef int64_t object_of(self, int64_t chunk) noexcept nogil
    cdef char *path_of(self, Slot *slot, int64_t which, uint64_t extra) noexcept nogil
    # The bytes that hold the chunks of a run. `*base` is the offset in the object of the first of them. With *data NULL
    # the chunk is absent.
    cdef int load_run(self, Slot *slot, int64_t run, uint64_t size_limit, const uint8_t **data, uint64_t *size,
                      uint64_t *base) noexcept nogil
    cdef int load_one(self, Slot *slot, int64_t chunk, uint64_t size_limit, const uint8_t **data,
                      uint64_t *size) noexcept nogil
