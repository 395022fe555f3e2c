"""Manifests: which pieces of which chunks make up an object.

    u32 B, then B blocks of: i64 coords[ndim], u8 mode, and by mode
        0  i64 index                one piece
        1  i64 start, i64 count     a run of pieces
        2  u32 n, i64 index[n]      any pieces

All little-endian and unaligned. Many manifests become columns: block b of row i is one of
`offsets[i]:offsets[i + 1]`; `first[b], count[b]` is a run of pieces for modes 0 and 1 and a slice of `pool` for mode 2.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.long cimport PyLong_CheckExact, PyLong_FromLongLong
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t

cimport numpy as cnp
import numpy as np

from zvcore.errors import CorruptDataError
from zvcore.kernels.unaligned cimport load_i64, load_u32, store_i64, store_u32


cnp.import_array()


cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define zv_prefetch(address) __builtin_prefetch(address)
    #else
    #define zv_prefetch(address) ((void) 0)
    #endif
    /* The objects of many manifests lie all over memory: ask for those of later ones while these are being read. */
    static inline void zv_ask_for_list(PyObject *list) {
        if (PyList_CheckExact(list)) zv_prefetch(((PyListObject *) list)->ob_item);
    }
    static inline void zv_ask_for_items(PyObject *list) {
        if (!PyList_CheckExact(list)) return;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
            zv_prefetch(PyList_GET_ITEM(list, i));
            zv_prefetch((char *) PyList_GET_ITEM(list, i) + 32);
        }
    }
    static inline void zv_ask_for_blocks(PyObject *list) {
        if (!PyList_CheckExact(list)) return;
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
            PyObject *block = PyList_GET_ITEM(list, i);
            if (!PyTuple_CheckExact(block) || PyTuple_GET_SIZE(block) != 2) continue;
            zv_prefetch(PyTuple_GET_ITEM(block, 0));
            zv_prefetch((char *) PyTuple_GET_ITEM(block, 0) + 40);
            zv_prefetch(PyTuple_GET_ITEM(block, 1));
        }
    }
    static inline void zv_store(unsigned char *to, long long value) {
        unsigned long long bits = (unsigned long long) value;
        for (int i = 0; i < 8; i++) to[i] = (unsigned char) (bits >> (8 * i));
    }
    /* Blocks of a list from `begin` on that are a tuple of a tuple of ints and an int >= 0, as nearly all are, written
     * to `to`; how many they are. The objects are only borrowed: counting references would write to all that memory. */
    static Py_ssize_t zv_put_plain(PyObject *list, Py_ssize_t begin, Py_ssize_t rank, unsigned char *to) {
        Py_ssize_t i;
        for (i = begin; i < PyList_GET_SIZE(list); i++) {
            PyObject *block = PyList_GET_ITEM(list, i), *coords, *piece;
            int overflow;
            long long value;
            if (!PyTuple_CheckExact(block) || PyTuple_GET_SIZE(block) != 2) break;
            coords = PyTuple_GET_ITEM(block, 0);
            piece = PyTuple_GET_ITEM(block, 1);
            if (!PyLong_CheckExact(piece) || !PyTuple_CheckExact(coords) || PyTuple_GET_SIZE(coords) != rank) break;
            value = PyLong_AsLongLongAndOverflow(piece, &overflow);
            if (value < 0 || overflow) break;
            zv_store(to + 8 * rank + 1, value);
            to[8 * rank] = 0;
            for (Py_ssize_t j = 0; j < rank; j++) {
                PyObject *item = PyTuple_GET_ITEM(coords, j);
                if (!PyLong_CheckExact(item)) return i - begin;
                zv_store(to + 8 * j, PyLong_AsLongLongAndOverflow(item, &overflow));
                if (overflow) return i - begin;
            }
            to += 8 * rank + 9;
        }
        return i - begin;
    }
    """
    void zv_prefetch(const void *address) noexcept nogil
    void zv_ask_for_list(object manifest)
    void zv_ask_for_items(object manifest)
    void zv_ask_for_blocks(object manifest)
    Py_ssize_t zv_put_plain(object manifest, Py_ssize_t begin, Py_ssize_t rank, unsigned char *to)


