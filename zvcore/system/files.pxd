"""The functions of `zv_files.h`, where each is explained. Plain calls to the system are in Cython's own `posix`."""

from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef extern from "zv_files.h" nogil:
    # The identity of a file's content. Its bytes are what `LocalStore.stamp` returns.
    ctypedef struct file_stamp "zv_file_stamp":
        uint64_t device
        uint64_t inode
        uint64_t size
        uint64_t modified
        uint64_t changed

    # What a file is, and which.
    ctypedef struct file_kind "zv_file_kind":
        uint32_t mode
        uint64_t inode
        uint64_t size
        int64_t modified

    const uint64_t ZV_STAMP_TICK
    int zv_stat(const char *path, file_stamp *stamp)
    int zv_fstat(int descriptor, file_stamp *stamp)
    int zv_size_of(int descriptor, uint64_t *size)
    int zv_open_beneath(int folder, const char *path, int flags)
    int zv_open_kind_beneath(int folder, const char *above, const char *name, int folder_flags, int flags,
                             int *descriptor, file_kind *kind)
    int zv_open_at(int folder, const char *path, int flags)
    int zv_open(const char *path, int flags)
    bint zv_is_file_at(int folder, const char *path)
    bint zv_is_plain_file_at(int folder, const char *path)
    void zv_touch(int descriptor)
    uint64_t zv_stamp_clock()
    int zv_random_name(char *out, int taken)
    int zv_exchange_at(int folder, const char *first, const char *second)
    int zv_name_new_at(int folder, const char *first, const char *second)
    void zv_begin_writing(int descriptor)
    int64_t zv_copy_between(int source, int target, uint64_t at, size_t most)
    bint zv_in_memory(int descriptor)
    int zv_device_at(int folder, const char *path, uint64_t *device)
    int zv_make_parents(char *path, size_t *made)


# What Cython's `posix` lacks.
cdef extern from "<unistd.h>" nogil:
    int linkat(int folder, const char *path, int folder2, const char *path2, int flags)
    int unlinkat(int folder, const char *path, int flags)


cdef extern from "<stdio.h>" nogil:
    int renameat(int folder, const char *path, int folder2, const char *path2)
