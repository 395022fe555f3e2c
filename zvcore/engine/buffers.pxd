from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef class Keys:
    """Names of objects in a store, in one block of memory: no Python object is made for a key."""
    cdef readonly object pool           # uint8: the keys, a NUL after each
    cdef readonly object ends           # int64[n]: where each key ends (its NUL)
    cdef Py_ssize_t count
    cdef const uint8_t *bytes
    cdef const int64_t *stops
    cdef const char *at(self, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t length(self, Py_ssize_t i) noexcept nogil


cdef class Buffers:
    """Byte strings that the engine's threads made; each is one block of C memory, as `byte_blocks` has them."""
    cdef Py_ssize_t count
    cdef uint8_t **data
    cdef uint64_t *size                 # ZV_SIZE_UNKNOWN: there is none
    cdef int store(self, Py_ssize_t i, const uint8_t *head, uint64_t head_size, const uint8_t *body,
                   uint64_t body_size) noexcept nogil
    # Memory for entry i, which is absent until its size is set; NULL when memory is short.
    cdef uint8_t *reserve(self, Py_ssize_t i, uint64_t size) noexcept nogil
    # What is done with entry i; its size stays.
    cdef void drop(self, Py_ssize_t i) noexcept nogil
