"""Where chunks of several shards are, from the indexes of the shards."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from cpython.mem cimport PyMem_Free, PyMem_Malloc


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
        with nogil:
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
    finally:
        PyMem_Free(columns)
    if wrong >= 0:
        raise IndexError(f"row {wrong}: no place {slots[wrong]} in the index of shard {which[wrong]}")
