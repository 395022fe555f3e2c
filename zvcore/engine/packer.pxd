"""Objects that are written while their chunks are still being encoded."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from zvcore.engine.buffers cimport Buffers, Keys
from zvcore.engine.slots cimport Slot
from zvcore.system.mutex cimport pthread_mutex_t


cdef struct Packed:
    pthread_mutex_t lock        # of `busy` and `cursor`
    int busy                    # some thread appends to the object now
    int64_t stop                # its chunks are order[...:stop]
    int64_t next                # place in `work` of what is to be done next; taken atomically
    int64_t last                # its work is work[...:last]
    int64_t cursor              # place in `order` of the next chunk to be appended
    int fd                      # -1: no file yet
    char *temporary             # its path, as long as it is not the object
    uint8_t *tail               # bytes that are to be written next
    uint64_t held               # how many


cdef class Packer:
    cdef Keys keys
    cdef bytes root
    cdef const char *root_bytes
    cdef Py_ssize_t root_length
    cdef uint64_t head
    cdef int64_t object_count
    cdef Packed *objects
    cdef int64_t next_object            # taken atomically
    cdef Buffers encoded                # sizes of all chunks, and those that cannot be appended yet
    cdef uint8_t *ready                 # per place in `order`: encoded, or known to be absent
    cdef const int64_t[::1] order       # the chunks of each object as they will lie in it, object after object
    cdef int64_t[::1] place             # of each chunk in `order`
    cdef const int64_t[::1] work        # what is to be done for each object, object after object

    # What this thread is to do now: a chunk to encode, or what the caller's `work` names. Called exactly once for each.
    cdef int64_t take(self, Slot *slot) noexcept nogil
    # An encoded chunk of the object slot.place; a size of ZV_SIZE_UNKNOWN: it shall not exist.
    cdef int put(self, Slot *slot, int64_t chunk, const uint8_t *header, uint64_t header_size, const uint8_t *body,
                 uint64_t size) noexcept nogil
    cdef int append(self, Slot *slot, Packed *packed, int64_t chunk, const uint8_t *data, uint64_t size) noexcept nogil
    cdef int flush(self, Slot *slot, Packed *packed, int64_t chunk, const uint8_t *data, uint64_t size) noexcept nogil
    cdef int open_file(self, Packed *packed, int64_t which, char *path) noexcept nogil
