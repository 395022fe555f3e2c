"""The directory of a zip archive as most are: all of it is checked at once, and an entry is made when it is asked for.

Whatever is unusual or wrong is left to `zip_directory.py`, which says what.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

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
    # So many steps each name may take on average until there is room for it: names may be chosen to get into each
    # other's way.
    STEPS = 8

cdef uint64_t WIDE = 0xFFFFFFFF
cdef uint64_t LARGEST = <uint64_t> 1 << 60
# Odd numbers whose bits look random.
cdef extern from *:
    """
    #define ZV_SPREAD UINT64_C(0x9E3779B97F4A7C15)
    #define ZV_SPREAD_AGAIN UINT64_C(0xBF58476D1CE4E5B9)
    """
    uint64_t SPREAD "ZV_SPREAD"
    uint64_t SPREAD_AGAIN "ZV_SPREAD_AGAIN"


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


cdef inline uint64_t place_of(const uint8_t *name, Py_ssize_t n) noexcept nogil:
    """A number that differs from that of nearly all other names, in its upper bits, too."""
    cdef uint64_t mixed = <uint64_t> n * SPREAD, part
    cdef Py_ssize_t at = 0
    while at < n:
        part = 0
        memcpy(&part, name + at, min(8, n - at))
        mixed = (mixed ^ part) * SPREAD
        mixed ^= mixed >> 29
        at += 8
    return mixed * SPREAD_AGAIN


cdef class UsualEntries:
    """The entries of a directory by their names: tuples of the type that `read` is given."""

    cdef bytes raw
    cdef type entry
    # Of each: where its header begins, how many bytes it has, their checksum, and where the next one begins.
    cdef int64_t[::1] at, stored, size, crc, method, limit
    # Where its name lies in `raw`, and how long that is.
    cdef int64_t[::1] name_at, name_size
    cdef Py_ssize_t count
    # The numbers of entries + 1, at or behind the places of their names; 0 is free. There are 2**(64 - unused_bits).
    cdef uint32_t[::1] slots
    cdef int unused_bits
    cdef dict made

    def read(self, bytes raw not None, Py_ssize_t count, int64_t shift, int64_t end, type entry not None):
        """False where anything is unusual or wrong, or two have the same name: then there are none. The last one's
        limit is `end`.
        """
        self.made, self.count = None, 0
        if count < 0 or count > PyBytes_GET_SIZE(raw) // RECORD:
            return False
        self.raw, self.entry = raw, entry
        self.make_room(count)
        if not self.read_records(count, shift) or not self.set_limits(end):
            self.count = 0
            return False
        self.made = {}
        return True

    cdef int make_room(self, Py_ssize_t count) except -1:
        cdef int bits = 4
        while (<Py_ssize_t> 1 << bits) < 2 * count:
            bits += 1
        self.unused_bits = 64 - bits
        self.slots = np.zeros(1 << bits, np.uint32)
        table = np.empty((8, count), np.int64)
        self.at, self.stored, self.size, self.crc, self.method, self.limit, self.name_at, self.name_size = table
        return 0

    cdef bint read_records(self, Py_ssize_t count, int64_t shift) noexcept:
        cdef const uint8_t *data = <const uint8_t *> PyBytes_AS_STRING(self.raw)
        cdef const uint8_t *record
        cdef Py_ssize_t n = PyBytes_GET_SIZE(self.raw), at = 0, behind, kept, name_size, extra_size, _number
        cdef Py_ssize_t steps = STEPS * (count + 8)
        cdef uint64_t size, stored, offset
        cdef uint64_t *numbers[3]
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
            kept, at = self.count, behind + extra_size + two(record + 32)
            if record[RECORD + name_size - 1] == b"/" and size == 0:
                continue        # a folder
            self.method[kept] = two(record + 10)
            if self.method[kept] == STORED and stored != size or (
                    self.method[kept] == DEFLATED and size > stored * MOST_SHRUNK):
                return False
            if check_key(<const char *> record + RECORD, name_size) != 0:
                return False
            self.at[kept] = <int64_t> offset + shift
            self.stored[kept], self.size[kept], self.crc[kept] = stored, size, four(record + 16)
            self.name_at[kept], self.name_size[kept] = behind - name_size, name_size
            if not self.add(record + RECORD, name_size, &steps):
                return False
        return True

    cdef bint add(self, const uint8_t *name, Py_ssize_t n, Py_ssize_t *steps) noexcept:
        """Of a name the next number; False where it has one already, or finding a slot takes too long."""
        cdef Py_ssize_t slot = self.slot_of(name, n, steps)
        if slot < 0 or self.slots[slot] != 0:
            return False
        self.count += 1
        self.slots[slot] = <uint32_t> self.count
        return True

    cdef Py_ssize_t slot_of(self, const uint8_t *name, Py_ssize_t n, Py_ssize_t *steps) noexcept:
        """The slot that is a name's, or the free one that may be; -1 where that takes more than these steps."""
        cdef const uint8_t *data = <const uint8_t *> PyBytes_AS_STRING(self.raw)
        cdef Py_ssize_t slot = <Py_ssize_t> (place_of(name, n) >> self.unused_bits), i
        while steps[0] > 0:
            if self.slots[slot] == 0:
                return slot
            i = <Py_ssize_t> self.slots[slot] - 1
            if self.name_size[i] == n and memcmp(data + self.name_at[i], name, n) == 0:
                return slot
            slot = (slot + 1) & (self.slots.shape[0] - 1)
            steps[0] -= 1
        return -1

    cdef bint set_limits(self, int64_t end) except -1:
        """Where the next one of each begins; False if one reaches into that."""
        cdef Py_ssize_t i, n = self.count
        cdef int64_t[::1] order
        cdef bint in_order = True
        for i in range(1, n):
            in_order &= self.at[i - 1] < self.at[i]
        if in_order:
            for i in range(n - 1, -1, -1):
                self.limit[i] = end if i == n - 1 else self.at[i + 1]
        else:
            order = np.argsort(np.asarray(self.at)[:n], kind="stable")
            for i in range(n - 1, -1, -1):
                self.limit[order[i]] = end if i == n - 1 else self.at[order[i + 1]]
        for i in range(n):
            if self.at[i] < 0 or self.at[i] + HEADER + self.stored[i] > self.limit[i]:
                return False
        return True

    # --- as a mapping

    def get(self, name, default=None):
        cdef PyObject *made
        cdef Py_ssize_t slot, steps, i
        cdef bytes raw
        if self.made is None:
            return default      # nothing was read
        made = PyDict_GetItem(self.made, name)
        if made != NULL:
            return <object> made
        if not isinstance(name, str) or not (<str> name).isascii():
            return default
        raw = (<str> name).encode("ascii")
        # All that are there were found in fewer.
        steps = self.slots.shape[0]
        slot = self.slot_of(<const uint8_t *> PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw), &steps)
        if slot < 0 or self.slots[slot] == 0:
            return default
        i = <Py_ssize_t> self.slots[slot] - 1
        found = self.made[name] = tuple.__new__(self.entry, (
            self.at[i], self.stored[i], self.size[i], self.crc[i], self.method[i], self.limit[i],
        ))
        return found

    def __getitem__(self, name):
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name):
        return self.get(name) is not None

    def __len__(self):
        return self.count

    def __iter__(self):
        cdef Py_ssize_t i
        for i in range(self.count):
            yield PyUnicode_DecodeASCII(PyBytes_AS_STRING(self.raw) + self.name_at[i], self.name_size[i], NULL)
