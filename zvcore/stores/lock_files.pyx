"""Lock files opened, locked and left, many objects at once, for `locks.py`, which says what they are and what is held.

`take` and `let_go` are one call each, in which no signal's handler runs: an interrupt finds all that was taken told in
`held`, or all that was let go forgotten. Another thread may fork meanwhile; its child looks at the descriptors.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdlib cimport free, malloc

import os


cdef extern from "zv_locks.h" nogil:
    int zv_locks_are_bytes()
    int zv_open_lock_file(const char *path)
    int zv_enter_lock_file(int file, int wait)
    int zv_lock_object(int file, const char *path, int wait)
    int zv_is_lock_file_current(const char *path, int file)
    int zv_is_noted(const char *path)
    int zv_leave_lock_file(const char *path, int file)


# Whether all objects of a folder have bytes of one lock file; else each has a lock file of its own.
ARE_BYTES = zv_locks_are_bytes() != 0


cdef int check(list paths, list files, int[::1] of_file, int[::1] descriptors) except -1:
    cdef bytes path
    cdef list names
    cdef Py_ssize_t i, count = len(files)
    if len(of_file) != len(paths) or len(descriptors) != len(files):
        raise ValueError(f"{len(paths)} locks of {len(of_file)} in {len(files)} files of {len(descriptors)}")
    for names in (paths, files):
        for path in names:
            if path is None:
                raise TypeError("a lock without a path")
    for i in range(of_file.shape[0]):
        if not 0 <= of_file[i] < count:
            raise ValueError(f"lock file {of_file[i]} of {count}")
    return 0


cdef const char **c_paths(list paths) except NULL:
    cdef const char **found = <const char **> malloc((len(paths) + 1) * sizeof(char *))
    cdef Py_ssize_t i
    if found == NULL:
        raise MemoryError
    for i in range(len(paths)):
        found[i] = PyBytes_AS_STRING(paths[i])
    return found


cdef bint opened(const char *path, int *descriptor) noexcept nogil:
    """Whether the lock file is open and nobody removes it. `descriptor` is written as soon as there is one, and as long
    as there is one: a child process closes it.
    """
    cdef int file = descriptor[0]
    if file >= 0:
        return True
    file = zv_open_lock_file(path)
    descriptor[0] = file
    if file < 0:
        return False
    if zv_enter_lock_file(file, 0) == 0 and zv_is_lock_file_current(path, file):
        return True
    descriptor[0] = -1
    zv_leave_lock_file(path, file)
    return False


def take(list paths not None, list files not None, int[::1] of_file not None, int[::1] descriptors not None,
         Py_ssize_t first, dict held not None, thread):
    """Take the locks of the objects whose notes would be at these paths, from the `first` on, until one is not to be
    had at once, or something is noted about its object: how many are held.

    `of_file` has the number of each one's lock file. `descriptors`, which are -1, become those of the open files, each
    at once; `held` gets the path of each, with the thread and the descriptor.
    """
    cdef Py_ssize_t i, taken = first, count = len(paths)
    check(paths, files, of_file, descriptors)
    if not 0 <= first <= count:
        raise ValueError(f"lock {first} of {count}")
    cdef const char **names = c_paths(paths)
    cdef const char **places = NULL
    try:
        places = c_paths(files)
        with nogil:
            while taken < count:
                i = of_file[taken]
                if not opened(places[i], &descriptors[i]):
                    break
                # One that is noted is looked at by who waits for it: that it is locked now does not hinder that.
                if zv_lock_object(descriptors[i], names[taken], 0) != 0 or zv_is_noted(names[taken]):
                    break
                taken += 1
        for i in range(first, taken):
            held[paths[i]] = (thread, descriptors[of_file[i]])
    finally:
        free(names)
        free(places)
    return taken


def let_go(list paths not None, list files not None, int[::1] of_file not None, int[::1] descriptors not None,
           dict held not None):
    """Give up the locks of these objects, and remove their lock files unless others are at them; all descriptors become
    -1. OSError for the first file that could not be removed.
    """
    cdef Py_ssize_t i, failing = 0
    cdef int failed = 0, one, file
    check(paths, files, of_file, descriptors)
    cdef const char **places = c_paths(files)
    # Before the files go: from then on another thread may enter itself.
    for i in range(len(paths)):
        entry = held.get(paths[i])
        if entry is not None and entry[1] == descriptors[of_file[i]]:
            del held[paths[i]]
    with nogil:
        for i in range(descriptors.shape[0]):
            file = descriptors[i]
            if file < 0:
                continue
            one = zv_leave_lock_file(places[i], file)
            descriptors[i] = -1
            if failed == 0 and one != 0:
                failed = one
                failing = i
    free(places)
    if failed != 0:
        raise OSError(failed, os.strerror(failed), os.fsdecode(files[failing]))


cdef bint answered(int failed) except -1:
    if failed == EAGAIN:
        return False
    if failed == EINTR:
        PyErr_CheckSignals()
    elif failed != 0:
        raise OSError(failed, os.strerror(failed))
    return True


def open_file(bytes path not None):
    """The descriptor of a lock file, which is made where it is missing. OSError."""
    cdef int file
    cdef const char *name = path
    cdef int failed
    with nogil:
        file = zv_open_lock_file(name)
        failed = errno
    if file < 0:
        raise OSError(failed, os.strerror(failed), os.fsdecode(path))
    return file


def enter(int descriptor, bint wait):
    """Whether nobody else removes this lock file from now on. OSError where there are no locks."""
    cdef int failed = EINTR
    while failed == EINTR:
        with nogil:
            failed = zv_enter_lock_file(descriptor, wait)
        answered(failed)
    return failed == 0


def lock(int descriptor, bytes path not None, bint wait):
    """Whether the lock of the object whose note would be at this path is ours, in its lock file that was entered."""
    cdef int failed = EINTR
    cdef const char *name = path
    while failed == EINTR:
        with nogil:
            failed = zv_lock_object(descriptor, name, wait)
        answered(failed)
    return failed == 0


def is_current(bytes path not None, int descriptor):
    """Whether the path leads to this open lock file."""
    return zv_is_lock_file_current(path, descriptor) != 0


def is_noted(bytes path not None):
    """Whether something lies where a writer would have left its note."""
    return zv_is_noted(path) != 0


def leave(bytes path not None, int descriptor):
    """Give up all locks of an open lock file and close it; it is removed unless others are at it."""
    cdef const char *name = path
    cdef int failed
    with nogil:
        failed = zv_leave_lock_file(name, descriptor)
    if failed != 0:
        raise OSError(failed, os.strerror(failed), os.fsdecode(path))
