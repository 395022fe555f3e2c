"""Many keys and many byte strings without a Python object for each."""

import numpy as np

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN
from zvcore.stores.files cimport check_key
from zvcore.system.byte_blocks cimport byte_block, hold_block, let_block_go, new_block

from zvcore.kernels.keys import format_keys
from zvcore.stores.files import encode_key


cdef class Keys:
    """Names of objects in a store, in one block of memory: a million keys are no Python objects.

    Names that would lead out of a store are refused here, once, so that threads may put them behind a folder's path.
    """

    def __cinit__(self, pool, ends):
        cdef const uint8_t[::1] pool_view = pool
        cdef const int64_t[::1] ends_view = ends
        cdef int64_t before = -1
        cdef Py_ssize_t i
        self.pool = pool
        self.ends = ends
        self.count = ends_view.shape[0]
        for i in range(self.count):
            if ends_view[i] <= before or ends_view[i] >= pool_view.shape[0] or pool_view[ends_view[i]] != 0:
                raise ValueError("the ends of the keys do not fit their pool")
            if check_key(<const char *> &pool_view[before + 1], ends_view[i] - before - 1) != 0:
                encode_key(bytes(pool[before + 1 : ends_view[i]]).decode("utf-8", "surrogateescape"))  # says why
            before = ends_view[i]
        if self.count:
            self.bytes = &pool_view[0]
            self.stops = &ends_view[0]

    @staticmethod
    def of(names):
        """From a list of str."""
        encoded = [encode_key(name) for name in names]
        lengths = np.fromiter((len(name) + 1 for name in encoded), np.int64, len(encoded))
        pool = np.frombuffer(b"\0".join([*encoded, b""]) or b"\0", np.uint8)
        return Keys(pool, np.cumsum(lengths) - 1)

    @staticmethod
    def format(columns, literals):
        """Key i is literals[0] + str(columns[i, 0]) + literals[1] + ... ; see zvcore.kernels.keys."""
        pool, ends = format_keys(columns, literals)
        return Keys(pool, ends)

    cdef const char *at(self, Py_ssize_t i) noexcept nogil:
        return <const char *> self.bytes + (self.stops[i - 1] + 1 if i > 0 else 0)

    cdef Py_ssize_t length(self, Py_ssize_t i) noexcept nogil:
        return self.stops[i] - (self.stops[i - 1] + 1 if i > 0 else 0)

    def __len__(self):
        return self.count

    def __getitem__(self, Py_ssize_t i):
        if i < 0:
            i += self.count
        if i < 0 or i >= self.count:
            raise IndexError(f"key {i} of {self.count}")
        return self.at(i)[: self.length(i)].decode("utf-8", "surrogateescape")

    def __iter__(self):
        cdef Py_ssize_t i
        for i in range(self.count):
            yield self.at(i)[: self.length(i)].decode("utf-8", "surrogateescape")

    def __reduce__(self):
        return (Keys, (np.asarray(self.pool), np.asarray(self.ends)))


