"""Manifests: which pieces of which chunks make up an object.

    u32 B, then B blocks of: i64 coords[ndim], u8 mode, and by mode
        0  i64 index                one piece
        1  i64 start, i64 count     a run of pieces
        2  u32 n, i64 index[n]      any pieces

All little-endian and unaligned. This module says what can be wrong with one; `manifest_columns` makes columns of many,
`manifest_lists` makes lists and tuples, and both write manifests too.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from zvcore.errors import CorruptDataError
from zvcore.kernels.unaligned cimport load_u32


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


cdef Fault walk(const uint8_t *p, int64_t size, int64_t ndim, Walk *out) noexcept nogil:
    """Check one manifest and count its blocks."""
    cdef int64_t position = 4, blocks = 0, listed
    cdef uint32_t declared
    cdef uint8_t mode
    cdef Fault fault = FINE
    if size < 4:
        out.position = 0
        out.blocks = 0
        return TOO_SHORT
    declared = load_u32(p)
    while blocks < declared:
        if size - position < 8 * ndim + 1:
            fault = CUT_HEADER
            break
        position += 8 * ndim
        mode = p[position]
        position += 1
        if mode == SINGLE:
            if size - position < 8:
                fault = CUT_SINGLE
                break
            position += 8
        elif mode == RANGE:
            if size - position < 16:
                fault = CUT_RANGE
                break
            position += 16
        elif mode == EXPLICIT:
            if size - position < 4:
                fault = CUT_EXPLICIT_HEADER
                break
            listed = load_u32(p + position)
            position += 4
            if (size - position) // 8 < listed:
                fault = CUT_EXPLICIT
                break
            position += 8 * listed
        else:
            position -= 1
            fault = UNKNOWN_MODE
            break
        blocks += 1
    if fault == FINE and position != size:
        fault = TRAILING
    out.position = position
    out.blocks = blocks
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


def row_error(const uint8_t[::1] data not None, ndim):
    """The error for one broken manifest, or None if nothing is wrong with it."""
    cdef int64_t size = data.shape[0]
    cdef const uint8_t *p = &data[0] if size else NULL
    cdef Walk at
    cdef Fault fault = walk(p, size, checked_ndim(ndim), &at)
    return None if fault == FINE else fault_error(fault, p, size, &at)
