"""Lock files taken and removed many at once, for `locks.py`, which says what they are."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdlib cimport free, malloc

import os


cdef extern from "zv_locks.h" nogil:
    void zv_take_lock(const char *path, int *descriptor)
    int zv_let_lock_go(const char *path, int *descriptor)


cdef const char **c_paths(list paths) except NULL:
    cdef const char **found = <const char **> malloc((len(paths) + 1) * sizeof(char *))
    cdef bytes path
    if found == NULL:
        raise MemoryError
    for i, path in enumerate(paths):
        found[i] = PyBytes_AS_STRING(path)
    return found


def take(list paths not None, int[::1] descriptors not None):
    """Take the locks of these lock files, in this order, until one is not to be had at once: how many were taken.

    `descriptors`, which are -1, become those of the open files, each at once.
    """
    cdef Py_ssize_t taken = 0, count = len(paths)
    if len(descriptors) != count:
        raise ValueError(f"{count} lock files and {len(descriptors)} descriptors")
    cdef const char **names = c_paths(paths)
    with nogil:
        while taken < count:
            zv_take_lock(names[taken], &descriptors[taken])
            if descriptors[taken] < 0:
                break
            taken += 1
    free(names)
    return taken


def let_go(list paths not None, int[::1] descriptors not None):
    """Remove these lock files and give up their locks, of which all descriptors become -1. OSError for the first that
    could not be removed.
    """
    cdef Py_ssize_t i, failing = 0, count = len(paths)
    cdef int failed = 0, one
    if len(descriptors) != count:
        raise ValueError(f"{count} lock files and {len(descriptors)} descriptors")
    cdef const char **names = c_paths(paths)
    with nogil:
        for i in range(count):
            one = zv_let_lock_go(names[i], &descriptors[i])
            if failed == 0 and one != 0:
                failed = one
                failing = i
    free(names)
    if failed != 0:
        raise OSError(failed, os.strerror(failed), os.fsdecode(paths[failing]))
