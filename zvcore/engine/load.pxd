from libc.stdint cimport int32_t, int64_t, uint64_t, uint8_t, uintptr_t

from zvcore.codecs.running cimport Bytes
from zvcore.engine.chunks cimport Chunks
from zvcore.engine.moving cimport Span
from zvcore.engine.paths cimport Paths
from zvcore.engine.slots cimport Slot
from zvcore.system.files cimport file_stamp


# Where a chunk would begin of which this part is in memory: nobody looks there.
cdef inline const uint8_t *begin_of(const uint8_t *memory, const Span *part) noexcept nogil:
    return <const uint8_t *> (<uintptr_t> memory - part.begin)


cdef class Stored:
    cdef Py_ssize_t count
    cdef const int32_t *key             # which object a chunk is in; NULL: chunk i is object i
    cdef const uint64_t *offset         # NULL: whole objects
    cdef const uint64_t *length
    # Chunks that are read at once: run r is order[runs[r]:runs[r + 1]]. NULL: each chunk is a run.
    cdef const int64_t *order
    cdef const int64_t *runs
    cdef Py_ssize_t run_count
    cdef object _keys, _offsets, _lengths, _plan

    # Takes the columns of `sources` for this many objects.
    cdef int take_columns(self, sources, Py_ssize_t objects) except -1
    # Takes `order` and `runs`, which say what is read at once.
    cdef int take_plan(self, order, runs) except -1
    cdef int64_t object_of(self, int64_t chunk) noexcept nogil
    # The stored bytes of one chunk, with data NULL if it is absent. An object of more than `most` bytes is refused. If
    # `into` is not NULL and there are `room` bytes, which have to be copied anyway, they are read there and not into
    # the slot's scratch memory.
    cdef int load(self, Slot *slot, int64_t chunk, uint64_t most, uint8_t *into, uint64_t room,
                  Bytes *found) noexcept nogil
    # The same in the scratch memory, but of a chunk that has `size` bytes only this part has to be there; the others
    # may be anything.
    cdef int load_part(self, Slot *slot, int64_t chunk, uint64_t most, uint64_t size, const Span *part,
                       Bytes *found) noexcept nogil
    # The bytes that hold several chunks of a run, and the offset in the object of the first of them.
    cdef int load_run(self, Slot *slot, int64_t run, Bytes *found, uint64_t *base) noexcept nogil
    # Called once for each run, and `leave` when a thread has done its last. A thread counts the runs that it has done
    # of an object for itself, and adds them to those of the others only when it turns to another object.
    cdef void done_with(self, Slot *slot, int64_t run) noexcept nogil
    cdef void leave(self, Slot *slot) noexcept nogil


cdef class AtHand(Stored):
    cdef Py_ssize_t view_count
    cdef Py_buffer *views
    cdef uint8_t *present               # per view: whether there are any bytes
    cdef const uint64_t *parts          # three numbers per chunk, as `Sources` has them; NULL: all of each is there
    cdef object _parts

    cdef int take_parts(self, parts) except -1
    # What is there of a chunk; the row of `parts` if that is not all of it, else NULL.
    cdef const uint64_t *find(self, int64_t chunk, Bytes *found) noexcept nogil


cdef class WholeFiles(Stored):
    cdef Paths paths
    cdef bint present

    cdef int open_file(self, Slot *slot, int64_t chunk, uint64_t most, file_stamp *stamp) noexcept nogil


cdef class FileRanges(Stored):
    cdef Paths paths
    cdef Py_ssize_t object_count
    cdef int *fds                       # per object; -1: not open
    cdef int64_t *left                  # per object: runs that are still to be done
    cdef file_stamp *stamps             # per object, inode 0 where it is not known; or NULL
    cdef const uint64_t *crc32          # per chunk, ZV_SIZE_UNKNOWN where none is known; or NULL
    cdef object _crc32

    cdef int take_stamps(self, stamps) except -1
    cdef int take_checksums(self, checksums) except -1
    cdef object in_stored_order(self)
    cdef bint is_before(self, int64_t chunk, int64_t other) noexcept nogil
    # 0 if the bytes of a chunk have the checksum that is said of them, or none is.
    cdef int check(self, Slot *slot, int64_t chunk, const uint8_t *data) noexcept nogil
    cdef int plan_runs(self, Py_ssize_t most) except -1
    cdef int open_once(self, Slot *slot, int64_t chunk, int64_t which) noexcept nogil
    cdef int load_span(self, Slot *slot, int64_t chunk, uint64_t offset, uint8_t *into, Bytes *found) noexcept nogil


# The stored bytes of chunks that have sources, in runs for this many threads; 0 for callers that load chunk by chunk in
# any order.
cdef Stored stored_of(Chunks chunks, int threads)