cdef extern from "Python.h":
    long long PyLong_AsLongLong(object value) except? -1
    int PyGC_Disable()
    int PyGC_Enable()


cdef enum:
    MAX_NDIM = 64

cdef int64_t MOST = 2**32 - 1     # of blocks in a manifest, or indices in a block

# What can be wrong with a manifest; the table of texts follows these numbers.
cdef enum Fault:
    FINE = 0
    ABSENT
    TOO_SHORT
    CUT_HEADER
    CUT_SINGLE
    CUT_RANGE
    CUT_EXPLICIT_HEADER
    CUT_EXPLICIT
    UNKNOWN_MODE
    TRAILING

FINE_ROW = FINE
ABSENT_ROW = ABSENT

cdef tuple TEXTS = (
    "",
    "",
    "Manifest blob too short: {size} < 4",
    "Manifest blob truncated at block header",
    "Manifest blob truncated in single-mode payload",
    "Manifest blob truncated in range-mode payload",
    "Manifest blob truncated in explicit-mode header",
    "Manifest blob truncated in explicit-mode indices",
    "Unknown manifest block mode {mode}",
    "Manifest blob has {rest} trailing bytes after {blocks} blocks",
)


cdef struct Walk:
    int64_t position    # where the walk stopped
    int64_t blocks      # blocks that are whole
    int64_t explicit    # indices in their explicit lists
    int modes           # bit m: a block of mode m was seen


cdef inline Fault walk(const uint8_t *p, int64_t size, int64_t coords_bytes, Walk *out) noexcept nogil:
    """Check one manifest and count what it holds."""
    cdef int64_t position = 4, blocks = 0, explicit = 0, listed
    cdef uint32_t declared
    cdef uint8_t mode
    cdef int modes = 0
    cdef Fault fault = FINE
    if size < 4:
        out.position = 0
        out.blocks = 0
        out.explicit = 0
        out.modes = 0
        return TOO_SHORT
    declared = load_u32(p)
    while blocks < declared:
        if size - position < coords_bytes + 1:
            fault = CUT_HEADER
            break
        position += coords_bytes
        mode = p[position]
        position += 1
        if mode == 0:
            if size - position < 8:
                fault = CUT_SINGLE
                break
            position += 8
        elif mode == 1:
            if size - position < 16:
                fault = CUT_RANGE
                break
            position += 16
        elif mode == 2:
            if size - position < 4:
                fault = CUT_EXPLICIT_HEADER
                break
            listed = load_u32(p + position)
            position += 4
            if (size - position) // 8 < listed:
                fault = CUT_EXPLICIT
                break
            position += 8 * listed
            explicit += listed
        else:
            position -= 1
            fault = UNKNOWN_MODE
            break
        modes |= 1 << mode
        blocks += 1
    if fault == FINE and position != size:
        fault = TRAILING
    out.position = position
    out.blocks = blocks
    out.explicit = explicit
    out.modes = modes
    return fault


cdef object fault_error(Fault fault, const uint8_t *p, int64_t size, Walk *at):
    text = TEXTS[<int> fault].format(
        size=size, mode=p[at.position] if fault == UNKNOWN_MODE else 0, rest=size - at.position, blocks=at.blocks
    )
    return CorruptDataError(text, offset=at.position)


cdef int64_t checked_ndim(object ndim) except -1:
    if not 0 <= ndim <= MAX_NDIM:
        raise ValueError(f"sid_ndim must be 0 to {MAX_NDIM}, got {ndim}")
    return ndim


cdef struct Columns:
    int64_t *coords
    int64_t *first
    int64_t *count
    uint8_t *mode
    int64_t *pool
    int64_t blocks      # filled so far
    int64_t listed      # entries of the pool filled so far
    bint mixed          # whether mode and count are filled; until then every block is a single piece


