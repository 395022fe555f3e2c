"""Manifests as lists of (coords, piece), from bytes or columns and back to bytes.

`coords` is a tuple of ints; `piece` an int, a (start, count) tuple or an int64 array, as the mode of the block says.
See manifest.pyx for what the bytes are and manifest_columns.pyx for the columns.
"""

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE, PyList_New
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

import numpy as np

from zvcore.kernels.manifest cimport (
    EXPLICIT,
    FINE,
    MAX_COUNT,
    MAX_NDIM,
    RANGE,
    SINGLE,
    Fault,
    Walk,
    checked_ndim,
    fault_error,
    walk,
)
from zvcore.kernels.unaligned cimport load_i64, load_u32, store_i64, store_u32


cnp.import_array()


cdef extern from "zv_manifest_lists.h":
    void zv_ask_for_manifest(object manifest)
    void zv_ask_for_list(object manifest)
    void zv_ask_for_items(object manifest)
    void zv_ask_for_blocks(object manifest)
    int zv_put_coords(object coords, Py_ssize_t rank, unsigned char *to)
    Py_ssize_t zv_put_plain(object manifest, Py_ssize_t begin, Py_ssize_t rank, unsigned char *to)


cdef extern from "zv_manifest_objects.h":
    ctypedef struct zv_shared:
        pass
    # The references that these take and return are as in C: nothing is counted here.
    PyObject *zv_new_pair(PyObject *first, PyObject *second) except NULL
    PyObject *zv_new_range(int64_t start, int64_t count)
    PyObject *zv_new_coords(const int64_t *coords, Py_ssize_t ndim)
    int zv_start_shared(zv_shared *shared, Py_ssize_t ndim)
    void zv_leave_shared(zv_shared *shared)
    PyObject *zv_next_coords(zv_shared *shared, const int64_t *coords, int64_t left)
    PyObject *zv_shared_number(zv_shared *shared, int64_t value)


cdef extern from "Python.h":
    PyObject *new_int "PyLong_FromLongLong" (long long value)
    PyObject *new_list "PyList_New" (Py_ssize_t size) except NULL
    void set_item "PyList_SET_ITEM" (PyObject *row, Py_ssize_t at, PyObject *item)
    long long PyLong_AsLongLong(object value) except? -1
    int PyGC_Disable()
    int PyGC_Enable()


# --- lists from bytes and columns


cdef inline PyObject *new_indices(int64_t n, int64_t **data) except NULL:
    cdef cnp.npy_intp length = n
    cdef cnp.ndarray made = cnp.PyArray_SimpleNew(1, &length, cnp.NPY_INT64)
    data[0] = <int64_t *> cnp.PyArray_DATA(made)
    Py_INCREF(made)
    return <PyObject *> made


def decode_one(data not None, ndim):
    """One manifest as a list of (coords, piece)."""
    cdef int64_t rank = checked_ndim(ndim), size
    cdef const uint8_t[::1] view
    cdef const uint8_t *p = NULL
    cdef Walk at
    cdef Fault fault
    if PyBytes_CheckExact(data):
        # Making a view takes as long as decoding a manifest of the usual size.
        size = PyBytes_GET_SIZE(data)
        p = <const uint8_t *> PyBytes_AS_STRING(data)
    else:
        view = data
        size = view.shape[0]
        if size:
            p = &view[0]
    fault = walk(p, size, rank, &at)
    if fault != FINE:
        raise fault_error(fault, p, size, &at)
    cdef list blocks = PyList_New(at.blocks)
    cdef int64_t coords[MAX_NDIM]
    cdef int64_t b, j
    cdef int64_t *indices
    cdef uint32_t listed
    cdef PyObject *piece
    p += 4
    for b in range(at.blocks):
        for j in range(rank):
            coords[j] = load_i64(p)
            p += 8
        if p[0] == SINGLE:
            piece = new_int(load_i64(p + 1))
            p += 9
        elif p[0] == RANGE:
            piece = zv_new_range(load_i64(p + 1), load_i64(p + 9))
            p += 17
        else:
            listed = load_u32(p + 1)
            p += 5
            piece = new_indices(listed, &indices)
            for j in range(listed):
                indices[j] = load_i64(p)
                p += 8
        set_item(<PyObject *> blocks, b, zv_new_pair(zv_new_coords(coords, rank), piece))
    return blocks


