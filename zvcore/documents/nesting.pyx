"""How deep lists and objects lie within each other in a JSON text, before anything is made of it."""

from libc.stdint cimport uint8_t


def depth_of_text(bytes raw not None):
    """As `values.depth_of` counts: an empty list or object is no level. Of text in UTF-8, which need not be JSON."""
    cdef const uint8_t *at = raw
    cdef const uint8_t *end = at + len(raw)
    cdef Py_ssize_t depth = 0, deepest = 0
    cdef uint8_t byte
    with nogil:
        while at < end:
            byte = at[0]
            at += 1
            if byte == c" " or byte == c"\n" or byte == c"\r" or byte == c"\t":
                continue
            if byte == c"]" or byte == c"}":
                depth -= 1
                continue
            if depth > deepest:
                deepest = depth
            if byte == c"[" or byte == c"{":
                depth += 1
            elif byte == c'"':
                while at < end and at[0] != c'"':
                    at += 2 if at[0] == c"\\" else 1
                at += 1
    return deepest
