"""Many manifests as columns and back; see manifest.pyx for what the bytes of one are.

Block b of row i is one of `offsets[i]:offsets[i + 1]`; `coords[b]` is its chunk, and `first[b], count[b]` a run of
pieces for modes 0 and 1 and a slice of `pool` for mode 2. `mode` and `count` are None when every block is of mode 0,
whose count is 1.
"""

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
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
    """Columns for the most blocks that some bytes could hold; memory is only used for those that are filled."""
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
        # A broken row may have been the only one that had more than single pieces.
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
    `manifest.ABSENT_ROW` (no bytes at all), or something else for a broken row; the last two have no
    blocks.
    """
    cdef int64_t rank = checked_ndim(ndim)
    cdef Py_ssize_t n = starts.shape[0], i
    if lengths.shape[0] != n:
        raise ValueError("starts and lengths must be equally long")
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


def decode_blobs(blobs, ndim):
    """The manifests of a sequence of bytes objects (None: no bytes at all), where they are: as `decode_rows`.

    None if there is anything else among them.
    """
    cdef int64_t rank = checked_ndim(ndim), total = 0
    # A list of our own, which no other thread can change while its bytes are being read.
    cdef list every = list(blobs)
    cdef Py_ssize_t n = PyList_GET_SIZE(every), i
    cdef object blob
    places = np.empty(n, np.uintp)
    offsets = np.empty(n + 1, np.int64)
    status = np.empty(n, np.uint8)
    cdef const uint8_t **place = <const uint8_t **> cnp.PyArray_DATA(<cnp.ndarray> places)
    cdef int64_t[::1] offset_view = offsets
    cdef uint8_t[::1] status_view = status
    for i in range(n):
        blob = <object> PyList_GET_ITEM(every, i)
        offset_view[i] = 0
        if blob is None:
            continue
        if not PyBytes_CheckExact(blob):
            return None
        place[i] = <const uint8_t *> PyBytes_AS_STRING(blob)
        # Its length is kept where its first block will begin.
        offset_view[i] = PyBytes_GET_SIZE(blob)
        total += offset_view[i]
    cdef _Room room = _Room(total, rank)
    cdef int64_t length
    with nogil:
        for i in range(n):
            length = offset_view[i]
            offset_view[i] = room.at.blocks
            status_view[i] = ABSENT if length == 0 else take(place[i], length, rank, &room.at)
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
        raise ValueError(f"row {i} lies outside the columns")
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
                        # Wraps around where a run leaves int64; callers that care have checked the run.
                        piece_view[k] = <int64_t> (<uint64_t> first[b] + <uint64_t> j)
                    k += 1
    return out_offsets, out_coords, out_pieces


cdef struct Blocks:
    const int64_t *offsets
    const int64_t *coords
    const uint8_t *mode     # NULL: every block is a single piece
    const int64_t *first
    const int64_t *count
    const int64_t *pool
    int64_t rows
    int64_t total
    int64_t ndim
    int64_t taken           # entries of the pool


cdef inline int64_t block_bytes(const Blocks *blocks, int64_t b) noexcept nogil:
    """How many bytes a block takes; -1 for one that cannot be written."""
    cdef int64_t fixed = 8 * blocks.ndim + 1, first = blocks.first[b], count
    cdef uint8_t mode = SINGLE if blocks.mode == NULL else blocks.mode[b]
    if mode == SINGLE:
        return fixed + 8 if first >= 0 else -1
    count = blocks.count[b]
    if mode == RANGE:
        return fixed + 16 if count >= 0 else -1
    if mode != EXPLICIT or count < 0 or count > MAX_COUNT or first < 0 or count > blocks.taken \
            or first > blocks.taken - count:
        return -1
    return fixed + 4 + 8 * count


cdef (int64_t, int64_t) measure_rows(Blocks blocks, int64_t *out) noexcept nogil:
    """Fill in where each row will begin: (first row outside the columns, first faulty block), -1 for none."""
    cdef int64_t i, b, begin, end, wanted, size = 0
    for i in range(blocks.rows):
        out[i] = size
        begin = blocks.offsets[i]
        end = blocks.offsets[i + 1]
        if begin < 0 or begin > end or end > blocks.total or end - begin > MAX_COUNT:
            return i, -1
        size += 4
        for b in range(begin, end):
            wanted = block_bytes(&blocks, b)
            if wanted < 0:
                return -1, b
            size += wanted
    out[blocks.rows] = size
    return -1, -1


cdef inline uint8_t *store_block(uint8_t *q, const Blocks *blocks, int64_t b) noexcept nogil:
    """Write a block that was measured; where the next one goes."""
    cdef const int64_t *coords = blocks.coords + b * blocks.ndim
    cdef const int64_t *listed
    cdef int64_t j, count
    cdef uint8_t mode = SINGLE if blocks.mode == NULL else blocks.mode[b]
    for j in range(blocks.ndim):
        store_i64(q + 8 * j, coords[j])
    q += 8 * blocks.ndim
    q[0] = mode
    q += 1
    if mode == EXPLICIT:
        count = blocks.count[b]
        listed = NULL if count == 0 else blocks.pool + blocks.first[b]    # there may be no pool at all
        store_u32(q, <uint32_t> count)
        q += 4
        for j in range(count):
            store_i64(q + 8 * j, listed[j])
        return q + 8 * count
    store_i64(q, blocks.first[b])
    if mode == RANGE:
        store_i64(q + 8, blocks.count[b])
        return q + 16
    return q + 8


cdef void store_rows(uint8_t *q, Blocks blocks) noexcept nogil:
    """Write all rows. `blocks` is a copy, so the compiler knows that writing through `q` does not change it."""
    cdef int64_t i, b, begin, end
    for i in range(blocks.rows):
        begin = blocks.offsets[i]
        end = blocks.offsets[i + 1]
        store_u32(q, <uint32_t> (end - begin))
        q += 4
        for b in range(begin, end):
            q = store_block(q, &blocks, b)


cdef object block_error(const Blocks *blocks, int64_t b):
    if blocks.mode == NULL or blocks.mode[b] == SINGLE:
        return ValueError(f"fragment_index must be >= 0, got {blocks.first[b]}")
    if blocks.mode[b] == RANGE:
        return ValueError(f"range count must be >= 0, got {blocks.count[b]}")
    return ValueError(f"block {b} lies outside the pool, or its mode {blocks.mode[b]} is unknown")


def encode_rows(const int64_t[::1] offsets not None, const int64_t[:, ::1] coords not None, mode,
                const int64_t[::1] first not None, count, const int64_t[::1] pool not None):
    """Columns as manifests: (data, offsets), row i is `data[offsets[i]:offsets[i + 1]]`."""
    cdef int64_t n = offsets.shape[0] - 1, outside, faulty
    cdef bint mixed = mode is not None
    cdef const uint8_t[::1] mode_view = mode if mixed else None
    cdef const int64_t[::1] count_view = count if mixed else first
    cdef Blocks blocks
    blocks.rows, blocks.total, blocks.ndim, blocks.taken = n, coords.shape[0], coords.shape[1], pool.shape[0]
    if n < 0 or first.shape[0] != blocks.total or count_view.shape[0] != blocks.total \
            or (mixed and mode_view.shape[0] != blocks.total):
        raise ValueError("columns of different lengths")
    blocks.offsets = &offsets[0]
    blocks.coords = &coords[0, 0] if blocks.total and blocks.ndim else NULL
    blocks.mode = &mode_view[0] if mixed and blocks.total else NULL
    blocks.first = &first[0] if blocks.total else NULL
    blocks.count = &count_view[0] if blocks.total else NULL
    blocks.pool = &pool[0] if blocks.taken else NULL
    out_offsets = np.empty(n + 1, np.int64)
    cdef int64_t[::1] offset_view = out_offsets
    with nogil:
        outside, faulty = measure_rows(blocks, &offset_view[0])
    if outside >= 0:
        raise ValueError(
            f"the blocks {offsets[outside]} to {offsets[outside + 1]} of row {outside} are not in the columns"
        )
    if faulty >= 0:
        raise block_error(&blocks, faulty)
    data = np.empty(offset_view[n], np.uint8)
    cdef uint8_t *q = <uint8_t *> cnp.PyArray_DATA(<cnp.ndarray> data)
    with nogil:
        store_rows(q, blocks)
    return data, out_offsets


def cut(const uint8_t[::1] data not None, const int64_t[::1] offsets not None):
    """A list of bytes: item i is `data[offsets[i]:offsets[i + 1]]`."""
    cdef Py_ssize_t n = offsets.shape[0] - 1, i
    cdef int64_t size = data.shape[0]
    cdef const char *p = <const char *> &data[0] if size else NULL
    if n < 0:
        raise ValueError("offsets must have one more entry than there are rows")
    cdef list out = []
    for i in range(n):
        if offsets[i] < 0 or offsets[i] > offsets[i + 1] or offsets[i + 1] > size:
            raise ValueError(f"offsets leave the data at row {i}")
        out.append(PyBytes_FromStringAndSize(p + offsets[i], offsets[i + 1] - offsets[i]))
    return out
