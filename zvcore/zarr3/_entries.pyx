"""The entries of shards' indexes: told apart and checked, looked up, and planned for a shard that is written anew."""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from zvcore.kernels.unaligned cimport load_u64
from zvcore.system.gil cimport let_go, take_back

cdef uint64_t MISSING = 0xFFFFFFFFFFFFFFFF


cdef inline bint is_wrong(uint64_t offset, uint64_t length, uint64_t start, uint64_t stop) noexcept nogil:
    if offset == MISSING or length == MISSING:
        return offset != length
    return offset < start or offset > stop or length > stop - offset


cdef void split(const uint8_t *raw, Py_ssize_t count, uint64_t *offsets, uint64_t *lengths) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        offsets[i] = load_u64(raw + 16 * i)
        lengths[i] = load_u64(raw + 16 * i + 8)


cdef Py_ssize_t next_of(const uint64_t *offsets, const uint64_t *lengths, Py_ssize_t count, uint64_t start,
                        uint64_t stop) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        if is_wrong(offsets[i], lengths[i], start, stop):
            return i
    return -1


def split_entries(const uint8_t[::1] raw not None, uint64_t[::1] offsets not None, uint64_t[::1] lengths not None):
    """Fill the columns from little-endian (offset, length) pairs."""
    cdef Py_ssize_t count = offsets.shape[0]
    if lengths.shape[0] != count or raw.shape[0] != 16 * count:
        raise ValueError("columns of different lengths")
    if count > 0:
        python = let_go(count)
        split(&raw[0], count, &offsets[0], &lengths[0])
        take_back(python)


def next_wrong(const uint64_t[::1] offsets not None, const uint64_t[::1] lengths not None, uint64_t start,
               uint64_t stop, Py_ssize_t begin=0):
    """The first entry from `begin` on that is neither missing nor a range of what lies from `start` to `stop`; -1 if
    there is none.
    """
    cdef Py_ssize_t left = offsets.shape[0] - begin, found = -1
    if lengths.shape[0] != offsets.shape[0] or begin < 0:
        raise ValueError("columns of different lengths")
    if left > 0:
        python = let_go(left)
        found = next_of(&offsets[begin], &lengths[begin], left, start, stop)
        take_back(python)
    return found if found < 0 else begin + found


def plan(const int64_t[::1] order not None, uint64_t[::1] offsets not None, uint64_t[::1] lengths not None,
         const int64_t[::1] slots not None, const uint64_t[::1] sizes not None, uint64_t head):
    """Put new chunks of these sizes into a shard whose index is given, which becomes that of the shard written anew:
    chunks in `order`, the first at `head`. MISSING is the size of one that is taken out.

    (runs, rows, where the chunks end), the first two as `ShardAssembler.rewrite` tells them.
    """
    cdef Py_ssize_t count = offsets.shape[0], news = slots.shape[0], i, slot, row, first = 0
    cdef uint64_t at = head, old_begin = 0, old_end = 0, offset, size
    cdef bint old_open = False
    cdef int64_t *row_of
    cdef list runs = [], rows = []
    if order.shape[0] != count or lengths.shape[0] != count or sizes.shape[0] != news:
        raise ValueError("columns of different lengths")
    row_of = <int64_t *> PyMem_Malloc(max(count, 1) * sizeof(int64_t))
    if row_of == NULL:
        raise MemoryError
    try:
        memset(row_of, 0xFF, count * sizeof(int64_t))
        for i in range(news):
            if not 0 <= slots[i] < count:
                raise IndexError(f"no place {slots[i]} in an index of {count}")
            row_of[slots[i]] = i
            lengths[slots[i]] = sizes[i]
        for i in range(count):
            slot = order[i]
            if not 0 <= slot < count:
                raise IndexError(f"no place {slot} in an index of {count}")
            size = lengths[slot]
            if size == MISSING:
                offsets[slot] = MISSING
                continue
            row = row_of[slot]
            offset = offsets[slot]
            offsets[slot] = at
            if at + size < at:
                raise OverflowError("a shard of more than 2**64 bytes")
            at += size
            if row >= 0:
                if old_open:
                    runs.append((-1, old_begin, old_end - old_begin))
                    old_open = False
                rows.append(row)
                continue
            if len(rows) > first:
                runs.append((first, len(rows), 0))
                first = len(rows)
            if old_open and offset == old_end:
                old_end += size
                continue
            if old_open:
                runs.append((-1, old_begin, old_end - old_begin))
            old_begin, old_end, old_open = offset, offset + size, True
        if old_open:
            runs.append((-1, old_begin, old_end - old_begin))
        if len(rows) > first:
            runs.append((first, len(rows), 0))
    finally:
        PyMem_Free(row_of)
    return runs, rows, at


cdef struct Columns:
    const uint64_t *offsets
    const uint64_t *lengths
    int64_t count


def look_up(list indexes not None, const int32_t[::1] which not None, const int64_t[::1] slots not None,
            uint64_t[::1] offsets not None, uint64_t[::1] lengths not None):
    """Fill in what index `which[i]` has at `slots[i]`; for a shard that has none (None), nothing is written."""
    cdef Py_ssize_t n = which.shape[0], shards = len(indexes), i, wrong = -1
    cdef const uint64_t[::1] offset_view, length_view
    cdef Columns *columns
    if slots.shape[0] != n or offsets.shape[0] != n or lengths.shape[0] != n:
        raise ValueError("columns of different lengths")
    columns = <Columns *> PyMem_Malloc(max(shards, 1) * sizeof(Columns))
    if columns == NULL:
        raise MemoryError
    try:
        for i in range(shards):
            columns[i].count = -1
            if indexes[i] is None:
                continue
            # The list keeps the arrays.
            offset_view, length_view = indexes[i].offsets, indexes[i].lengths
            columns[i].count = min(offset_view.shape[0], length_view.shape[0])
            if columns[i].count:
                columns[i].offsets, columns[i].lengths = &offset_view[0], &length_view[0]
        python = let_go(n)
        for i in range(n):
            if not 0 <= which[i] < shards or slots[i] < 0:
                wrong = i
                break
            if columns[which[i]].count < 0:
                continue
            if slots[i] >= columns[which[i]].count:
                wrong = i
                break
            offsets[i] = columns[which[i]].offsets[slots[i]]
            lengths[i] = columns[which[i]].lengths[slots[i]]
        take_back(python)
    finally:
        PyMem_Free(columns)
    if wrong >= 0:
        raise IndexError(f"row {wrong}: no place {slots[wrong]} in the index of shard {which[wrong]}")
