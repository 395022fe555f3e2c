"""Memory for large results, in huge pages where the system has them: to get new pages takes as long as to fill them.

For smaller ones there is `medium.pyx`. While a piece waits, the system may have its pages back.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo

from zvcore.engine.waiting cimport Piece, Waiting, give_all_back, let_wait, take_waiting
from zvcore.system.fork cimport guard

cdef extern from "zv_large.h" nogil:
    ctypedef struct zv_large:
        char *data
        size_t size
    zv_large *zv_large_new(size_t size)
    void zv_large_free(zv_large *large)
    void zv_large_rest(zv_large *large)

LEAST = 4 << 20
MOST = 256 << 20                    # of one result, and of what waits


cdef void give_back(void *large) noexcept nogil:
    zv_large_free(<zv_large *> large)


cdef Waiting waiting
waiting.most_bytes = MOST
waiting.give_back = give_back
guard(&waiting.lock, NULL)


@cython.final
@cython.no_gc
cdef class LargeMemory:
    """At least `size` writable bytes, which begin with a page; what is in them is anything."""

    cdef zv_large *large

    def __cinit__(self, size_t size):
        self.large = <zv_large *> take_waiting(&waiting, size).memory
        if self.large == NULL:
            self.large = zv_large_new(size)
        if self.large == NULL:
            raise MemoryError(f"no memory for {size} bytes")

    def __dealloc__(self):
        cdef Piece piece
        if self.large == NULL:
            return
        zv_large_rest(self.large)
        piece.memory = self.large
        piece.size = self.large.size
        let_wait(&waiting, piece)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.large.data, <Py_ssize_t> self.large.size, False, flags)


def forget():
    """Give the memory that waits back to the system."""
    with nogil:
        give_all_back(&waiting)
