"""The table by which a format reads and writes the header that its chunks have of their own, before it is trusted."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memset


cdef enum:
    UNTOUCHED = 0xA5


cdef const zv_framing *framing_of(object capsule, int ndim, const Py_ssize_t *chunk) except NULL:
    if not PyCapsule_IsValid(capsule, ZV_FRAMING_CAPSULE):
        raise TypeError(f"a framing is a capsule named {ZV_FRAMING_CAPSULE.decode()!r}, not {capsule!r}")
    cdef const zv_framing *table = <const zv_framing *> PyCapsule_GetPointer(capsule, ZV_FRAMING_CAPSULE)
    # Tables of later versions may be longer: new fields are appended.
    if table.struct_size < sizeof(zv_framing):
        raise TypeError(
            f"the framing's table is too short "
            f"(expected at least {sizeof(zv_framing)} bytes, found {table.struct_size})"
        )
    if table.parse == NULL or table.header_bound == NULL or table.write == NULL:
        raise TypeError("the framing's table lacks one of parse, header_bound, write")
    cdef uint64_t bound = table.header_bound(table.cfg, ndim)
    if bound > MOST_HEADER:
        raise TypeError(f"the framing's headers are too long (expected at most {MOST_HEADER} bytes, found {bound})")
    cdef uint8_t room[2 * MOST_HEADER]
    cdef uint64_t shape[ZV_FRAMING_MAX_NDIM]
    cdef uint64_t size, i
    for i in range(<uint64_t> ndim):
        shape[i] = chunk[i]
    memset(room, UNTOUCHED, sizeof(room))
    size = table.write(table.cfg, ndim, shape, room)
    for i in range(bound, sizeof(room)):
        if room[i] != UNTOUCHED:
            size = max(size, i + 1)
    if size > bound:
        raise TypeError(
            f"the framing writes longer headers than it says (expected at most {bound} bytes, found {size})"
        )
    return table