cdef struct Columns:
    const int64_t *coords
    const uint8_t *mode     # NULL: every block is a single piece
    const int64_t *first
    const int64_t *count
    const int64_t *pool
    int64_t ndim, blocks, listed


cdef Columns checked_columns(const int64_t[:, ::1] coords, const uint8_t[::1] mode, const int64_t[::1] first,
                             const int64_t[::1] count, const int64_t[::1] pool) except *:
    """Where the columns lie, after checking that they belong together. `mode` and `count` may be None."""
    cdef Columns found
    memset(&found, 0, sizeof(found))
    found.ndim = coords.shape[1]
    found.blocks = coords.shape[0]
    found.listed = pool.shape[0]
    if first.shape[0] != found.blocks:
        raise ValueError("columns of different lengths")
    if mode is not None and (count is None or mode.shape[0] != found.blocks or count.shape[0] != found.blocks):
        raise ValueError("columns of different lengths")
    if found.blocks:
        found.first = &first[0]
        if found.ndim:
            found.coords = &coords[0, 0]
        if mode is not None:
            found.mode = &mode[0]
            found.count = &count[0]
    if found.listed:
        found.pool = &pool[0]
    return found


cdef inline PyObject *piece_of(const Columns *columns, int64_t b, zv_shared *shared) except? NULL:
    """A new reference, with a number that `shared` may have; that may be NULL."""
    cdef int64_t first = columns.first[b]
    if columns.mode == NULL or columns.mode[b] == SINGLE:
        return new_int(first) if shared == NULL else zv_shared_number(shared, first)
    if columns.mode[b] == RANGE:
        return zv_new_range(first, columns.count[b])
    return explicit_piece(columns, b)


cdef PyObject *explicit_piece(const Columns *columns, int64_t b) except NULL:
    cdef int64_t first = columns.first[b], count = columns.count[b]
    cdef int64_t *indices
    cdef PyObject *piece
    if first < 0 or count < 0 or count > columns.listed or first > columns.listed - count:
        raise ValueError(f"block {b} lies outside the pool")
    piece = new_indices(count, &indices)
    if count:
        memcpy(indices, columns.pool + first, count * sizeof(int64_t))
    return piece


def to_list(const int64_t[:, ::1] coords not None, const uint8_t[::1] mode, const int64_t[::1] first not None,
            const int64_t[::1] count, const int64_t[::1] pool not None, int64_t start, int64_t stop):
    """Blocks `start:stop` of the columns."""
    cdef Columns columns = checked_columns(coords, mode, first, count, pool)
    cdef int64_t b
    cdef PyObject *piece
    if not 0 <= start <= stop <= columns.blocks:
        raise ValueError(f"blocks {start} to {stop} of {columns.blocks}")
    cdef list row = PyList_New(stop - start)
    for b in range(start, stop):
        piece = piece_of(&columns, b, NULL)
        set_item(<PyObject *> row, b - start,
                 zv_new_pair(zv_new_coords(columns.coords + b * columns.ndim, columns.ndim), piece))
    return row


