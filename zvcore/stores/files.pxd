"""What native code needs to reach the objects of a `LocalStore` from threads without the GIL."""

from libc.stdint cimport int64_t, uint64_t
from posix.uio cimport iovec

from zvcore.system.files cimport file_stamp


# 0, or why this is no key: one of the values of `refusal` in files.pyx. `key` is UTF-8 and need not end with NUL.
cdef int check_key(const char *key, Py_ssize_t size) noexcept nogil

# An open file descriptor with its stamp, or minus errno. Anything but a regular file is -ENOENT.
cdef int open_object(const char *path, file_stamp *stamp) noexcept nogil

# 0 with the stamp filled in, or errno. Anything but a regular file is ENOENT.
cdef int stamp_object(const char *path, file_stamp *stamp) noexcept nogil

# How many bytes were read (fewer only at the end of the file), or minus errno.
cdef int64_t read_at(int descriptor, void *into, uint64_t size, uint64_t offset) noexcept nogil

# Put a file in place as a whole, or leave what was there: 0 or errno. ENOENT: the folder is missing.
cdef int replace_file(
    const char *path, const iovec *parts, Py_ssize_t count, bint sync, bint exclusive
) noexcept nogil

# The two halves of `replace_file`: an empty file beside `path`, whose name goes to `temporary` (the descriptor, or
# minus errno); and what was written there in its place (0 or errno; the descriptor is closed, a failure leaves no
# file).
cdef int begin_file(const char *path, char *temporary, Py_ssize_t room) noexcept nogil
cdef int finish_file(int descriptor, const char *temporary, const char *path, bint sync, bint exclusive) noexcept nogil

# Write the parts one after the other from where the descriptor stands: 0 or errno.
cdef int write_all(int descriptor, const iovec *parts, Py_ssize_t count) noexcept nogil


cdef class OpenFile:
    cdef object __weakref__
    cdef int descriptor
    cdef file_stamp first           # as it was when it was opened
    cdef readonly bytes path

    cdef bint is_same(self, const file_stamp *found) noexcept nogil
    cdef bytes read_some(self, uint64_t whole, start, length)
