"""Memory for results of medium size. When a result is gone, its memory waits for the next one of about its size.

The C library gives such memory back to the system as soon as a few results are gone together, and gets new pages for
the next ones: to fill these takes longer than to read and decode a chunk. Here a bounded number of bytes waits, and
what was used last is used first. For larger results there is `large.pyx`, smaller ones the C library keeps itself.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memmove

from zvcore.system.fork cimport guard
from zvcore.system.mutex cimport pthread_mutex_lock, pthread_mutex_t, pthread_mutex_unlock

cdef enum:
    LINE = 64                       # bytes of a line of the caches, with which results begin
    MOST_PIECES = 512
    WAITING_BYTES = 32 << 20

LEAST_MEDIUM = 64 << 10
MOST_WAITING = WAITING_BYTES


cdef struct Piece:
    void *memory                    # as the C library gave it
    size_t size


# Those that wait, the one used last behind. All under the lock.
cdef Piece waiting[MOST_PIECES]
cdef size_t waiting_count = 0
cdef size_t waiting_bytes = 0
cdef pthread_mutex_t waiting_lock
guard(&waiting_lock, NULL)


cdef Piece take_out(size_t place) noexcept nogil:
    global waiting_count, waiting_bytes
    cdef Piece piece = waiting[place]
    waiting_count -= 1
    waiting_bytes -= piece.size
    memmove(&waiting[place], &waiting[place + 1], (waiting_count - place) * sizeof(Piece))
    return piece


cdef Piece take_waiting(size_t size) noexcept nogil:
    """One that waits and is at most a quarter too large; without memory if there is none."""
    cdef Piece piece
    cdef size_t place
    piece.memory = NULL
    piece.size = 0
    pthread_mutex_lock(&waiting_lock)
    place = waiting_count
    while place > 0:
        place -= 1
        if size <= waiting[place].size <= size + size // 4:
            piece = take_out(place)
            break
    pthread_mutex_unlock(&waiting_lock)
    return piece


cdef void let_wait(Piece piece) noexcept nogil:
    """Those that have waited longest make room."""
    global waiting_count, waiting_bytes
    pthread_mutex_lock(&waiting_lock)
    while waiting_count and (waiting_count == MOST_PIECES or waiting_bytes + piece.size > WAITING_BYTES):
        free(take_out(0).memory)
    if piece.size <= WAITING_BYTES:
        waiting[waiting_count] = piece
        waiting_count += 1
        waiting_bytes += piece.size
        piece.memory = NULL
    pthread_mutex_unlock(&waiting_lock)
    free(piece.memory)


@cython.final
@cython.no_gc
cdef class MediumMemory:
    """At least `size` writable bytes, which begin with a line of the caches; what is in them is anything."""

    cdef Piece piece

    def __cinit__(self, size_t size):
        self.piece = take_waiting(size)
        if self.piece.memory != NULL:
            return
        if size <= <size_t> -1 - LINE:
            self.piece.memory = malloc(size + LINE)
            self.piece.size = size
        if self.piece.memory == NULL:
            raise MemoryError(f"no memory for {size} bytes")

    def __dealloc__(self):
        if self.piece.memory != NULL:
            let_wait(self.piece)

    def __getbuffer__(self, Py_buffer *view, int flags):
        cdef uintptr_t start = (<uintptr_t> self.piece.memory + LINE - 1) & ~(<uintptr_t> LINE - 1)
        PyBuffer_FillInfo(view, self, <void *> start, <Py_ssize_t> self.piece.size, False, flags)


def forget():
    """Give what waits back to the C library."""
    pthread_mutex_lock(&waiting_lock)
    while waiting_count:
        free(take_out(waiting_count - 1).memory)
    pthread_mutex_unlock(&waiting_lock)
