"""The index of one minishard, and looking up many ids in many of them at once."""

from libc.stdint cimport uint64_t

import numpy as np

from zvcore.errors import CorruptDataError
from zvcore.kernels import decode_minishard_index

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN
from zvcore.engine.buffers cimport Buffers
from zvcore.kernels.hashing cimport murmurhash3_of
from zvcore.kernels.unaligned cimport load_u64

cdef uint64_t ABSENT = <uint64_t>0xFFFFFFFFFFFFFFFF
cdef object LARGEST = 2**64 - 1

cdef enum:
    ENTRY = 24      # bytes of an index for one id

cdef enum:
    FOUND = 0
    MISSING = 1
    TWICE = 2
    OUTSIDE = 3


def place(uint64_t wanted, int preshift, bint hashed, int minishard_bits, int shard_bits):
    """The (shard, minishard) of one id; the bits are those of a `ShardingSpec`."""
    cdef uint64_t value = wanted >> preshift if preshift < 64 else 0
    cdef uint64_t digest = value
    cdef int used = minishard_bits + shard_bits
    if hashed:
        murmurhash3_of(&value, &digest, 1)
    if used < 64:
        digest &= (<uint64_t>1 << used) - 1
    if minishard_bits == 64:
        return 0, digest
    return digest >> minishard_bits, digest & ((<uint64_t>1 << minishard_bits) - 1)


