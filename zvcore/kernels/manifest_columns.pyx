"""Many manifests as columns and back; see manifest.pyx for what the bytes of one are.

Block b of row i is one of `offsets[i]:offsets[i + 1]`; `coords[b]` is its chunk, and `first[b], count[b]` a run of
pieces for modes 0 and 1 and a slice of `pool` for mode 2. `mode` and `count` are None when every block is of mode 0,
whose count is 1.
"""

cimport numpy as cnp
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

from zvcore.kernels.manifest cimport (
    ABSENT,
    CUT_EXPLICIT,
    CUT_EXPLICIT_HEADER,
    CUT_HEADER,
    CUT_RANGE,
    CUT_SINGLE,
    EXPLICIT,
    FINE,
    MAX_COUNT,
    RANGE,
    SINGLE,
    TOO_SHORT,
    TRAILING,
    UNKNOWN_MODE,
    Fault,
    checked_ndim,
)
from zvcore.kernels.unaligned cimport load_i64, load_u32, store_i64, store_u32


cnp.import_array()


cdef struct Columns:
    int64_t *coords
    int64_t *first
    int64_t *count
    uint8_t *mode
    int64_t *pool
    int64_t blocks      # filled so far
    int64_t listed      # entries of the pool filled so far
    bint mixed          # whether mode and count are filled; until then every block is a single piece