cdef Fault take(const uint8_t *p, int64_t size, int64_t d, Columns *out) noexcept nogil:
    """Check one manifest and append its blocks; a broken one appends nothing."""
    cdef int64_t position = 4, block = out.blocks, listed = out.listed, number, i
    cdef int64_t *coords = out.coords + block * d
    cdef uint32_t declared, _k
    cdef uint8_t mode
    if size < 4:
        return TOO_SHORT
    declared = load_u32(p)
    for _k in range(declared):
        if size - position < 8 * d + 1:
            return CUT_HEADER
        for i in range(d):
            coords[i] = load_i64(p + position + 8 * i)
        coords += d
        position += 8 * d
        mode = p[position]
        position += 1
        if mode and not out.mixed:
            for i in range(block):
                out.mode[i] = 0
                out.count[i] = 1
            out.mixed = True
        if mode == 0:
            if size - position < 8:
                return CUT_SINGLE
            out.first[block] = load_i64(p + position)
            if out.mixed:
                out.mode[block] = 0
                out.count[block] = 1
            position += 8
        elif mode == 1:
            if size - position < 16:
                return CUT_RANGE
            out.mode[block] = 1
            out.first[block] = load_i64(p + position)
            out.count[block] = load_i64(p + position + 8)
            position += 16
        elif mode == 2:
            if size - position < 4:
                return CUT_EXPLICIT_HEADER
            number = load_u32(p + position)
            position += 4
            if (size - position) // 8 < number:
                return CUT_EXPLICIT
            out.mode[block] = 2
            out.first[block] = listed
            out.count[block] = number
            for i in range(number):
                out.pool[listed + i] = load_i64(p + position + 8 * i)
            listed += number
            position += 8 * number
        else:
            return UNKNOWN_MODE
        block += 1
    if position != size:
        return TRAILING
    out.blocks = block
    out.listed = listed
    return FINE


