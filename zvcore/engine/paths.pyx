"""Where the objects of a local store lie."""

cimport cython
from libc.string cimport memcpy

from zvcore.engine.buffers cimport Keys
from zvcore.system.scratch cimport Scratch, reserve

import os


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
