"""The directory of a zip archive as most are: read as quickly as its names can be made.

Whatever is unusual or wrong is left to `zip_directory.py`, which says what.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from zvcore.stores.files cimport check_key

import numpy as np


cdef enum:
    RECORD = 46             # bytes before an entry's name
    HEADER = 30             # bytes before its name in front of its bytes
    MARK = 0x02014B50
    ENCRYPTED = 1
    STORED = 0
    DEFLATED = 8
    MOST_SHRUNK = 1032

cdef uint64_t WIDE = 0xFFFFFFFF
cdef uint64_t LARGEST = <uint64_t> 1 << 60


cdef inline uint16_t two(const uint8_t *at) noexcept nogil:
    return <uint16_t> (at[0] | at[1] << 8)


cdef inline uint32_t four(const uint8_t *at) noexcept nogil:
    return <uint32_t> two(at) | <uint32_t> two(at + 2) << 16


cdef inline uint64_t eight(const uint8_t *at) noexcept nogil:
    return <uint64_t> four(at) | <uint64_t> four(at + 4) << 32


cdef bint widen(const uint8_t *extra, Py_ssize_t n, uint64_t **numbers) noexcept nogil:
    """Put those of three numbers that do not fit into 32 bits where they belong, from the field that has them."""
    cdef Py_ssize_t at = 0, length, wanted = 0
    cdef int i
    for i in range(3):
        wanted += 8 * (numbers[i][0] == WIDE)
    while at + 4 <= n:
        length = two(extra + at + 2)
        if two(extra + at) == 1:
            if length < wanted or at + 4 + length > n:
                return False
            at += 4
            for i in range(3):
                if numbers[i][0] == WIDE:
                    numbers[i][0] = eight(extra + at)
                    at += 8
            return True
        at += 4 + length
    return False


cdef bint is_ascii(const uint8_t *name, Py_ssize_t n) noexcept nogil:
    cdef uint8_t together = 0
    cdef Py_ssize_t i
    for i in range(n):
        together |= name[i]
    return together < 0x80


cdef class Columns:
    """What the directory says of each object: where its header begins, and how many bytes it has."""

    cdef int64_t[::1] at, stored, size, crc, method
    cdef list names

    def __cinit__(self, Py_ssize_t count):
        table = np.empty((5, count), np.int64)
        self.at, self.stored, self.size, self.crc, self.method = table
        self.names = []

    cdef bint read(self, bytes raw, Py_ssize_t count, int64_t shift) except -1:
        """False where something is not as usual."""
        cdef const uint8_t *data = <const uint8_t *> PyBytes_AS_STRING(raw)
        cdef const uint8_t *record
        cdef Py_ssize_t n = PyBytes_GET_SIZE(raw), at = 0, behind, kept = 0, name_size, extra_size, _number
        cdef uint64_t size, stored, offset
        cdef uint64_t *numbers[3]
        cdef str name
        numbers[0], numbers[1], numbers[2] = &size, &stored, &offset
        for _number in range(count):
            record = data + at
            if n - at < RECORD or four(record) != MARK:
                return False
            name_size, extra_size = two(record + 28), two(record + 30)
            behind = at + RECORD + name_size
            if n - behind < extra_size + two(record + 32) or two(record + 8) & ENCRYPTED:
                return False
            stored, size, offset = four(record + 20), four(record + 24), four(record + 42)
            if (size == WIDE or stored == WIDE or offset == WIDE) and not widen(data + behind, extra_size, numbers):
                return False
            if size > LARGEST or stored > LARGEST or offset > LARGEST:
                return False
            # Of other names, a flag says how they are spelled.
            if name_size == 0 or not is_ascii(record + RECORD, name_size):
                return False
            at = behind + extra_size + two(record + 32)
            if record[RECORD + name_size - 1] == b"/" and size == 0:
                continue        # a folder
            self.method[kept] = two(record + 10)
            if self.method[kept] == STORED and stored != size or (
                    self.method[kept] == DEFLATED and size > stored * MOST_SHRUNK):
                return False
            if check_key(<const char *> record + RECORD, name_size) != 0:
                return False
            name = PyUnicode_DecodeUTF8(<const char *> record + RECORD, name_size, NULL)
            self.names.append(name)
            self.at[kept] = <int64_t> offset + shift
            self.stored[kept], self.size[kept], self.crc[kept] = stored, size, four(record + 16)
            kept += 1
        return True

    cdef object limits(self, int64_t end):
        """Where the next one of each begins; None if one reaches into that."""
        cdef Py_ssize_t i, n = len(self.names)
        cdef int64_t[::1] limits = np.empty(n, np.int64)
        cdef int64_t[::1] order
        cdef int64_t limit = end
        order = np.argsort(np.asarray(self.at)[:n], kind="stable")
        for i in range(n - 1, -1, -1):
            limits[order[i]] = limit
            if self.at[order[i]] < 0 or self.at[order[i]] + HEADER + self.stored[order[i]] > limit:
                return None
            limit = self.at[order[i]]
        return limits


def usual_entries(bytes raw not None, Py_ssize_t count, int64_t shift, int64_t end, type entry):
    """The entries of a directory by their names, as tuples of type `entry`, each with its limit, the last one's being
    `end`; None where anything is unusual or wrong, or two have the same name.
    """
    cdef Columns columns
    cdef const int64_t[::1] limits
    cdef Py_ssize_t i
    cdef dict found = {}
    if count > PyBytes_GET_SIZE(raw) // RECORD:
        return None
    columns = Columns(count)
    if not columns.read(raw, count, shift):
        return None
    bounds = columns.limits(end)
    if bounds is None:
        return None
    limits = bounds
    make = tuple.__new__
    for i in range(len(columns.names)):
        found[columns.names[i]] = make(entry, (
            columns.at[i], columns.stored[i], columns.size[i], columns.crc[i], columns.method[i], limits[i],
        ))
    return found if len(found) == len(columns.names) else None
