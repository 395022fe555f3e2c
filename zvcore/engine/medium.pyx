"""Memory for results of medium size: smaller ones the C library keeps itself, for larger ones there is `large.pyx`."""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport uintptr_t
from libc.stdlib cimport free, malloc

from zvcore.engine.waiting cimport Piece, Waiting, give_all_back, let_wait, take_waiting
from zvcore.system.fork cimport guard


cdef enum:
    LINE = 64                       # bytes of a line of the caches, with which results begin

LEAST_MEDIUM = 64 << 10
MOST_WAITING = 32 << 20

cdef Waiting waiting
waiting.most_bytes = MOST_WAITING
waiting.give_back = free
guard(&waiting.lock, NULL)


@cython.final
@cython.no_gc
cdef class MediumMemory:
    """At least `size` writable bytes, which begin with a line of the caches; what is in them is anything."""

    cdef Piece piece

    def __cinit__(self, size_t size):
        self.piece = take_waiting(&waiting, size)
        if self.piece.memory != NULL:
            return
        if size <= <size_t> -1 - LINE:
            self.piece.memory = malloc(size + LINE)
            self.piece.size = size
        if self.piece.memory == NULL:
            raise MemoryError(f"no memory for {size} bytes")

    def __dealloc__(self):
        if self.piece.memory != NULL:
            let_wait(&waiting, self.piece)

    def __getbuffer__(self, Py_buffer *view, int flags):
        cdef uintptr_t start = (<uintptr_t> self.piece.memory + LINE - 1) & ~(<uintptr_t> LINE - 1)
        PyBuffer_FillInfo(view, self, <void *> start, <Py_ssize_t> self.piece.size, False, flags)


def forget():
    """Give what waits back to the C library."""
    with nogil:
        give_all_back(&waiting)
