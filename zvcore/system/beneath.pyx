"""Opening what lies below a folder; the system makes sure that there is no link on the way."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.errno cimport ENOSYS

import os

from zvcore.system.files cimport file_kind, zv_open_beneath, zv_open_kind_beneath


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


def open_kind_beneath(int folder, above: bytes, name: bytes, int folder_flags, int flags):
    """(a descriptor of the file or folder, -1 where it is anything else; its mode, inode, size, and when it was changed
    in nanoseconds), all by one call. Errors as of `open_beneath`.
    """
    cdef const char *where = PyBytes_AS_STRING(above)
    cdef const char *called = PyBytes_AS_STRING(name)
    cdef int descriptor, code
    cdef file_kind kind
    if b"\0" in above or b"\0" in name:
        raise ValueError("a path has no NUL characters")
    with nogil:
        code = zv_open_kind_beneath(folder, where, called, folder_flags, flags, &descriptor, &kind)
    if code == ENOSYS:
        raise NotImplementedError("this system has no openat2")
    if code:
        raise OSError(code, os.strerror(code))
    return descriptor, kind.mode, kind.inode, kind.size, kind.modified
