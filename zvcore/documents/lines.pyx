"""JSON in lines, for people to read: made of JSON without any, which Python's encoder writes many times faster."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t


cdef enum:
    INDENT = 2


cdef inline Py_ssize_t put_line(uint8_t *to, Py_ssize_t at, Py_ssize_t depth) noexcept nogil:
    """A new line for what lies so deep: where it ends."""
    cdef Py_ssize_t i
    if to != NULL:
        to[at] = c"\n"
        for i in range(INDENT * depth):
            to[at + 1 + i] = c" "
    return at + 1 + INDENT * depth


cdef Py_ssize_t spread(const uint8_t *raw, Py_ssize_t size, uint8_t *to) noexcept nogil:
    """How many bytes it becomes in lines, which go to `to` unless that is NULL."""
    cdef Py_ssize_t i = 0, at = 0, depth = 0
    cdef uint8_t byte
    cdef bint within = False        # a string
    while i < size:
        byte = raw[i]
        i += 1
        if not within and (byte == c"]" or byte == c"}"):
            depth -= depth > 0      # of what nobody's encoder wrote
            at = put_line(to, at, depth)
        if to != NULL:
            to[at] = byte
        at += 1
        if byte == c'"':
            within = not within
        elif within:
            if byte == c"\\" and i < size:
                if to != NULL:
                    to[at] = raw[i]
                at += 1
                i += 1
        elif byte == c",":
            at = put_line(to, at, depth)
        elif byte == c"[" or byte == c"{":
            if i < size and (raw[i] == c"]" or raw[i] == c"}"):
                if to != NULL:
                    to[at] = raw[i]
                at += 1
                i += 1
            else:
                depth += 1
                at = put_line(to, at, depth)
    return at


def in_lines(bytes raw not None) -> bytes:
    """What `json.dumps(value, indent=2)` writes, of what it writes with the separators "," and ": "."""
    cdef const uint8_t *start = raw
    cdef Py_ssize_t size = len(raw), length
    with nogil:
        length = spread(start, size, NULL)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, length)
    cdef uint8_t *to = <uint8_t *> PyBytes_AS_STRING(made)
    with nogil:
        spread(start, size, to)
    return made