def to_lists(const int64_t[::1] offsets not None, const int64_t[:, ::1] coords not None, const uint8_t[::1] mode,
             const int64_t[::1] first not None, const int64_t[::1] count, const int64_t[::1] pool not None):
    """One list for each row of the columns. Equal coords and small numbers are one object."""
    cdef Columns columns = checked_columns(coords, mode, first, count, pool)
    cdef Py_ssize_t n = offsets.shape[0] - 1, i
    cdef int64_t b
    if n < 0:
        raise ValueError("columns of different lengths")
    for i in range(n):
        if offsets[i] < 0 or offsets[i] > offsets[i + 1] or offsets[i + 1] > columns.blocks:
            raise ValueError(f"offsets leave the columns at row {i}")
    cdef zv_shared shared
    cdef list rows = PyList_New(n)
    cdef PyObject *row
    cdef PyObject *piece
    cdef PyObject *shared_coords
    # Every object made here lives until the end, so a garbage collection in between would find nothing.
    cdef int collecting = PyGC_Disable()
    try:
        if zv_start_shared(&shared, columns.ndim):
            raise MemoryError
        for i in range(n):
            row = new_list(offsets[i + 1] - offsets[i])
            set_item(<PyObject *> rows, i, row)
            for b in range(offsets[i], offsets[i + 1]):
                piece = piece_of(&columns, b, &shared)
                shared_coords = zv_next_coords(&shared, columns.coords + b * columns.ndim, offsets[n] - b)
                set_item(row, b - offsets[i], zv_new_pair(shared_coords, piece))
    finally:
        if collecting:
            PyGC_Enable()
        zv_leave_shared(&shared)
    return rows


# --- bytes from lists


cdef class Blob:
    """Bytes that grow."""
    cdef uint8_t *data
    cdef Py_ssize_t size, capacity

    def __dealloc__(self):
        PyMem_Free(self.data)

    cdef uint8_t *more(self, Py_ssize_t extra) except NULL:
        """Room for `extra` bytes at the end; valid until the next call."""
        cdef Py_ssize_t capacity
        cdef uint8_t *data
        if extra > self.capacity - self.size:
            capacity = max(2 * self.capacity, self.size + extra, 256)
            data = <uint8_t *> PyMem_Realloc(self.data, capacity)
            if data == NULL:
                raise MemoryError
            self.data = data
            self.capacity = capacity
        data = self.data + self.size
        self.size += extra
        return data


cdef int64_t number(object value, str what) except? -1:
    try:
        return PyLong_AsLongLong(int(value))
    except OverflowError:
        raise ValueError(f"{what} must fit a signed 64-bit integer, got {value}") from None


cdef int put_coords(Blob out, object coords, int64_t ndim) except -1:
    cdef int64_t j
    cdef uint8_t *q
    cdef int done
    if len(coords) != ndim:
        raise ValueError(f"chunk_coords {coords} has rank {len(coords)}, expected sid_ndim={ndim}")
    q = out.more(8 * ndim) if ndim else NULL
    done = zv_put_coords(coords, ndim, q)
    if done == 1:
        return 0
    if done == -1:
        raise ValueError(f"chunk_coords {coords} must fit signed 64-bit integers")
    array = np.asarray(coords)
    if array.shape != (ndim,):
        raise ValueError(f"chunk_coords must be one number per axis, got shape {array.shape}")
    for j, item in enumerate(array.tolist()):
        store_i64(q + 8 * j, number(item, "chunk_coords"))
    return 0


cdef int put_block(Blob out, object coords, object piece, int64_t ndim, bint force_explicit) except -1:
    cdef uint8_t *q
    cdef int64_t index, start, count
    cdef cnp.ndarray array
    put_coords(out, coords, ndim)
    if isinstance(piece, tuple):
        if len(piece) != 2:
            raise ValueError(f"Fragment range tuple must be (start, count), got {piece!r}")
        start = number(piece[0], "range start")
        count = number(piece[1], "range count")
        if count < 0:
            raise ValueError(f"range count must be >= 0, got {count}")
        put_run(out, start, count)
        return 0
    if not cnp.PyArray_CheckExact(piece):
        if isinstance(piece, (int, np.integer)):
            index = number(piece, "fragment_index")
            if index < 0:
                raise ValueError(f"fragment_index must be >= 0, got {index}")
            q = out.more(9)
            q[0] = SINGLE
            store_i64(q + 1, index)
            return 0
        try:
            piece = np.asarray(piece)
        except OverflowError:
            raise ValueError("Explicit fragment indices must fit signed 64-bit integers") from None
    array = piece
    if array.ndim != 1:
        raise ValueError(f"Fragment ref array must be 1-D, got shape {(<object> array).shape}")
    if cnp.PyArray_TYPE(array) != cnp.NPY_INT64 or not cnp.PyArray_ISCARRAY_RO(array):
        array = np.ascontiguousarray(array.astype(np.int64))
    put_indices(out, <const int64_t *> cnp.PyArray_DATA(array), cnp.PyArray_DIM(array, 0), force_explicit)
    return 0


