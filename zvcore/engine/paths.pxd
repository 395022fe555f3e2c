from zvcore.engine.buffers cimport Keys
from zvcore.system.scratch cimport Scratch


cdef class Paths:
    cdef Keys keys
    cdef bytes root
    cdef const char *folder
    cdef Py_ssize_t length

    # The path of an object, in the scratch memory; NULL when memory is short.
    cdef char *write(self, Scratch *scratch, Py_ssize_t i) noexcept nogil
