"""Memory whose results are gone, and that waits for the next ones."""

from zvcore.system.mutex cimport pthread_mutex_t


cdef enum:
    MOST_PIECES = 512


cdef struct Piece:
    void *memory                # NULL: none
    size_t size


# Those that wait, the one used last behind. All under the lock, which is to be made by `guard`.
cdef struct Waiting:
    pthread_mutex_t lock
    Piece pieces[MOST_PIECES]
    size_t count
    size_t bytes
    size_t most_bytes
    void (*give_back)(void *memory) noexcept nogil


# A piece that is at most a quarter too large, or none. Never waits for the lock, and so may be called with the GIL.
cdef Piece take_waiting(Waiting *waiting, size_t size) noexcept nogil
# Have a piece wait. Those that have waited longest make room. Never waits for the lock either.
cdef void let_wait(Waiting *waiting, Piece piece) noexcept nogil
# Without the GIL.
cdef void give_all_back(Waiting *waiting) noexcept nogil