cdef Fault take(const uint8_t *p, int64_t size, int64_t ndim, Columns *out) noexcept nogil:
    """Check one manifest and append its blocks; a broken one appends nothing."""
    cdef int64_t position = 4, block = out.blocks, listed = out.listed, number, i
    cdef int64_t *coords = out.coords + block * ndim
    cdef uint32_t declared, _k
    cdef uint8_t mode
    if size < 4:
        return TOO_SHORT
    declared = load_u32(p)
    for _k in range(declared):
        if size - position < 8 * ndim + 1:
            return CUT_HEADER
        for i in range(ndim):
            coords[i] = load_i64(p + position + 8 * i)
        coords += ndim
        position += 8 * ndim
        mode = p[position]
        position += 1
        if mode != SINGLE and not out.mixed:
            for i in range(block):
                out.mode[i] = SINGLE
                out.count[i] = 1
            out.mixed = True
        if mode == SINGLE:
            if size - position < 8:
                return CUT_SINGLE
            out.first[block] = load_i64(p + position)
            if out.mixed:
                out.mode[block] = SINGLE
                out.count[block] = 1
            position += 8
        elif mode == RANGE:
            if size - position < 16:
                return CUT_RANGE
            out.mode[block] = RANGE
            out.first[block] = load_i64(p + position)
            out.count[block] = load_i64(p + position + 8)
            position += 16
        elif mode == EXPLICIT:
            if size - position < 4:
                return CUT_EXPLICIT_HEADER
            number = load_u32(p + position)
            position += 4
            if (size - position) // 8 < number:
                return CUT_EXPLICIT
            out.mode[block] = EXPLICIT
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
    cdef int64_t ndim

    def __cinit__(self, int64_t size, int64_t ndim):
        # The smallest block is one that lists nothing; a broken row writes one block more before it is noticed.
        cdef int64_t most = size // (8 * ndim + 5) + 1
        self.ndim = ndim
        self.coords = np.empty((most, ndim), np.int64)
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
        self.coords.resize((self.at.blocks, self.ndim), refcheck=False)
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

    Returns (offsets, coords, mode, first, count, pool, status). `status[i]` is `manifest.FINE_ROW`,
    `manifest.ABSENT_ROW` (no bytes at all), or something else for a row that is broken; both of the latter have no
    blocks.
    """
    cdef int64_t rank = checked_ndim(ndim)
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
    cdef _Room room = _Room(total, rank)
    with nogil:
        for i in range(n):
            offset_view[i] = room.at.blocks
            status_view[i] = ABSENT if lengths[i] == 0 else take(base + starts[i], lengths[i], rank, &room.at)
        offset_view[n] = room.at.blocks
    return room.finished(offsets, status)


def decode_chunk(const uint8_t[::1] data not None, ndim):
    """The manifests of one buffer of rows of variable length (see `vlen`), read once: as `decode_rows`.

    None if the rows do not fill the buffer exactly: then `vlen.split_rows` says why.
    """
    cdef int64_t rank = checked_ndim(ndim), size = data.shape[0], position = 4, length
    cdef Py_ssize_t n, i
    if size < 4 or load_u32(&data[0]) > (size - 4) // 4:
        return None
    cdef const uint8_t *p = &data[0]
    n = load_u32(p)
    offsets = np.empty(n + 1, np.int64)
    status = np.empty(n, np.uint8)
    cdef int64_t[::1] offset_view = offsets
    cdef uint8_t[::1] status_view = status
    cdef _Room room = _Room(size, rank)
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
            status_view[i] = ABSENT if length == 0 else take(p + position, length, rank, &room.at)
            position += length
        if whole:
            offset_view[n] = room.at.blocks
    if not whole or position != size:
        return None
    return room.finished(offsets, status)


def expand(const int64_t[::1] offsets not None, const int64_t[:, ::1] coords not None, const uint8_t[::1] mode not None,
           const int64_t[::1] first not None, const int64_t[::1] count not None, const int64_t[::1] pool not None,
           int64_t limit):
    """One entry per piece: (offsets, coords, piece). Refuses (None) to make more than `limit` of them."""
    cdef Py_ssize_t n = offsets.shape[0] - 1, i, total = coords.shape[0]
    cdef int64_t ndim = coords.shape[1], pieces = 0, b, j, k, taken = pool.shape[0]
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
                if mode[b] == EXPLICIT and (first[b] < 0 or count[b] > taken or first[b] > taken - count[b]):
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
    out_coords = np.empty((pieces, ndim), np.int64)
    out_pieces = np.empty(pieces, np.int64)
    cdef int64_t[:, ::1] coord_view = out_coords
    cdef int64_t[::1] piece_view = out_pieces
    k = 0
    cdef int64_t c
    with nogil:
        for i in range(n):
            for b in range(offsets[i], offsets[i + 1]):
                for j in range(count[b]):
                    for c in range(ndim):
                        coord_view[k, c] = coords[b, c]
                    if mode[b] == EXPLICIT:
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
    cdef int64_t ndim = coords.shape[1], b, j, size = 0, taken = pool.shape[0]
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
                    or offsets[i + 1] - offsets[i] > MAX_COUNT:
                outside = True
                break
            size += 4
            for b in range(offsets[i], offsets[i + 1]):
                if not mixed or mode_view[b] == SINGLE:
                    if first[b] < 0:
                        faulty = b
                        break
                    size += 8 * ndim + 9
                elif mode_view[b] == RANGE:
                    if count_view[b] < 0:
                        faulty = b
                        break
                    size += 8 * ndim + 17
                else:
                    if mode_view[b] != EXPLICIT or count_view[b] < 0 or count_view[b] > MAX_COUNT or first[b] < 0 \
                            or count_view[b] > taken or first[b] > taken - count_view[b]:
                        faulty = b
                        break
                    size += 8 * ndim + 5 + 8 * count_view[b]
            if faulty >= 0:
                break
        if not outside and faulty < 0:
            offset_view[n] = size
    if outside:
        raise ValueError(f"the blocks {offsets[i]} to {offsets[i + 1]} of row {i} are not in the columns")
    if faulty >= 0:
        if not mixed or mode_view[faulty] == SINGLE:
            raise ValueError(f"fragment_index must be >= 0, got {first[faulty]}")
        if mode_view[faulty] == RANGE:
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
                for j in range(ndim):
                    store_i64(q, coords[b, j])
                    q += 8
                q[0] = mode_view[b] if mixed else SINGLE
                q += 1
                if mixed and mode_view[b] == EXPLICIT:
                    store_u32(q, <uint32_t> count_view[b])
                    q += 4
                    for j in range(count_view[b]):
                        store_i64(q, pool[first[b] + j])
                        q += 8
                else:
                    store_i64(q, first[b])
                    q += 8
                    if mixed and mode_view[b] == RANGE:
                        store_i64(q, count_view[b])
                        q += 8
    return data, out_offsets


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
