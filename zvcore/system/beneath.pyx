"""Opening what lies below a folder; the system makes sure that there is no link on the way."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.errno cimport ENOSYS

import os

from zvcore.system.files cimport zv_open_beneath


def open_beneath(int folder, path: bytes, int flags) -> int:
    """A descriptor. OSError: ELOOP for a link on the way; NotImplementedError where the system cannot do it."""
    cdef const char *where = PyBytes_AS_STRING(path)
    cdef int descriptor
    if b"\0" in path:
        raise ValueError("a path has no NUL characters")
    with nogil:
        descriptor = zv_open_beneath(folder, where, flags)
    if descriptor == -ENOSYS:
        raise NotImplementedError("this system has no openat2")
    if descriptor < 0:
        raise OSError(-descriptor, os.strerror(-descriptor))
    return descriptor
