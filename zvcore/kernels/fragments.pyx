"""Fragment indices: which rows of a chunk's vertices make up each of its F pieces.

    u32 magic, u16 version 1, u16 flags 0, u32 F, u32 R
    bitmap of F bits, least significant first, padded to 8 bytes: 1 is a range
    R x (i64 start, i64 count)
    u32 offsets[F - R + 1], i64 rows[offsets[F - R]]      the pieces that list their rows

All little-endian; nothing but the 16 bytes at the front when F is 0. The lists are unaligned whenever F - R is even.
The indices of many chunks become columns: piece f of chunk k is `first, count` at `offsets[k] + f`, a run of rows, or
a slice of `pool` where `listed` is set.
"""

cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

import numpy as np

from zvcore.errors import CorruptDataError
from zvcore.kernels.unaligned cimport load_i64, load_u16, load_u32, store_i64, store_u32

cnp.import_array()


FINE_CELL = FINE
ABSENT_CELL = ABSENT


cdef inline int64_t bitmap_bytes(int64_t pieces) noexcept nogil:
    return (((pieces + 7) // 8) + 7) & ~<int64_t> 7


cdef inline void store_header(uint8_t *p, int64_t pieces, int64_t ranges) noexcept nogil:
    """The header of an index into bytes that are zero."""
    store_u32(p, MAGIC)
    p[4] = VERSION
    store_u32(p + 8, <uint32_t> pieces)
    store_u32(p + 12, <uint32_t> ranges)


cdef Fault measure(const uint8_t *p, int64_t size, Parts *out) noexcept nogil:
    """Check everything about one index but the values in it."""
    cdef int64_t pieces, ranges, lists, at, i, bits = 0
    cdef uint32_t before, after
    memset(out, 0, sizeof(Parts))
    if size < HEADER:
        return TOO_SHORT
    if load_u32(p) != MAGIC:
        return BAD_MAGIC
    if load_u16(p + 4) != VERSION:
        return BAD_VERSION
    if load_u16(p + 6) != 0:
        return BAD_FLAGS
    pieces = load_u32(p + 8)
    ranges = load_u32(p + 12)
    out.pieces = pieces
    out.ranges = ranges
    if ranges > pieces:
        return TOO_MANY_RANGES
    out.end = HEADER
    if pieces == 0:
        return FINE if size == HEADER else TRAILING
    at = HEADER + bitmap_bytes(pieces)
    if size < at:
        return CUT_BITMAP
    out.table = at
    if size - at < 16 * ranges:
        return CUT_RANGES
    at += 16 * ranges
    out.offsets = at
    lists = pieces - ranges
    if size - at < 4 * (lists + 1):
        return CUT_OFFSETS
    at += 4 * (lists + 1)
    out.rows = at
    # The popcount comes first: where it is wrong, the offsets are read from the wrong place and look wrong as well.
    for i in range((pieces + 63) // 64):
        bits += zv_popcount(bits_at(p, pieces, i))
    if bits != ranges:
        out.listed = bits
        return WRONG_POPCOUNT
    before = load_u32(p + out.offsets)
    if before != 0:
        return UNORDERED
    for i in range(1, lists + 1):
        after = load_u32(p + out.offsets + 4 * i)
        if after < before:
            out.listed = i
            return UNORDERED
        before = after
    out.listed = before
    if (size - at) // 8 < out.listed:
        return CUT_ROWS
    out.end = at + 8 * out.listed
    return FINE if out.end == size else TRAILING


cdef object fault_error(Fault fault, const uint8_t *p, int64_t size, Parts *at):
    cdef dict where = {"offset": 0}
    if fault == TOO_SHORT:
        text = f"Fragment-index blob too short: {size} < {HEADER}"
    elif fault == BAD_MAGIC:
        text = f"Bad fragment-index magic: got 0x{load_u32(p):08X}, want 0x{MAGIC:08X}"
    elif fault == BAD_VERSION:
        text = f"Unsupported fragment-index version {load_u16(p + 4)}; this code reads version {VERSION}"
        where = {"offset": 4}
    elif fault == BAD_FLAGS:
        text = f"Unsupported fragment-index flags 0x{load_u16(p + 6):04X}; expected 0"
        where = {"offset": 6}
    elif fault == TOO_MANY_RANGES:
        text = f"num_range_fragments {at.ranges} exceeds num_fragments {at.pieces}"
        where = {"offset": 12}
    elif fault == CUT_BITMAP:
        text = "Fragment-index blob truncated in bitmap region"
        where = {"offset": HEADER}
    elif fault == CUT_RANGES:
        text = "Fragment-index blob truncated in range table"
        where = {"offset": at.table}
    elif fault == CUT_OFFSETS:
        text = "Fragment-index blob truncated in CSR offsets"
        where = {"offset": at.offsets}
    elif fault == CUT_ROWS:
        text = "Fragment-index blob truncated in CSR indices"
        where = {"offset": at.rows}
    elif fault == WRONG_POPCOUNT:
        text = "Fragment-index bitmap has another number of ranges than num_range_fragments"
        where = {"offset": HEADER, "expected": at.ranges, "found": at.listed}
    elif fault == UNORDERED:
        text = f"Fragment-index CSR offsets must begin at 0 and not decrease; entry {at.listed} is wrong"
        where = {"offset": at.offsets + 4 * at.listed, "found": load_u32(p + at.offsets + 4 * at.listed)}
        if at.listed:
            where["expected"] = f"at least {load_u32(p + at.offsets + 4 * at.listed - 4)}"
        else:
            where["expected"] = 0
    else:
        text = f"Fragment-index blob has {size - at.end} trailing bytes after {at.pieces} fragments"
        where = {"offset": at.end}
    return CorruptDataError(text, **where)


def cell_error(const uint8_t[::1] data not None):
    """The error for one broken index, or None if nothing is wrong with it."""
    cdef int64_t size = data.shape[0]
    cdef const uint8_t *p = &data[0] if size else NULL
    cdef Parts parts
    cdef Fault fault = measure(p, size, &parts)
    return None if fault == FINE else fault_error(fault, p, size, &parts)


cdef struct Cells:
    const uint8_t *data
    int64_t size
    const int64_t *starts
    const int64_t *lengths
    Py_ssize_t count


cdef struct Columns:
    int64_t *offsets
    uint8_t *status
    int64_t *first
    int64_t *count
    uint8_t *listed
    int64_t *pool
    int64_t pieces      # of all cells before this one
    int64_t rows        # that they list


cdef Py_ssize_t measure_cells(const Cells *cells, Columns *out) noexcept nogil:
    """Fill `offsets` and `status`; the first cell that is not inside the data, or -1."""
    cdef Py_ssize_t k
    cdef int64_t start, length
    cdef Parts parts
    for k in range(cells.count):
        out.offsets[k] = out.pieces
        start = cells.starts[k]
        length = cells.lengths[k]
        if start < 0 or length < 0 or length > cells.size or start > cells.size - length:
            return k
        if length == 0:
            out.status[k] = ABSENT
            continue
        out.status[k] = measure(cells.data + start, length, &parts)
        if out.status[k] == FINE:
            out.pieces += parts.pieces
            out.rows += parts.listed
    out.offsets[cells.count] = out.pieces
    return -1


cdef void fill_cell(const uint8_t *p, int64_t size, Columns *out) noexcept nogil:
    """Append the pieces of one index that has been measured."""
    cdef Parts parts
    cdef int64_t i, start, at = out.pieces
    cdef const uint8_t *entry
    cdef const uint8_t *offset
    measure(p, size, &parts)
    entry = p + parts.table
    offset = p + parts.offsets
    for i in range(parts.pieces):
        if (p[HEADER + (i >> 3)] >> (i & 7)) & 1:
            out.first[at] = load_i64(entry)
            out.count[at] = load_i64(entry + 8)
            out.listed[at] = 0
            entry += 16
        else:
            start = load_u32(offset)
            out.first[at] = out.rows + start
            out.count[at] = load_u32(offset + 4) - start
            out.listed[at] = 1
            offset += 4
        at += 1
    out.pieces = at
    for i in range(parts.listed):
        out.pool[out.rows + i] = load_i64(p + parts.rows + 8 * i)
    out.rows += parts.listed


cdef inline void *memory_of(object array) noexcept:
    return cnp.PyArray_DATA(<cnp.ndarray> array)


def decode_cells(const uint8_t[::1] data not None, const int64_t[::1] starts not None,
                 const int64_t[::1] lengths not None):
    """The indices of many chunks, which lie anywhere in `data`, as columns.

    Returns (offsets, first, count, listed, pool, status). `status[k]` is FINE_CELL, ABSENT_CELL (no bytes at all), or
    something else for a broken index; the last two have no pieces.
    """
    cdef Py_ssize_t n = starts.shape[0], k, outside
    cdef int64_t size = data.shape[0]
    if lengths.shape[0] != n:
        raise ValueError("starts and lengths must be equally long")
    if n == 0:
        starts = lengths = np.zeros(1, np.int64)
    cdef Cells cells
    cells.data = &data[0] if size else NULL
    cells.size = size
    cells.starts = &starts[0]
    cells.lengths = &lengths[0]
    cells.count = n
    cdef Columns out
    memset(&out, 0, sizeof(Columns))
    offsets = np.empty(n + 1, np.int64)
    status = np.empty(n, np.uint8)
    out.offsets = <int64_t *> memory_of(offsets)
    out.status = <uint8_t *> memory_of(status)
    with nogil:
        outside = measure_cells(&cells, &out)
    if outside >= 0:
        raise ValueError(
            f"cell {outside} is not inside the data: {lengths[outside]} bytes at {starts[outside]} of {size}"
        )
    first = np.empty(out.pieces, np.int64)
    count = np.empty(out.pieces, np.int64)
    listed = np.empty(out.pieces, np.uint8)
    pool = np.empty(out.rows, np.int64)
    out.first = <int64_t *> memory_of(first)
    out.count = <int64_t *> memory_of(count)
    out.listed = <uint8_t *> memory_of(listed)
    out.pool = <int64_t *> memory_of(pool)
    out.pieces = out.rows = 0
    with nogil:
        for k in range(n):
            if out.offsets[k] != out.offsets[k + 1]:
                fill_cell(cells.data + cells.starts[k], cells.lengths[k], &out)
    return offsets, first, count, listed, pool, status


cdef class Gathering:
    """Which rows make up the wanted pieces, measured once; `take` then copies them, for each array that has such rows.

    `cell[i], piece[i]` name a piece of a chunk that has `rows[cell[i]]` rows; `columns` are what `decode_cells` returns
    without its status. The rows of the i-th wanted piece go to `sums[i]:sums[i + 1]`. `faulty` is the first that cannot
    be taken, because the piece or one of its rows does not exist, or -1.
    """

    cdef const int64_t[::1] cell, piece, offsets, first, count, pool
    cdef const uint8_t[::1] listed
    cdef int64_t[::1] places
    cdef readonly object sums
    cdef readonly Py_ssize_t faulty

    def __init__(self, const int64_t[::1] cell not None, const int64_t[::1] piece not None, tuple columns not None,
                 const int64_t[::1] rows not None):
        cdef Py_ssize_t n = cell.shape[0], i
        cdef int64_t cells
        self.cell, self.piece = cell, piece
        self.offsets, self.first, self.count, self.listed, self.pool = columns
        cells = self.offsets.shape[0] - 1
        if piece.shape[0] != n or cells < 0 or rows.shape[0] != cells or self.first.shape[0] != self.offsets[cells] \
                or self.count.shape[0] != self.first.shape[0] or self.listed.shape[0] != self.first.shape[0]:
            raise ValueError("columns of different lengths")
        for i in range(cells):
            if self.offsets[i] < 0 or self.offsets[i] > self.offsets[i + 1]:
                raise ValueError("offsets decrease")
        self.sums = np.empty(n + 1, np.int64)
        self.places = self.sums
        with nogil:
            self.faulty = self._measure(rows)

    cdef Py_ssize_t _measure(self, const int64_t[::1] rows) noexcept nogil:
        """Fill the running sum; the first piece that cannot be taken, or -1."""
        cdef Py_ssize_t n = self.cell.shape[0], i
        cdef int64_t k, at, total = 0, cells = rows.shape[0]
        for i in range(n):
            self.places[i] = total
            k = self.cell[i]
            if k < 0 or k >= cells or self.piece[i] < 0 or self.piece[i] >= self.offsets[k + 1] - self.offsets[k]:
                return i
            at = self.offsets[k] + self.piece[i]
            if not self._has_rows(at, rows[k]):
                return i
            total += self.count[at]
        self.places[n] = total
        return -1

    cdef inline bint _has_rows(self, int64_t at, int64_t have) noexcept nogil:
        """Whether all rows of a piece are among the `have` rows of its chunk."""
        cdef int64_t first = self.first[at], count = self.count[at], taken = self.pool.shape[0], j
        if first < 0 or count < 0:
            return False
        if not self.listed[at]:
            return count <= have and first <= have - count
        if count > taken or first > taken - count:
            return False
        for j in range(first, first + count):
            if self.pool[j] < 0 or self.pool[j] >= have:
                return False
        return True

    def take(self, const uint8_t[::1] source not None, const int64_t[::1] starts not None, int64_t row_bytes,
             uint8_t[::1] out not None, Py_ssize_t begin, Py_ssize_t end):
        """Copy the rows of the wanted pieces `begin:end` to their places in `out`.

        Chunk k's rows of `row_bytes` each begin at `source[starts[k]]`.
        """
        cdef Py_ssize_t n = self.cell.shape[0], i = begin
        cdef int64_t size = source.shape[0], room = out.shape[0], cells = self.offsets.shape[0] - 1
        if self.faulty >= 0:
            raise ValueError(f"piece {self.faulty} cannot be taken")
        if starts.shape[0] != cells or not 0 <= begin <= end <= n or row_bytes <= 0:
            raise ValueError("columns of different lengths")
        if end == begin:
            return
        if self.places[end] > room // row_bytes:
            raise ValueError(f"{self.places[end]} rows of {row_bytes} bytes do not fit {room} bytes")
        if self.places[end] == self.places[begin]:
            return
        cdef const uint8_t *p = &source[0] if size else NULL
        cdef uint8_t *q = &out[0]
        cdef bint inside = True
        with nogil:
            while i < end and inside:
                inside = self._copy(i, p, size, starts[self.cell[i]], row_bytes, q + self.places[i] * row_bytes)
                i += 1
        if not inside:
            raise ValueError(f"the rows of chunk {self.cell[i - 1]} lie outside the source")

    cdef inline bint _copy(self, Py_ssize_t i, const uint8_t *source, int64_t size, int64_t start, int64_t row_bytes,
                           uint8_t *out) noexcept nogil:
        """Copy the rows of one piece; False if they do not lie in the source."""
        cdef int64_t at = self.offsets[self.cell[i]] + self.piece[i], first = self.first[at], count = self.count[at], j
        if start < 0:
            return False
        if not self.listed[at]:
            if start + (first + count) * row_bytes > size:
                return False
            memcpy(out, source + start + first * row_bytes, count * row_bytes)
            return True
        for j in range(first, first + count):
            if start + (self.pool[j] + 1) * row_bytes > size:
                return False
            memcpy(out, source + start + self.pool[j] * row_bytes, row_bytes)
            out += row_bytes
        return True


def encode_ranges(const int64_t[::1] first not None, const int64_t[::1] count not None):
    """An index whose pieces are all runs of rows."""
    cdef int64_t n = first.shape[0], i, bitmap
    if count.shape[0] != n:
        raise ValueError("first and count must be equally long")
    if n > 0xFFFFFFFF:
        raise ValueError(f"an index has at most 2**32 - 1 fragments, got {n}")
    for i in range(n):
        if count[i] < 0:
            raise ValueError(f"Fragment count must be >= 0, got {count[i]}")
    bitmap = bitmap_bytes(n)
    out = bytearray(HEADER + bitmap + 16 * n + 4 if n else HEADER)
    cdef uint8_t[::1] view = out
    cdef uint8_t *q = &view[0]
    store_header(q, n, n)
    if n:
        memset(q + HEADER, 0xFF, n // 8)
        if n % 8:
            q[HEADER + n // 8] = <uint8_t> ((1 << (n % 8)) - 1)
        q += HEADER + bitmap
        for i in range(n):
            store_i64(q, first[i])
            store_i64(q + 8, count[i])
            q += 16
    return bytes(out)


def encode_mixed(const uint8_t[::1] listed not None, const int64_t[::1] first not None,
                 const int64_t[::1] count not None, const int64_t[::1] pool not None):
    """An index of pieces that are runs, or slices of `pool` where `listed` is set."""
    cdef int64_t n = first.shape[0], i, j, lists = 0, rows = 0, bitmap, taken = pool.shape[0]
    if count.shape[0] != n or listed.shape[0] != n:
        raise ValueError("columns of different lengths")
    if n > 0xFFFFFFFF:
        raise ValueError(f"an index has at most 2**32 - 1 fragments, got {n}")
    for i in range(n):
        if count[i] < 0:
            raise ValueError(f"Fragment count must be >= 0, got {count[i]}")
        if listed[i]:
            if first[i] < 0 or count[i] > taken or first[i] > taken - count[i]:
                raise ValueError(f"fragment {i} lies outside the pool")
            lists += 1
            rows += count[i]
    if rows > 0xFFFFFFFF:
        raise ValueError(f"an index lists at most 2**32 - 1 rows, got {rows}")
    if n == 0:
        return encode_ranges(first, count)
    bitmap = bitmap_bytes(n)
    out = bytearray(HEADER + bitmap + 16 * (n - lists) + 4 * (lists + 1) + 8 * rows)
    cdef uint8_t[::1] view = out
    cdef uint8_t *base = &view[0]
    cdef uint8_t *table = base + HEADER + bitmap
    cdef uint8_t *offset = table + 16 * (n - lists)
    cdef uint8_t *row = offset + 4 * (lists + 1)
    store_header(base, n, n - lists)
    rows = 0
    for i in range(n):
        if listed[i]:
            for j in range(count[i]):
                if pool[first[i] + j] < 0:
                    raise ValueError("Explicit fragment indices must be non-negative")
                store_i64(row, pool[first[i] + j])
                row += 8
            rows += count[i]
            offset += 4
            store_u32(offset, <uint32_t> rows)
        else:
            base[HEADER + (i >> 3)] |= <uint8_t> (1 << (i & 7))
            store_i64(table, first[i])
            store_i64(table + 8, count[i])
            table += 16
    return bytes(out)
