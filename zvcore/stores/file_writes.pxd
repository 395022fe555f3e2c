"""What native code needs to write the objects of a `LocalStore` from threads without the GIL."""

from posix.uio cimport iovec

# How a file takes the place of an older one; zvcore/stores/durability.py names and explains each way.
cdef enum:
    DURABILITY_NONE = 0
    DURABILITY_LATE = 1
    DURABILITY_RENAME = 2
    DURABILITY_FSYNC = 3


cdef enum:
    LONGEST_PATH = 4096


# A folder that is kept open, so that many files in it are found at once. All zeros: none.
cdef struct Folder:
    int descriptor
    Py_ssize_t length               # of its path, with the slash at the end; 0: none is open
    char path[LONGEST_PATH]

# Have the folder of this file open: 0 or errno. The file's name begins behind `folder.length` bytes of its path. And
# close it.
cdef int reach_folder(Folder *folder, const char *path) noexcept nogil
cdef void leave_folder(Folder *folder) noexcept nogil

# Put a file in place as a whole, or leave what was there: 0 or errno. Missing folders above it are made: see
# `make_folders`. Afterwards `folder` is the one that the file is in.
cdef int replace_in_folder(
    Folder *folder, char *path, Py_ssize_t root, const iovec *parts, Py_ssize_t count, int durability
) noexcept nogil

# The two halves of putting a file in place. The first makes an empty file beside `path` and puts its name into
# `temporary`: the descriptor, or minus errno (ENOENT: the folder is missing). The second moves the written file into
# place: 0 or errno. It closes the descriptor and, after a failure, removes the file. Relative paths begin in `folder`;
# absolute ones need none (NULL).
cdef int begin_file(const Folder *folder, const char *path, char *temporary, Py_ssize_t room) noexcept nogil
cdef int finish_file(
    int descriptor, const Folder *folder, const char *temporary, const char *path, int durability, bint exclusive
) noexcept nogil

# Make the folders above an absolute path whose first `root` bytes name the store's folder: 0 or errno. The path is
# changed on the way and restored.
cdef int make_folders(char *path, Py_ssize_t root, bint sync) noexcept nogil

# Remove a file: 0, even if there is none, or errno.
cdef int remove_file(Folder *folder, const char *path, bint sync) noexcept nogil

# Write the parts one after the other from where the descriptor stands: 0 or errno.
cdef int write_all(int descriptor, const iovec *parts, Py_ssize_t count) noexcept nogil
