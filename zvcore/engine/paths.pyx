"""Where the objects of a local store lie."""

cimport cython
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


def existing(Keys keys not None, bytes root not None):
    """Which of these objects of a local store there are: bool[n]. The system is asked once for each."""
    cdef Paths paths = Paths(keys, root)
    cdef uint8_t[::1] there
    cdef file_stamp found
    cdef Scratch scratch
    cdef Py_ssize_t i = 0
    cdef int code = 0
    cdef char *path = NULL
    result = np.zeros(len(paths), np.bool_)
    there = result.view(np.uint8)
    memset(&scratch, 0, sizeof(Scratch))
    with nogil:
        while i < keys.count:
            path = paths.write(&scratch, i)
            if path == NULL:
                break
            code = stamp_object(path, &found)
            there[i] = code == 0
            if code != 0 and not absent(code):
                break
            i += 1
        discard(&scratch)
    if i < keys.count:
        if path == NULL:
            raise MemoryError
        raise failure(code, paths[i])
    return result
