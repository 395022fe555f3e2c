"""Lock files taken and removed many at once, for `locks.py`, which says what they are and what `held` is.

Each of these is one call, in which no signal's handler runs: an interrupt finds all that was taken told in `held`, or
all that was let go forgotten. Another thread may fork meanwhile; its child looks at the descriptors.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdlib cimport free, malloc

import os


cdef extern from "zv_locks.h" nogil:
    void zv_take_lock(const char *path, int *descriptor)
    int zv_let_lock_go(const char *path, int *descriptor)


cdef int check(list paths, int[::1] descriptors) except -1:
    cdef bytes path
    if len(descriptors) != len(paths):
        raise ValueError(f"{len(paths)} lock files and {len(descriptors)} descriptors")
    for path in paths:
        if path is None:
            raise TypeError("a lock file without a path")
    return 0


cdef const char **c_paths(list paths) except NULL:
    cdef const char **found = <const char **> malloc((len(paths) + 1) * sizeof(char *))
    cdef Py_ssize_t i
    if found == NULL:
        raise MemoryError
    for i in range(len(paths)):
        found[i] = PyBytes_AS_STRING(paths[i])
    return found


def take(list paths not None, int[::1] descriptors not None, Py_ssize_t first, dict held not None, thread):
    """Take the locks of these lock files, from the `first` on, until one is not to be had at once: how many are held.

    `descriptors`, which are -1, become those of the open files, each at once; `held` gets the path of each, with the
    thread and the descriptor.
    """
    cdef Py_ssize_t i, taken = first, count = len(paths)
    check(paths, descriptors)
    if not 0 <= first <= count:
        raise ValueError(f"lock file {first} of {count}")
    cdef const char **names = c_paths(paths)
    with nogil:
        while taken < count:
            zv_take_lock(names[taken], &descriptors[taken])
            if descriptors[taken] < 0:
                break
            taken += 1
    try:
        for i in range(first, taken):
            held[paths[i]] = (thread, descriptors[i])
    except BaseException:
        for i in range(first, taken):
            held.pop(paths[i], None)
        with nogil:
            for i in range(first, taken):
                zv_let_lock_go(names[i], &descriptors[i])
        raise
    finally:
        free(names)
    return taken


def let_go(list paths not None, int[::1] descriptors not None, dict held not None):
    """Remove those of these lock files that are `held`, there and in the file system, and give up their locks; all
    descriptors become -1. OSError for the first that could not be removed.
    """
    cdef Py_ssize_t i, failing = 0, count = len(paths)
    cdef int failed = 0, one
    check(paths, descriptors)
    cdef const char **names = c_paths(paths)
    # Before the files go: from then on another thread may enter itself.
    for i in range(count):
        if descriptors[i] >= 0:
            entry = held.get(paths[i])
            if entry is not None and entry[1] == descriptors[i]:
                del held[paths[i]]
            else:
                descriptors[i] = -1  # a forked child leaves its parent's block
    with nogil:
        for i in range(count):
            one = zv_let_lock_go(names[i], &descriptors[i])
            if failed == 0 and one != 0:
                failed = one
                failing = i
    free(names)
    if failed != 0:
        raise OSError(failed, os.strerror(failed), os.fsdecode(paths[failing]))