cdef int put_run(Blob out, int64_t start, int64_t count) except -1:
    cdef uint8_t *q = out.more(17)
    q[0] = RANGE
    store_i64(q + 1, start)
    store_i64(q + 9, count)
    return 0


cdef int put_indices(Blob out, const int64_t *indices, int64_t n, bint force_explicit) except -1:
    """A run if the indices are one and it is allowed, else a list of them."""
    cdef int64_t j
    cdef bint run
    cdef uint8_t *q
    if n > MAX_COUNT:
        raise ValueError(f"a block lists at most 2**32 - 1 fragments, got {n}")
    if n and not force_explicit and indices[0] >= 0 and indices[0] <= INT64_MAX - (n - 1):
        run = True
        for j in range(1, n):
            if indices[j] != indices[0] + j:
                run = False
                break
        if run:
            return put_run(out, indices[0], n)
    for j in range(n):
        if indices[j] < 0:
            raise ValueError("Explicit fragment indices must be non-negative")
    q = out.more(5 + 8 * n)
    q[0] = EXPLICIT
    store_u32(q + 1, <uint32_t> n)
    for j in range(n):
        store_i64(q + 5 + 8 * j, indices[j])
    return 0


cdef int put_manifest(Blob out, object blocks, int64_t ndim, bint force_explicit) except -1:
    cdef Py_ssize_t head = out.size, i = 0, n, plain
    cdef uint8_t *q
    out.more(4)
    if type(blocks) is not list:
        blocks = list(blocks)
    n = PyList_GET_SIZE(blocks)
    if n > MAX_COUNT:
        raise ValueError("a manifest has at most 2**32 - 1 blocks")
    while i < n:
        q = out.more((n - i) * (8 * ndim + 9))
        plain = zv_put_plain(blocks, i, ndim, q)
        out.size -= (n - i - plain) * (8 * ndim + 9)
        i += plain
        if i < n:
            coords, piece = <object> PyList_GET_ITEM(blocks, i)
            put_block(out, coords, piece, ndim, force_explicit)
            i += 1
            # Converting numbers may run any code, which may change the lists.
            if PyList_GET_SIZE(blocks) != n:
                raise RuntimeError("the manifest changed while it was being encoded")
    store_u32(out.data + head, <uint32_t> n)
    return 0


def encode_one(blocks, ndim, bint force_explicit=False):
    """One manifest from (coords, piece) pairs, the inverse of `decode_one`."""
    cdef int64_t rank = checked_ndim(ndim)
    cdef Blob out = Blob()
    put_manifest(out, blocks, rank, force_explicit)
    return PyBytes_FromStringAndSize(<char *> out.data, out.size)


def encode_lists(manifests, ndim, bint force_explicit=False):
    """One manifest per list of (coords, piece) pairs."""
    cdef int64_t rank = checked_ndim(ndim)
    cdef Blob out = Blob()
    cdef list blobs = [], every = manifests if type(manifests) is list else list(manifests)
    cdef Py_ssize_t i, n = PyList_GET_SIZE(every)
    cdef object blocks
    for i in range(n):
        if i + 12 < n:
            zv_ask_for_manifest(<object> PyList_GET_ITEM(every, i + 12))
            zv_ask_for_list(<object> PyList_GET_ITEM(every, i + 9))
            zv_ask_for_items(<object> PyList_GET_ITEM(every, i + 6))
            zv_ask_for_blocks(<object> PyList_GET_ITEM(every, i + 3))
        out.size = 0
        blocks = <object> PyList_GET_ITEM(every, i)
        put_manifest(out, blocks, rank, force_explicit)
        blobs.append(PyBytes_FromStringAndSize(<char *> out.data, out.size))
        if PyList_GET_SIZE(every) != n:
            raise RuntimeError("the manifests changed while they were being encoded")
    return blobs