cdef class _Room:
    """Columns for as many blocks as some bytes could hold at most, of which memory is taken only for what is filled."""
    cdef Columns at
    cdef object coords, first, count, mode, pool
    cdef int64_t d

    def __cinit__(self, int64_t size, int64_t d):
        # The smallest block is one that lists nothing; a broken row writes one block more before it is noticed.
        cdef int64_t most = size // (8 * d + 5) + 1
        self.d = d
        self.coords = np.empty((most, d), np.int64)
        self.first = np.empty(most, np.int64)
        self.count = np.empty(most, np.int64)
        self.mode = np.empty(most, np.uint8)
        self.pool = np.empty(size // 8 + 1, np.int64)
        self.at.coords = <int64_t *> cnp.PyArray_DATA(<cnp.ndarray> self.coords)
        self.at.first = <int64_t *> cnp.PyArray_DATA(<cnp.ndarray> self.first)
        self.at.count = <int64_t *> cnp.PyArray_DATA(<cnp.ndarray> self.count)
        self.at.mode = <uint8_t *> cnp.PyArray_DATA(<cnp.ndarray> self.mode)
        self.at.pool = <int64_t *> cnp.PyArray_DATA(<cnp.ndarray> self.pool)
        self.at.blocks = self.at.listed = 0
        self.at.mixed = False

    cdef tuple finished(self, offsets, status):
        # A broken row may have been the only one that was not of single pieces.
        cdef bint mixed = self.at.mixed and bool(self.mode[:self.at.blocks].any())
        self.coords.resize((self.at.blocks, self.d), refcheck=False)
        self.first.resize(self.at.blocks, refcheck=False)
        self.pool.resize(self.at.listed, refcheck=False)
        if mixed:
            self.count.resize(self.at.blocks, refcheck=False)
            self.mode.resize(self.at.blocks, refcheck=False)
        return (
            offsets, self.coords, self.mode if mixed else None, self.first, self.count if mixed else None, self.pool,
            status,
        )


def decode_rows(const uint8_t[::1] data not None, const int64_t[::1] starts not None,
                const int64_t[::1] lengths not None, ndim):
    """Manifests that lie anywhere in `data`, as columns.

    Returns (offsets, coords, mode, first, count, pool, status). `mode` and `count` are None when every block is of
    mode 0, whose mode is 0 and whose count is 1. `status[i]` is FINE_ROW, ABSENT_ROW (no bytes at all), or something
    else for a row that is broken; both of the latter have no blocks.
    """
    cdef int64_t d = checked_ndim(ndim)
    cdef Py_ssize_t n = starts.shape[0], i
    if lengths.shape[0] != n:
        raise ValueError("starts and lengths must have one length")
    cdef int64_t size = data.shape[0], start, length, total = 0
    cdef const uint8_t *base = &data[0] if size else NULL
    for i in range(n):
        start = starts[i]
        length = lengths[i]
        if start < 0 or length < 0 or length > size or start > size - length:
            raise ValueError(f"row {i} is not inside the data: {length} bytes at {start} of {size}")
        # Rows may share bytes, so their sum is what counts.
        total += length
    offsets = np.empty(n + 1, np.int64)
    status = np.empty(n, np.uint8)
    cdef int64_t[::1] offset_view = offsets
    cdef uint8_t[::1] status_view = status
    cdef _Room room = _Room(total, d)
    with nogil:
        for i in range(n):
            offset_view[i] = room.at.blocks
            status_view[i] = ABSENT if lengths[i] == 0 else take(base + starts[i], lengths[i], d, &room.at)
        offset_view[n] = room.at.blocks
    return room.finished(offsets, status)


def decode_chunk(const uint8_t[::1] data not None, ndim):
    """The manifests of one buffer of rows of variable length (see `vlen`), read once: as `decode_rows`.

    None if the rows do not fill the buffer exactly: then `vlen.split_rows` says why.
    """
    cdef int64_t d = checked_ndim(ndim), size = data.shape[0], position = 4, length
    cdef Py_ssize_t n, i
    if size < 4 or load_u32(&data[0]) > (size - 4) // 4:
        return None
    cdef const uint8_t *p = &data[0]
    n = load_u32(p)
    offsets = np.empty(n + 1, np.int64)
    status = np.empty(n, np.uint8)
    cdef int64_t[::1] offset_view = offsets
    cdef uint8_t[::1] status_view = status
    cdef _Room room = _Room(size, d)
    cdef bint whole = True
    with nogil:
        for i in range(n):
            offset_view[i] = room.at.blocks
            if size - position < 4:
                whole = False
                break
            length = load_u32(p + position)
            position += 4
            if length > size - position:
                whole = False
                break
            status_view[i] = ABSENT if length == 0 else take(p + position, length, d, &room.at)
            position += length
        if whole:
            offset_view[n] = room.at.blocks
    if not whole or position != size:
        return None
    return room.finished(offsets, status)


def row_error(const uint8_t[::1] data not None, ndim):
    """The error for one broken manifest, or None if nothing is wrong with it."""
    cdef int64_t coords_bytes = 8 * checked_ndim(ndim), size = data.shape[0]
    cdef const uint8_t *p = &data[0] if size else NULL
    cdef Walk at
    cdef Fault fault = walk(p, size, coords_bytes, &at)
    return None if fault == FINE else fault_error(fault, p, size, &at)


def decode_one(const uint8_t[::1] data not None, ndim):
    """One manifest as a list of (coords, piece): an int, a (start, count) tuple or an int64 array."""
    cdef int64_t d = checked_ndim(ndim), size = data.shape[0]
    cdef const uint8_t *p = &data[0] if size else NULL
    cdef Walk at
    cdef Fault fault = walk(p, size, 8 * d, &at)
    if fault != FINE:
        raise fault_error(fault, p, size, &at)
    cdef list blocks = PyList_New(at.blocks)
    cdef int64_t b, j
    cdef uint32_t listed
    cdef int64_t[::1] index_view
    cdef object number, piece
    cdef tuple coords
    p += 4
    for b in range(at.blocks):
        coords = PyTuple_New(d)
        for j in range(d):
            number = PyLong_FromLongLong(load_i64(p))
            Py_INCREF(number)
            PyTuple_SET_ITEM(coords, j, number)
            p += 8
        if p[0] == 0:
            piece = PyLong_FromLongLong(load_i64(p + 1))
            p += 9
        elif p[0] == 1:
            piece = (load_i64(p + 1), load_i64(p + 9))
            p += 17
        else:
            listed = load_u32(p + 1)
            p += 5
            piece = np.empty(listed, np.int64)
            index_view = piece
            for j in range(listed):
                index_view[j] = load_i64(p)
                p += 8
        block = (coords, piece)
        Py_INCREF(block)
        PyList_SET_ITEM(blocks, b, block)
    return blocks


cdef enum:
    SHARED_COORDS = 1024     # slots for coords tuples; a power of two


cdef inline uint64_t coords_hash(const int64_t *coords, int64_t d) noexcept nogil:
    cdef uint64_t value = 0
    cdef int64_t j
    for j in range(d):
        value = (value ^ <uint64_t> coords[j]) * <uint64_t> 0x9E3779B97F4A7C15
    return value >> 40


def to_lists(const int64_t[::1] offsets not None, const int64_t[:, ::1] coords not None, mode,
             const int64_t[::1] first not None, count, const int64_t[::1] pool not None):
    """The columns of `decode_rows` as one list of (coords, piece) per row. `mode` and `count` may be None."""
    cdef Py_ssize_t n = offsets.shape[0] - 1, i, total = coords.shape[0]
    cdef int64_t d = coords.shape[1], b, j, start, stop
    cdef const uint8_t[::1] mode_view = mode if mode is not None else np.zeros(0, np.uint8)
    cdef const int64_t[::1] count_view = count if mode is not None else first
    cdef bint mixed = mode is not None
    cdef int64_t taken = pool.shape[0]
    if n < 0 or first.shape[0] != total or (mixed and (mode_view.shape[0] != total or count_view.shape[0] != total)):
        raise ValueError("columns of different lengths")
    for i in range(n):
        if offsets[i] < 0 or offsets[i] > offsets[i + 1] or offsets[i + 1] > total:
            raise ValueError(f"offsets leave the columns at row {i}")
    # Objects share chunks: one tuple for equal coords saves most of the allocations.
    cdef int64_t *keys = <int64_t *> PyMem_Malloc(SHARED_COORDS * (d if d else 1) * sizeof(int64_t))
    if keys == NULL:
        raise MemoryError
    cdef list slots = [None] * SHARED_COORDS
    cdef list rows = PyList_New(n), row
    cdef object number, piece, taken_array = None
    cdef tuple shared, block
    cdef uint64_t slot
    cdef bint same
    cdef const int64_t *at
    # Every object made here is alive until the end, so a collection in between can find nothing.
    cdef int collecting = PyGC_Disable()
    try:
        for i in range(n):
            start = offsets[i]
            stop = offsets[i + 1]
            row = PyList_New(stop - start)
            for b in range(start, stop):
                at = &coords[b, 0] if d else keys
                slot = coords_hash(at, d) & (SHARED_COORDS - 1)
                shared = <tuple> (slots[slot])
                same = shared is not None
                if same:
                    for j in range(d):
                        if keys[slot * d + j] != at[j]:
                            same = False
                            break
                if not same:
                    shared = PyTuple_New(d)
                    for j in range(d):
                        number = PyLong_FromLongLong(at[j])
                        Py_INCREF(number)
                        PyTuple_SET_ITEM(shared, j, number)
                        keys[slot * d + j] = at[j]
                    slots[slot] = shared
                if not mixed or mode_view[b] == 0:
                    piece = PyLong_FromLongLong(first[b])
                elif mode_view[b] == 1:
                    piece = (first[b], count_view[b])
                else:
                    if first[b] < 0 or count_view[b] < 0 or count_view[b] > taken or first[b] > taken - count_view[b]:
                        raise ValueError(f"block {b} leaves the pool")
                    if taken_array is None:
                        taken_array = np.asarray(pool)
                    piece = taken_array[first[b]:first[b] + count_view[b]].copy()
                block = PyTuple_New(2)
                Py_INCREF(shared)
                PyTuple_SET_ITEM(block, 0, shared)
                Py_INCREF(piece)
                PyTuple_SET_ITEM(block, 1, piece)
                Py_INCREF(block)
                PyList_SET_ITEM(row, b - start, block)
            Py_INCREF(row)
            PyList_SET_ITEM(rows, i, row)
    finally:
        if collecting:
            PyGC_Enable()
        PyMem_Free(keys)
    return rows


def to_list(const int64_t[:, ::1] coords not None, mode, const int64_t[::1] first not None, count,
            const int64_t[::1] pool not None, int64_t start, int64_t stop):
    """Blocks `start:stop` of the columns as a list of (coords, piece)."""
    cdef int64_t d = coords.shape[1], total = coords.shape[0], b, j
    cdef const uint8_t[::1] mode_view
    cdef const int64_t[::1] count_view
    cdef bint mixed = mode is not None
    cdef object number, piece, block
    cdef tuple place
    if not 0 <= start <= stop <= total or first.shape[0] != total:
        raise ValueError(f"blocks {start} to {stop} of {total}")
    if mixed:
        mode_view = mode
        count_view = count
        if mode_view.shape[0] != total or count_view.shape[0] != total:
            raise ValueError("columns of different lengths")
    cdef list row = PyList_New(stop - start)
    for b in range(start, stop):
        place = PyTuple_New(d)
        for j in range(d):
            number = PyLong_FromLongLong(coords[b, j])
            Py_INCREF(number)
            PyTuple_SET_ITEM(place, j, number)
        if not mixed or mode_view[b] == 0:
            piece = PyLong_FromLongLong(first[b])
        elif mode_view[b] == 1:
            piece = (first[b], count_view[b])
        else:
            if first[b] < 0 or count_view[b] < 0 or count_view[b] > pool.shape[0] \
                    or first[b] > pool.shape[0] - count_view[b]:
                raise ValueError(f"block {b} leaves the pool")
            piece = np.array(pool[first[b]:first[b] + count_view[b]])
        block = (place, piece)
        Py_INCREF(block)
        PyList_SET_ITEM(row, b - start, block)
    return row


def expand(const int64_t[::1] offsets not None, const int64_t[:, ::1] coords not None, const uint8_t[::1] mode not None,
           const int64_t[::1] first not None, const int64_t[::1] count not None, const int64_t[::1] pool not None,
           int64_t limit):
    """One entry per piece: (offsets, coords, piece). Refuses (None) to make more than `limit` of them."""
    cdef Py_ssize_t n = offsets.shape[0] - 1, i, total = coords.shape[0]
    cdef int64_t d = coords.shape[1], pieces = 0, b, j, k, taken = pool.shape[0]
    if n < 0 or first.shape[0] != total or mode.shape[0] != total or count.shape[0] != total:
        raise ValueError("columns of different lengths")
    out_offsets = np.empty(n + 1, np.int64)
    cdef int64_t[::1] offset_view = out_offsets
    cdef bint outside = False, over = False
    with nogil:
        for i in range(n):
            offset_view[i] = pieces
            if offsets[i] < 0 or offsets[i] > offsets[i + 1] or offsets[i + 1] > total:
                outside = True
                break
            for b in range(offsets[i], offsets[i + 1]):
                if count[b] <= 0:
                    continue
                if mode[b] == 2 and (first[b] < 0 or count[b] > taken or first[b] > taken - count[b]):
                    outside = True
                    break
                if count[b] > limit - pieces:
                    over = True
                    break
                pieces += count[b]
            if outside or over:
                break
        if not outside and not over:
            offset_view[n] = pieces
    if outside:
        raise ValueError(f"row {i} leaves the columns")
    if over:
        return None
    out_coords = np.empty((pieces, d), np.int64)
    out_pieces = np.empty(pieces, np.int64)
    cdef int64_t[:, ::1] coord_view = out_coords
    cdef int64_t[::1] piece_view = out_pieces
    k = 0
    cdef int64_t c
    with nogil:
        for i in range(n):
            for b in range(offsets[i], offsets[i + 1]):
                for j in range(count[b]):
                    for c in range(d):
                        coord_view[k, c] = coords[b, c]
                    if mode[b] == 2:
                        piece_view[k] = pool[first[b] + j]
                    else:
                        # Wraps where a run leaves int64; callers that care have checked the run.
                        piece_view[k] = <int64_t> (<uint64_t> first[b] + <uint64_t> j)
                    k += 1
    return out_offsets, out_coords, out_pieces


def encode_rows(const int64_t[::1] offsets not None, const int64_t[:, ::1] coords not None, mode,
                const int64_t[::1] first not None, count, const int64_t[::1] pool not None):
    """Columns as manifests: (data, offsets), row i is `data[offsets[i]:offsets[i + 1]]`."""
    cdef Py_ssize_t n = offsets.shape[0] - 1, i, total = coords.shape[0]
    cdef int64_t d = coords.shape[1], b, j, size = 0, taken = pool.shape[0]
    cdef bint mixed = mode is not None
    cdef const uint8_t[::1] mode_view = mode if mixed else np.zeros(0, np.uint8)
    cdef const int64_t[::1] count_view = count if mixed else first
    if n < 0 or first.shape[0] != total or (mixed and (mode_view.shape[0] != total or count_view.shape[0] != total)):
        raise ValueError("columns of different lengths")
    out_offsets = np.empty(n + 1, np.int64)
    cdef int64_t[::1] offset_view = out_offsets
    cdef int64_t faulty = -1
    cdef bint outside = False
    with nogil:
        for i in range(n):
            offset_view[i] = size
            if offsets[i] < 0 or offsets[i] > offsets[i + 1] or offsets[i + 1] > total \
                    or offsets[i + 1] - offsets[i] > MOST:
                outside = True
                break
            size += 4
            for b in range(offsets[i], offsets[i + 1]):
                if not mixed or mode_view[b] == 0:
                    if first[b] < 0:
                        faulty = b
                        break
                    size += 8 * d + 9
                elif mode_view[b] == 1:
                    if count_view[b] < 0:
                        faulty = b
                        break
                    size += 8 * d + 17
                else:
                    if mode_view[b] != 2 or count_view[b] < 0 or count_view[b] > MOST or first[b] < 0 \
                            or count_view[b] > taken or first[b] > taken - count_view[b]:
                        faulty = b
                        break
                    size += 8 * d + 5 + 8 * count_view[b]
            if faulty >= 0:
                break
        if not outside and faulty < 0:
            offset_view[n] = size
    if outside:
        raise ValueError(f"the blocks {offsets[i]} to {offsets[i + 1]} of row {i} are not in the columns")
    if faulty >= 0:
        if not mixed or mode_view[faulty] == 0:
            raise ValueError(f"fragment_index must be >= 0, got {first[faulty]}")
        if mode_view[faulty] == 1:
            raise ValueError(f"range count must be >= 0, got {count_view[faulty]}")
        raise ValueError(f"block {faulty} leaves the pool, or its mode {mode_view[faulty]} is unknown")
    data = np.empty(size, np.uint8)
    cdef uint8_t[::1] data_view = data
    cdef uint8_t *q = &data_view[0] if size else NULL
    with nogil:
        for i in range(n):
            store_u32(q, <uint32_t> (offsets[i + 1] - offsets[i]))
            q += 4
            for b in range(offsets[i], offsets[i + 1]):
                for j in range(d):
                    store_i64(q, coords[b, j])
                    q += 8
                q[0] = mode_view[b] if mixed else 0
                q += 1
                if mixed and mode_view[b] == 2:
                    store_u32(q, <uint32_t> count_view[b])
                    q += 4
                    for j in range(count_view[b]):
                        store_i64(q, pool[first[b] + j])
                        q += 8
                else:
                    store_i64(q, first[b])
                    q += 8
                    if mixed and mode_view[b] == 1:
                        store_i64(q, count_view[b])
                        q += 8
    return data, out_offsets


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


cdef int put_coords(Blob out, object coords, int64_t d) except -1:
    """Coordinates of one block. Room for the mode byte is the caller's."""
    cdef int64_t j
    cdef uint8_t *q
    cdef object item
    cdef bint plain = type(coords) is tuple or type(coords) is list
    if len(coords) != d:
        raise ValueError(f"chunk_coords {coords} has rank {len(coords)}, expected sid_ndim={d}")
    q = out.more(8 * d) if d else NULL
    if plain:
        for j in range(d):
            item = <object> (PyTuple_GET_ITEM(coords, j) if type(coords) is tuple else PyList_GET_ITEM(coords, j))
            if not PyLong_CheckExact(item):
                plain = False
                break
            store_i64(q + 8 * j, number(item, "chunk_coords"))
    if not plain:
        try:
            converted = np.asarray(coords).astype(np.int64, copy=False)
        except OverflowError:
            raise ValueError(f"chunk_coords {coords} must fit signed 64-bit integers") from None
        if converted.ndim != 1:
            raise ValueError(f"chunk_coords must be one number per axis, got shape {converted.shape}")
        for j in range(d):
            store_i64(q + 8 * j, <int64_t> converted[j])
    return 0


cdef int put_block(Blob out, object coords, object piece, int64_t d, bint force_explicit) except -1:
    cdef uint8_t *q
    cdef int64_t index, start, count
    cdef cnp.ndarray array
    put_coords(out, coords, d)
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
            q[0] = 0
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
    q[0] = 1
    store_i64(q + 1, start)
    store_i64(q + 9, count)
    return 0


cdef int put_indices(Blob out, const int64_t *indices, int64_t n, bint force_explicit) except -1:
    """A run if the indices are one and it is allowed, else a list of them."""
    cdef int64_t j
    cdef bint run
    cdef uint8_t *q
    if n > MOST:
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
    q[0] = 2
    store_u32(q + 1, <uint32_t> n)
    for j in range(n):
        store_i64(q + 5 + 8 * j, indices[j])
    return 0


cdef int put_manifest(Blob out, object blocks, int64_t d, bint force_explicit) except -1:
    cdef Py_ssize_t head = out.size, i = 0, n, plain
    cdef uint8_t *q
    out.more(4)
    if type(blocks) is not list:
        blocks = list(blocks)
    n = PyList_GET_SIZE(blocks)
    if n > MOST:
        raise ValueError("a manifest has at most 2**32 - 1 blocks")
    while i < n:
        q = out.more((n - i) * (8 * d + 9))
        plain = zv_put_plain(blocks, i, d, q)
        out.size -= (n - i - plain) * (8 * d + 9)
        i += plain
        if i < n:
            coords, piece = <object> PyList_GET_ITEM(blocks, i)
            put_block(out, coords, piece, d, force_explicit)
            i += 1
            # Converting numbers may run anything, which may do anything to the list.
            if PyList_GET_SIZE(blocks) != n:
                raise RuntimeError("the manifest changed while it was being encoded")
    store_u32(out.data + head, <uint32_t> n)
    return 0


def encode_one(blocks, ndim, bint force_explicit=False):
    """One manifest from (coords, piece) pairs, the inverse of `decode_one`."""
    cdef int64_t d = checked_ndim(ndim)
    cdef Blob out = Blob()
    put_manifest(out, blocks, d, force_explicit)
    return PyBytes_FromStringAndSize(<char *> out.data, out.size)


def encode_lists(manifests, ndim, bint force_explicit=False):
    """One manifest per list of (coords, piece) pairs."""
    cdef int64_t d = checked_ndim(ndim)
    cdef Blob out = Blob()
    cdef list blobs = [], every
    cdef Py_ssize_t i, n
    if type(manifests) is not list:
        manifests = list(manifests)
    every = manifests
    n = PyList_GET_SIZE(every)
    for i in range(n):
        if i + 12 < n:
            zv_prefetch(PyList_GET_ITEM(every, i + 12))
            zv_ask_for_list(<object> PyList_GET_ITEM(every, i + 9))
            zv_ask_for_items(<object> PyList_GET_ITEM(every, i + 6))
            zv_ask_for_blocks(<object> PyList_GET_ITEM(every, i + 3))
        out.size = 0
        put_manifest(out, <object> PyList_GET_ITEM(every, i), d, force_explicit)
        blobs.append(PyBytes_FromStringAndSize(<char *> out.data, out.size))
    return blobs


def cut(const uint8_t[::1] data not None, const int64_t[::1] offsets not None):
    """A list of bytes: item i is `data[offsets[i]:offsets[i + 1]]`."""
    cdef Py_ssize_t n = offsets.shape[0] - 1, i
    cdef int64_t size = data.shape[0]
    cdef const char *p = <const char *> &data[0] if size else NULL
    if n < 0:
        raise ValueError("offsets must have one entry more than there are rows")
    cdef list out = []
    for i in range(n):
        if offsets[i] < 0 or offsets[i] > offsets[i + 1] or offsets[i + 1] > size:
            raise ValueError(f"offsets leave the data at row {i}")
        out.append(PyBytes_FromStringAndSize(p + offsets[i], offsets[i + 1] - offsets[i]))
    return out
