"""What native code needs to reach the objects of a `LocalStore` from threads without the GIL."""

from libc.stdint cimport int64_t, uint64_t

from zvcore.system.files cimport file_stamp


# 0 for a valid key, else why it is none: a value of `refusal` in files.pyx. `key` is UTF-8 and need not end with NUL.
cdef int check_key(const char *key, Py_ssize_t size) noexcept nogil

# An open file descriptor with its stamp, or minus errno. Anything but a regular file is -ENOENT.
cdef int open_object(const char *path, file_stamp *stamp) noexcept nogil

# 0 with the stamp filled in, or errno. Anything but a regular file is ENOENT.
cdef int stamp_object(const char *path, file_stamp *stamp) noexcept nogil

# How many bytes were read (fewer only at the end of the file), or minus errno.
cdef int64_t read_at(int descriptor, void *into, uint64_t size, uint64_t offset) noexcept nogil

# errno of a call that has just failed, never 0; the same as an OSError; and whether it only means that there is no such
# object.
cdef int last_error() noexcept nogil
cdef object failure(int code, bytes path)
cdef bint absent(int code) noexcept nogil


cdef class Watched:
    cdef readonly bytes path
    cdef public bytes stamp


cdef class OpenFile:
    cdef object __weakref__
    cdef int descriptor
    cdef file_stamp first           # as it was when it was opened
    cdef readonly bytes path

    cdef bint is_same(self, const file_stamp *found) noexcept nogil
    cdef bytes read_some(self, uint64_t whole, start, length)
