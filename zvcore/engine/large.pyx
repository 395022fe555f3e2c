"""Memory for large results. One piece is kept when its result is gone: to get new pages takes as long as to fill them.

Up to `LEAST` bytes the C library keeps memory itself. While a piece is kept, the system may have its pages back.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo

from zvcore.system.atomics cimport zv_put_pointer, zv_take_pointer

cdef extern from "zv_large.h" nogil:
    ctypedef struct zv_large:
        char *data
        size_t size
    zv_large *zv_large_new(size_t size)
    void zv_large_free(zv_large *large)
    void zv_large_rest(zv_large *large)

LEAST = 32 << 20
MOST = 256 << 20

# One piece for the process, or NULL.
cdef void *idle = NULL


@cython.final
@cython.no_gc
cdef class LargeMemory:
    """At least `size` writable bytes, which begin with a page; what is in them is anything."""

    cdef zv_large *large

    def __cinit__(self, size_t size):
        cdef zv_large *kept = <zv_large *> zv_take_pointer(&idle)
        if kept != NULL and kept.size // 2 <= size <= kept.size:
            self.large = kept
            return
        if kept != NULL:
            zv_large_free(kept)
        self.large = zv_large_new(size)
        if self.large == NULL:
            raise MemoryError(f"no memory for {size} bytes")

    def __dealloc__(self):
        if self.large == NULL:
            return
        zv_large_rest(self.large)
        if not zv_put_pointer(&idle, self.large):
            zv_large_free(self.large)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.large.data, <Py_ssize_t> self.large.size, False, flags)


def forget():
    """Give the memory that is kept back to the system."""
    cdef zv_large *kept = <zv_large *> zv_take_pointer(&idle)
    if kept != NULL:
        zv_large_free(kept)
