"""Where the objects of a local store lie."""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uint8_t
from libc.string cimport memcpy, memset

from zvcore.engine.buffers cimport Keys
from zvcore.stores.files cimport absent, failure, stamp_object
from zvcore.system.files cimport file_stamp
from zvcore.system.scratch cimport Scratch, discard, reserve

import os

import numpy as np


@cython.final
cdef class Paths:
    """The paths of objects below the folder of a local store, made where a thread needs one."""

    def __cinit__(self, Keys keys not None, bytes root not None):
        self.keys = keys
        self.root = root
        self.folder = root
        self.length = len(root)

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, Py_ssize_t i):
        return self.root + b"/" + os.fsencode(self.keys[i])

    cdef char *write(self, Scratch *scratch, Py_ssize_t i) noexcept nogil:
        cdef Py_ssize_t length = self.keys.length(i)
        cdef char *path = <char *> reserve(scratch, self.length + 1 + length + 1)
        if path != NULL:
            memcpy(path, self.folder, self.length)
            path[self.length] = b"/"
            memcpy(path + self.length + 1, self.keys.at(i), length + 1)
        return path


cdef enum:
    # So many objects are looked for before signals are seen: a file system on a network may take a second for them.
    LOOKED_FOR_AT_ONCE = 1024
    NO_MEMORY = -1


def existing(Keys keys not None, bytes root not None):
    """Which of these objects of a local store there are: bool[n]. The system is asked once for each."""
    cdef Paths paths = Paths(keys, root)
    cdef uint8_t[::1] there
    cdef Scratch scratch
    cdef Py_ssize_t i = 0
    cdef int code = 0
    result = np.zeros(len(paths), np.bool_)
    there = result.view(np.uint8)
    memset(&scratch, 0, sizeof(Scratch))
    try:
        while code == 0 and i < keys.count:
            with nogil:
                code = look_for(paths, &scratch, there, &i, min(i + LOOKED_FOR_AT_ONCE, keys.count))
            PyErr_CheckSignals()
    finally:
        discard(&scratch)
    if code == NO_MEMORY:
        raise MemoryError
    if code != 0:
        raise failure(code, paths[i])
    return result


cdef int look_for(
    Paths paths, Scratch *scratch, uint8_t[::1] there, Py_ssize_t *i, Py_ssize_t stop
) noexcept nogil:
    """Note which objects there are from `i` on: 0, or what is wrong with the one at which it stands then."""
    cdef file_stamp found
    cdef char *path
    cdef int code
    while i[0] < stop:
        path = paths.write(scratch, i[0])
        if path == NULL:
            return NO_MEMORY
        code = stamp_object(path, &found)
        if code != 0 and not absent(code):
            return code
        there[i[0]] = code == 0
        i[0] += 1
    return 0