cdef class Minishard:
    """Which ids a minishard holds, in ascending order, and where their values lie in the file.

    Nothing is refused when the index is read but what makes all of it meaningless. An entry that is wrong by itself (it
    points outside the file, its id stands there twice) is an error for callers that ask for that id, so that one
    broken entry does not take the others with it.
    """

    cdef readonly object ids
    cdef readonly object starts
    cdef readonly object sizes
    # Where values may lie: from `base` to `limit`.
    cdef readonly uint64_t base
    cdef readonly uint64_t limit
    cdef readonly bint has_duplicates
    # Whether the ids stood in order, as most writers have them.
    cdef readonly bint ascending
    cdef const uint64_t[::1] _ids
    cdef const uint64_t[::1] _starts
    cdef const uint64_t[::1] _sizes

    def __init__(self, raw, uint64_t base, uint64_t limit):
        """`raw` is the decoded index, offsets in it count from `base`, and the file is `limit` bytes long."""
        cdef Py_ssize_t i, n
        cdef bint ascending = True
        if len(raw) % 24:
            raise CorruptDataError("minishard index: not a whole number of entries", expected="a multiple of 24 bytes",
                                   found=len(raw))
        ids, starts, sizes = decode_minishard_index(raw)
        cdef const uint64_t[::1] view = ids
        n = view.shape[0]
        self.has_duplicates = False
        for i in range(1, n):
            if view[i] <= view[i - 1]:
                ascending = False
                break
        if not ascending:
            order = np.argsort(ids, kind="stable")
            ids, starts, sizes = ids[order], starts[order], sizes[order]
            view = ids
            for i in range(1, n):
                if view[i] == view[i - 1]:
                    self.has_duplicates = True
                    break
        self.ascending = ascending
        self.ids = ids
        self.starts = starts
        self.sizes = sizes
        self._ids = ids
        self._starts = starts
        self._sizes = sizes
        self.base = base
        self.limit = limit

    def __len__(self):
        return self._ids.shape[0]

    @property
    def nbytes(self):
        """The memory this takes, for caches that are bounded by it."""
        return 24 * self._ids.shape[0] + 400

    cdef int search(self, uint64_t wanted, uint64_t *start, uint64_t *size) noexcept nogil:
        """The absolute place of a value."""
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = self._ids.shape[0]
        cdef Py_ssize_t middle
        while low < high:
            middle = (low + high) >> 1
            if self._ids[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        if low == self._ids.shape[0] or self._ids[low] != wanted:
            return MISSING
        start[0] = self._starts[low]
        size[0] = self._sizes[low]
        if self.has_duplicates and low + 1 < self._ids.shape[0] and self._ids[low + 1] == wanted:
            return TWICE
        if self.base > self.limit or start[0] > self.limit - self.base or \
                size[0] > self.limit - self.base - start[0]:
            return OUTSIDE
        start[0] += self.base
        return FOUND

    def find(self, uint64_t wanted):
        """(offset, size) of a value within the file, or None. The id is not known here: callers add it to errors."""
        cdef uint64_t start = 0
        cdef uint64_t size = 0
        cdef int status = self.search(wanted, &start, &size)
        if status == FOUND:
            return start, size
        if status == MISSING:
            return None
        raise fault(self, status, wanted, start, size)

    def find_quietly(self, uint64_t wanted):
        """`find`, with None also for an entry that is wrong."""
        cdef uint64_t start = 0
        cdef uint64_t size = 0
        return (start, size) if self.search(wanted, &start, &size) == FOUND else None

    def bad_entries(self):
        """Which entries point outside the file, as a boolean array."""
        cdef uint64_t room = self.limit - self.base if self.limit > self.base else 0
        outside = self.starts > np.uint64(room)
        rest = np.uint64(room) - np.where(outside, np.uint64(0), self.starts)
        return outside | (self.sizes > rest)


cdef object fault(Minishard table, int status, uint64_t wanted, uint64_t start, uint64_t size):
    if status == TWICE:
        return CorruptDataError("the minishard index holds this id more than once", chunk=int(wanted))
    return CorruptDataError(
        "the value lies outside the file",
        chunk=int(wanted),
        expected=f"an end at or before byte {table.limit}",
        found=f"{size} bytes at {int(table.base) + int(start)}",
    )


def find_many(dict tables not None, const uint64_t[::1] minishards not None, const uint64_t[::1] ids not None,
              uint64_t[::1] offsets not None, uint64_t[::1] sizes not None):
    """Look up each id in the table of its minishard (None: an empty one); a size of 2**64 - 1 says missing.

    Ids of one minishard stand together. Minishards that are not in `tables` are returned, and what was found is only
    whole if there are none.
    """
    cdef Py_ssize_t n = ids.shape[0], i = 0
    cdef uint64_t start = 0, size = 0, number
    cdef int status
    cdef Minishard table
    cdef list unknown = []
    if minishards.shape[0] != n or offsets.shape[0] != n or sizes.shape[0] != n:
        raise ValueError("columns of different lengths")
    while i < n:
        number = minishards[i]
        key = number
        item = tables.get(key)
        if item is None:
            if key not in tables:
                unknown.append(key)
            while i < n and minishards[i] == number:
                offsets[i] = 0
                sizes[i] = ABSENT
                i += 1
            continue
        table = <Minishard?> item
        while i < n and minishards[i] == number:
            status = table.search(ids[i], &start, &size)
            if status == FOUND:
                offsets[i] = start
                sizes[i] = size
            elif status == MISSING:
                offsets[i] = 0
                sizes[i] = ABSENT
            else:
                raise fault(table, status, ids[i], start, size)
            i += 1
    return unknown


def listed_ids(Buffers indexes not None, uint64_t most):
    """The ids of several decoded indexes, each of them in ascending order.

    None if there is something wrong with one, or if they have more than `most` entries.
    """
    cdef Py_ssize_t i
    cdef uint64_t total = 0, at = 0, before, entry, count
    for i in range(indexes.count):
        if indexes.size[i] == ZV_SIZE_UNKNOWN or indexes.size[i] % ENTRY:
            return None
        total += indexes.size[i] // ENTRY
        if total > most:
            return None
    ids = np.empty(total, np.uint64)
    cdef uint64_t[::1] view = ids
    cdef bint ascending
    for i in range(indexes.count):
        count = indexes.size[i] // ENTRY
        before = 0
        ascending = True
        for entry in range(count):
            view[at + entry] = before + load_u64(indexes.data[i] + 8 * entry)
            ascending = ascending and (entry == 0 or view[at + entry] >= before)
            before = view[at + entry]
        if not ascending:
            ids[at : at + count].sort()
        at += count
    return ids


def plain_ids(values):
    """A list or tuple of ints from 0 to 2**64 - 1 as a uint64 array; None if anything else is among them."""
    cdef tuple every = tuple(values)
    cdef Py_ssize_t n = len(every), i
    ids = np.empty(n, np.uint64)
    cdef uint64_t[::1] view = ids
    cdef object value
    for i in range(n):
        value = every[i]
        if type(value) is not int or not 0 <= value <= LARGEST:
            return None
        view[i] = value
    return ids