cdef class Buffers:
    """Byte strings that the engine's threads made; `buffers[i]` is a read-only memoryview, None for an absent one.

    Each lives as long as somebody looks at it, whatever becomes of the others.
    """

    def __cinit__(self, Py_ssize_t count):
        if count < 0:
            raise ValueError("a negative number of buffers")
        cdef Py_ssize_t i
        self.data = <uint8_t **> calloc(max(count, 1), sizeof(uint8_t *))
        self.size = <uint64_t *> malloc(max(count, 1) * sizeof(uint64_t))
        if self.data == NULL or self.size == NULL:
            raise MemoryError
        self.count = count
        for i in range(count):
            self.size[i] = ZV_SIZE_UNKNOWN

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.data != NULL:
            for i in range(self.count):
                let_block_go(self.data[i])
        free(self.data)
        free(self.size)

    cdef int store(self, Py_ssize_t i, const uint8_t *head, uint64_t head_size, const uint8_t *body,
                   uint64_t body_size) noexcept nogil:
        """Copy head + body as entry i; -1 when memory is short."""
        cdef uint8_t *data = new_block(head_size + body_size)
        if data == NULL:
            return -1
        if head_size:
            memcpy(data, head, head_size)
        if body_size:
            memcpy(data + head_size, body, body_size)
        let_block_go(self.data[i])
        self.data[i] = data
        self.size[i] = head_size + body_size
        return 0

    cdef uint8_t *reserve(self, Py_ssize_t i, uint64_t size) noexcept nogil:
        let_block_go(self.data[i])
        self.data[i] = new_block(size)
        return self.data[i]

    cdef void drop(self, Py_ssize_t i) noexcept nogil:
        let_block_go(self.data[i])
        self.data[i] = NULL

    @staticmethod
    def of(items):
        """Copies of these bytes-like objects; None is an absent one."""
        cdef Buffers made = Buffers(len(items))
        cdef Py_ssize_t i
        cdef const uint8_t[::1] view
        for i, item in enumerate(items):
            if item is None:
                continue
            view = memoryview(item).cast("B")
            if made.store(i, NULL, 0, &view[0] if view.shape[0] else NULL, view.shape[0]) != 0:
                raise MemoryError
        return made

    def __len__(self):
        return self.count

    def __getitem__(self, Py_ssize_t i):
        if i < 0:
            i += self.count
        if i < 0 or i >= self.count:
            raise IndexError(f"buffer {i} of {self.count}")
        if self.size[i] == ZV_SIZE_UNKNOWN:
            return None
        return memoryview(byte_block(self.data[i], self.size[i]))

    def __iter__(self):
        """Each in turn, as indexing gives them."""
        cdef Py_ssize_t i
        for i in range(self.count):
            yield self[i]

    @property
    def sizes(self):
        """uint64[n]; 2**64 - 1 (`zvcore.layout.ABSENT`) marks an absent one."""
        cdef Py_ssize_t i
        result = np.empty(self.count, np.uint64)
        cdef uint64_t[::1] view = result
        for i in range(self.count):
            view[i] = self.size[i]
        return result

    @property
    def nbytes(self):
        """The bytes of all together."""
        cdef Py_ssize_t i
        cdef uint64_t total = 0
        for i in range(self.count):
            if self.size[i] != ZV_SIZE_UNKNOWN:
                total += self.size[i]
        return total

    def select(self, rows):
        """Some of them, in this order, as a `Buffers` that shares their memory."""
        cdef Py_ssize_t i, row
        cdef Buffers chosen = Buffers(len(rows))
        for i, row in enumerate(rows):
            if row < 0 or row >= self.count:
                raise IndexError(f"buffer {row} of {self.count}")
            chosen.data[i] = hold_block(self.data[row])
            chosen.size[i] = self.size[row]
        return chosen

    def spread(self, rows, Py_ssize_t count):
        """These as the given rows of `count`; the others are absent. Shares the memory."""
        cdef Py_ssize_t i, row
        cdef Buffers wider = Buffers(count)
        if len(rows) != self.count:
            raise ValueError("a row for each buffer is needed")
        for i, row in enumerate(rows):
            if row < 0 or row >= count:
                raise IndexError(f"buffer {row} of {count}")
            wider.data[row] = hold_block(self.data[i])
            wider.size[row] = self.size[i]
        return wider

    @staticmethod
    def chain(parts):
        """The buffers of several one after the other, sharing their memory."""
        cdef Buffers part
        cdef Py_ssize_t i, at = 0
        cdef Buffers longer = Buffers(sum([len(one) for one in parts]))
        for part in parts:
            for i in range(part.count):
                longer.data[at] = hold_block(part.data[i])
                longer.size[at] = part.size[i]
                at += 1
        return longer

    def mapping(self, keys):
        """{key: bytes} of those that are present; `keys` has a uint64 for each."""
        cdef Py_ssize_t i
        cdef const uint64_t[::1] key = keys
        cdef dict found = {}
        if key.shape[0] != self.count:
            raise ValueError("a key for each buffer is needed")
        for i in range(self.count):
            if self.size[i] != ZV_SIZE_UNKNOWN:
                found[key[i]] = PyBytes_FromStringAndSize(<const char *> self.data[i], <Py_ssize_t> self.size[i])
        return found

    def joined(self, out=None):
        """(bytes of all present ones one after the other: uint8[total], where each begins: int64[n + 1]).

        With `out`, which must have room for them, they are put at its beginning.
        """
        cdef Py_ssize_t i
        cdef int64_t at = 0
        offsets = np.zeros(self.count + 1, np.int64)
        cdef int64_t[::1] offsets_view = offsets
        for i in range(self.count):
            if self.size[i] != ZV_SIZE_UNKNOWN:
                at += self.size[i]
            offsets_view[i + 1] = at
        pool = np.empty(at, np.uint8) if out is None else np.frombuffer(out, np.uint8)
        if len(pool) < at:
            raise ValueError(f"out has {len(pool)} bytes, {at} are needed")
        pool = pool[:at]
        cdef uint8_t[::1] pool_view = pool
        with nogil:
            for i in range(self.count):
                if offsets_view[i + 1] > offsets_view[i]:
                    memcpy(&pool_view[offsets_view[i]], self.data[i], offsets_view[i + 1] - offsets_view[i])
        return pool, offsets
