"""What native code needs to write the objects of a `LocalStore` from threads without the GIL."""

from posix.uio cimport iovec


# Put a file in place as a whole, or leave what was there: 0 or errno. ENOENT: the folder is missing.
cdef int replace_file(
    const char *path, const iovec *parts, Py_ssize_t count, bint sync, bint exclusive
) noexcept nogil

# The two halves of `replace_file`: an empty file beside `path`, whose name goes to `temporary` (the descriptor, or
# minus errno); and what was written there in its place (0 or errno; the descriptor is closed, a failure leaves no
# file).
cdef int begin_file(const char *path, char *temporary, Py_ssize_t room) noexcept nogil
cdef int finish_file(int descriptor, const char *temporary, const char *path, bint sync, bint exclusive) noexcept nogil

# Make the folders above an absolute path whose first `root` bytes name the store's folder: 0 or errno. The path is
# changed meanwhile and restored.
cdef int make_folders(char *path, Py_ssize_t root, bint sync) noexcept nogil

# Remove a file: 0, also if there is none, or errno.
cdef int remove_file(const char *path, bint sync) noexcept nogil

# Write the parts one after the other from where the descriptor stands: 0 or errno.
cdef int write_all(int descriptor, const iovec *parts, Py_ssize_t count) noexcept nogil
