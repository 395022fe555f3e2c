"""The memory that users hand in and get back."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t


# The bytes of any buffer; release the view.
cdef int get_input(object data, Py_buffer *view) except -1
# The memory of a writable contiguous buffer; release the view.
cdef int get_output(object out, Py_buffer *view) except -1

# A byte string that is still to be filled, its memory, and the object of its final size, which takes over the
# reference.
cdef PyObject *new_bytes(uint64_t size) except NULL
cdef char *text_of(PyObject *string) noexcept nogil
cdef object finished(PyObject *string, uint64_t size)


cdef inline bint overlapping(const Py_buffer *a, const Py_buffer *b) noexcept nogil:
    cdef const char *x = <const char *> a.buf
    cdef const char *y = <const char *> b.buf
    return a.len > 0 and b.len > 0 and x < y + b.len and y < x + a.len
