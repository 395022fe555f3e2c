"""Objects that are written while their chunks are still being encoded."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from posix.uio cimport iovec

from zvcore.codecs.running cimport Bytes
from zvcore.engine.batches cimport Task
from zvcore.engine.buffers cimport Buffers
from zvcore.engine.paths cimport Paths
from zvcore.engine.sinks cimport Sink
from zvcore.engine.slots cimport Slot
from zvcore.system.files cimport file_stamp
from zvcore.system.mutex cimport pthread_mutex_t


cdef struct Packed:
    pthread_mutex_t lock        # of `busy` and `cursor`
    int busy                    # a thread is appending to the object
    int64_t stop                # its chunks are order[...:stop]
    int64_t next                # place in `work` of the next thing to do; taken atomically
    int64_t last                # its work is work[...:last]
    int64_t cursor              # place in `order` of the next chunk to be appended
    int fd                      # -1: no file yet
    char *temporary             # its path, until it becomes the object
    uint8_t *tail               # bytes that are to be written next
    uint64_t held               # how many
    char[64] apart              # padding: threads that work on different objects share no cache line


cdef class Packer(Sink):
    cdef Paths paths
    cdef int durability
    cdef uint64_t head
    cdef int64_t object_count
    cdef Packed *objects
    cdef int64_t next_object            # taken atomically
    cdef Buffers encoded                # sizes of all chunks, and those that cannot be appended yet; object by object
    cdef uint8_t *ready                 # per place in `order`: encoded, or known to be absent
    cdef const int64_t[::1] order       # the chunks of each object as they will lie in it, object after object
    cdef int64_t[::1] place             # of each chunk in `order`
    cdef int64_t[::1] row               # and in `encoded`, where threads with different objects share no cache line
    cdef const int64_t[::1] work        # what is to be done for each object, object after object

    cdef int make_objects(self, const int64_t[::1] bounds, const int64_t[::1] work_bounds) except -1
    # The next piece of work of an object, or -1 when there is none left.
    cdef int64_t next_of(self, int64_t which) noexcept nogil
    # Whether it is this chunk's turn to be appended, by the calling thread.
    cdef bint begin_turn(self, Packed *packed, int64_t place) noexcept nogil
    # Append the chunks that have become ready after this one, in the thread whose turn it is. Called with the lock
    # held, which it releases.
    cdef int append_ready(self, Slot *slot, Packed *packed, int64_t chunk) noexcept nogil
    cdef int append(self, Slot *slot, Packed *packed, int64_t chunk, Bytes data) noexcept nogil
    # Write what is held and then this.
    cdef int flush(self, Slot *slot, Packed *packed, int64_t chunk, Bytes data) noexcept nogil
    # An empty file beside the place of an object, whose path is at `path`: 0 or errno.
    cdef int open_file(self, Packed *packed, char *path) noexcept nogil
    # Write what stands at the start and the end of an object, whose path is at `path`, and put it in its place: 0 or
    # errno.
    cdef int finish_one(self, Packed *packed, char *path, iovec *head, iovec *tail) noexcept nogil


cdef struct End:
    int64_t which               # of the packer's objects
    iovec head
    iovec tail
    bint checked                # whether only the file of this stamp may be replaced
    file_stamp replaces


cdef class Finishing(Task):
    cdef Packer packer
    cdef dict kept              # the bytes that `ends` points to
    cdef End *ends
    cdef Py_ssize_t count
