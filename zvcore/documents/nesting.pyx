"""What a JSON text is like, before anything is made of it: how deep it is nested, where a large member lies."""

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


cdef inline const uint8_t *past_string(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Behind the string whose opening quote is in front of `at`."""
    while at < end and at[0] != c'"':
        at += 2 if at[0] == c"\\" else 1
    return at + 1


cdef const uint8_t *past_value(const uint8_t *at, const uint8_t *end) noexcept nogil:
    """Behind the list, the object or the string that begins here; numbers and names end before they are passed."""
    cdef Py_ssize_t depth = 0
    cdef uint8_t byte
    while at < end:
        byte = at[0]
        at += 1
        if byte == c"[" or byte == c"{":
            depth += 1
            continue
        if byte == c'"':
            at = past_string(at, end)
        elif byte == c"]" or byte == c"}":
            depth -= 1
        if depth <= 0:
            break
    return at


def cut_out(bytes raw not None, bytes name not None):
    """The text of an object with null for what its member of this name has: nothing is made of what is cut out.

    Of text in UTF-8. What is no JSON stays so.
    """
    cdef const uint8_t *start = raw
    cdef const uint8_t *end = start + len(raw)
    cdef const uint8_t *at = start
    cdef const uint8_t *key
    cdef const uint8_t *past
    cdef Py_ssize_t depth = 0
    cdef list parts = []
    cdef Py_ssize_t kept = 0
    while at < end:
        if at[0] == c"[" or at[0] == c"{":
            # Of what lies deeper nothing is asked.
            if depth == 1:
                with nogil:
                    at = past_value(at, end)
            else:
                depth += 1
                at += 1
            continue
        if at[0] != c'"':
            at += 1
            continue
        key = at + 1
        past = past_string(key, end)
        at = past
        while at < end and (at[0] == c" " or at[0] == c"\n" or at[0] == c"\r" or at[0] == c"\t"):
            at += 1
        if at >= end or at[0] != c":" or raw[key - start:past - start - 1] != name:
            continue
        at += 1
        while at < end and (at[0] == c" " or at[0] == c"\n" or at[0] == c"\r" or at[0] == c"\t"):
            at += 1
        if at < end and (at[0] == c"{" or at[0] == c"["):
            parts.append(raw[kept:at - start] + b"null")
            with nogil:
                at = past_value(at, end)
            kept = min(at - start, len(raw))
    return raw if not parts else b"".join(parts) + raw[kept:]
