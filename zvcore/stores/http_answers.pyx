"""What requests for objects and ranges of them say, and whether an answer is the one. Nothing here does I/O."""

from libc.stdint cimport uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memchr, memcmp, memcpy


cdef extern from "<strings.h>" nogil:
    int strncasecmp(const char *one, const char *other, size_t count)


cdef enum:
    ZERO = 48                           # of ASCII
    LETTER_A = 97

cdef uint64_t NO_NUMBER = <uint64_t> -1


cdef Py_ssize_t write_request(const Asked *asked, char *to) noexcept nogil:
    """A request, with what is to be stored if that is short; its size. `to` has room for the beginning, the entity tag,
    LONGEST_REST and SENT_AT_ONCE.
    """
    cdef char *at = to
    cdef Py_ssize_t i
    memcpy(at, asked.request, asked.request_size)
    at += asked.request_size
    if asked.task == STORE:
        memcpy(at, asked.tag, asked.tag_size)
        at += asked.tag_size
        at += snprintf(at, LONGEST_REST, b"Content-Length: %llu\r\n", <unsigned long long> asked.given_size)
    if asked.task == PART:
        at += write_part(asked, at)
    if asked.task != RANGE:
        memcpy(at, b"\r\n", 2)
        at += 2
        if asked.task == STORE and 0 < asked.given_size <= SENT_AT_ONCE:
            for i in range(asked.given_count):
                memcpy(at, asked.given[i].iov_base, asked.given[i].iov_len)
                at += asked.given[i].iov_len
        return at - to
    at += snprintf(at, LONGEST_REST - 4, b"Range: bytes=%llu-%llu\r\nIf-Match: ", <unsigned long long> asked.start,
                   <unsigned long long> (asked.stop - 1))
    memcpy(at, asked.tag, asked.tag_size)
    at += asked.tag_size
    memcpy(at, b"\r\n\r\n", 4)
    return at + 4 - to


cdef Py_ssize_t write_part(const Asked *asked, char *to) noexcept nogil:
    if asked.start < 0:
        return snprintf(to, LONGEST_REST, b"Range: bytes=%lld\r\n", <long long> asked.start)
    return snprintf(to, LONGEST_REST, b"Range: bytes=%lld-%llu\r\n", <long long> asked.start,
                    <unsigned long long> (asked.stop - 1))


cdef Py_ssize_t end_of_head(const char *data, Py_ssize_t begin, Py_ssize_t size) noexcept nogil:
    """Where the empty line stands that ends a head, -1 if it has not come; it is not looked for before `begin`."""
    cdef const char *at = data + begin
    while True:
        at = <const char *> memchr(at, b"\r", data + size - at) if at < data + size else NULL
        if at == NULL or data + size - at < 4:
            return -1
        if memcmp(at, b"\r\n\r\n", 4) == 0:
            return at - data
        at += 1


cdef inline bint is_text(const char *data, Py_ssize_t size, const char *text, Py_ssize_t length) noexcept nogil:
    return size == length and memcmp(data, text, length) == 0


cdef inline bint is_name(const char *data, Py_ssize_t size, const char *name, Py_ssize_t length) noexcept nogil:
    return size == length and strncasecmp(data, name, length) == 0


cdef Outcome not_fitting(const char *head, Py_ssize_t size) noexcept nogil:
    """What another answer means for later requests: objects that are gone or changed, and servers in trouble: none."""
    cdef int code = 0
    if size >= 12:
        code = (head[9] - ZERO) * 100 + (head[10] - ZERO) * 10 + head[11] - ZERO
    if code == 404 or code == 409 or code == 412 or code == 416 or code == 429 or 500 <= code < 600:
        return UNEXPECTED
    return REFUSED


cdef struct Field:
    const char *name
    Py_ssize_t name_size
    const char *value
    Py_ssize_t value_size


cdef const char *next_field(const char *line, const char *end, Field *field) noexcept nogil:
    """Take the first field behind this line of a head; where its line begins, NULL if there is none."""
    cdef const char *last
    cdef const char *stop
    while True:
        line = <const char *> memchr(line, b"\n", end - line)
        if line == NULL:
            return NULL
        line += 1
        last = <const char *> memchr(line, b"\r", end - line)
        if last == NULL:
            last = end
        stop = <const char *> memchr(line, b":", last - line)
        if stop != NULL:
            break
    field.name, field.name_size = line, stop - line
    field.value = stop + 1
    while field.value < last and (field.value[0] == b" " or field.value[0] == b"\t"):
        field.value += 1
    while last > field.value and ((last - 1)[0] == b" " or (last - 1)[0] == b"\t"):
        last -= 1
    field.value_size = last - field.value
    return line


cdef inline bint is_field(const Field *field, const char *name, Py_ssize_t length) noexcept nogil:
    return is_name(field.name, field.name_size, name, length)


cdef inline bint closes(const Field *field) noexcept nogil:
    return is_field(field, b"connection", 10) and is_name(field.value, field.value_size, b"close", 5)


cdef Outcome check_answer(const char *head, Py_ssize_t size, Asked *asked) noexcept nogil:
    """GOING_ON or ENDED if a head, without the empty line at its end, announces just what was asked for, or says that
    there is no such object, that one was stored, or that its condition does not hold.
    """
    cdef Outcome found
    if asked.task == RANGE or (asked.task == PART and size >= 12 and memcmp(head, b"HTTP/1.1 206", 12) == 0):
        return check_range(head, size, asked)
    found = check_whole(head, size, asked)
    if asked.task == PART and found <= ENDED and not asked.body.excuse and not covers(asked):
        return REFUSED
    return found


cdef inline bint covers(const Asked *asked) noexcept nogil:
    """Whether the part that was asked for is all of the object: some servers then send that as what it is."""
    if asked.start < 0:
        return asked.size <= <uint64_t> -asked.start
    return asked.start == 0 and asked.size <= asked.stop


cdef bint check_span(const Field *field, Asked *asked, uint64_t *length) noexcept nogil:
    """Whether Content-Range says what was asked for, and of how many bytes that is."""
    cdef uint64_t first, last, size
    cdef const char *at = field.value
    cdef const char *end = at + field.value_size
    if field.value_size < 6 or memcmp(at, b"bytes ", 6) != 0:
        return False
    at += 6
    if not (take_number(&at, end, b"-", &first) and take_number(&at, end, b"/", &last)
            and take_number(&at, end, 0, &size) and first <= last < size):
        return False
    length[0] = last - first + 1
    if asked.task == RANGE:
        return first == <uint64_t> asked.start and last == asked.stop - 1 and size == asked.size
    asked.size = size
    if asked.start < 0:
        return last == size - 1 and length[0] == min(size, <uint64_t> -asked.start)
    return first == <uint64_t> asked.start and last == min(size, asked.stop) - 1


cdef bint take_number(const char **at, const char *end, char mark, uint64_t *value) noexcept nogil:
    """Take the number before this mark, and the mark; before the end, where the mark is 0."""
    cdef const char *stop = end if mark == 0 else <const char *> memchr(at[0], mark, end - at[0])
    if stop == NULL:
        return False
    value[0] = number_in(at[0], stop - at[0])
    at[0] = stop + (mark != 0)
    return value[0] != NO_NUMBER


cdef Outcome check_range(const char *head, Py_ssize_t size, Asked *asked) noexcept nogil:
    cdef uint64_t span = 0, length = 0
    cdef bint has_span = False, has_length = False, has_tag = asked.task == PART, fits = True
    cdef Outcome result = GOING_ON
    cdef const char *line = head
    cdef Field field
    if size < 12 or memcmp(head, b"HTTP/1.1 206", 12) != 0:
        return not_fitting(head, size)
    while fits:
        line = next_field(line, head + size, &field)
        if line == NULL:
            break
        if is_field(&field, b"content-range", 13):
            fits = not has_span and check_span(&field, asked, &span)
            has_span = True
        elif is_field(&field, b"content-length", 14):
            fits = not has_length
            has_length, length = True, number_in(field.value, field.value_size)
        elif is_field(&field, b"etag", 4) and asked.task == RANGE:
            has_tag = fits = is_text(field.value, field.value_size, asked.tag, asked.tag_size)
        elif is_field(&field, b"content-encoding", 16):
            fits = is_text(field.value, field.value_size, b"identity", 8)
        elif is_field(&field, b"transfer-encoding", 17):
            fits = False
        elif closes(&field):
            result = ENDED
    asked.body = Body(span, False, False)
    return result if fits and has_span and has_length and length == span and has_tag else REFUSED


cdef Outcome check_whole(const char *head, Py_ssize_t size, Asked *asked) noexcept nogil:
    cdef bint has_length = False, fits = True
    cdef uint64_t length
    cdef Outcome result = GOING_ON
    cdef const char *line = head
    cdef Field field
    cdef Body body = Body(0, False, False)
    if size < 12 or (memcmp(head, b"HTTP/1.1 200", 12) != 0
                     and memcmp(head, b"HTTP/1.1 412" if asked.task == STORE else b"HTTP/1.1 404", 12) != 0):
        return not_fitting(head, size)
    body.excuse = asked.task == STORE or asked.task == HEAD or head[9] == b"4"
    while fits:
        line = next_field(line, head + size, &field)
        if line == NULL:
            break
        if is_field(&field, b"content-length", 14):
            length = number_in(field.value, field.value_size)
            fits = length != NO_NUMBER and (not has_length or length == body.length)
            has_length, body.length = True, length
        elif is_field(&field, b"transfer-encoding", 17):
            fits = body.chunked = is_name(field.value, field.value_size, b"chunked", 7)
        elif is_field(&field, b"content-encoding", 16):
            fits = body.excuse or is_as_stored(&field)
        elif closes(&field):
            result = ENDED
    asked.body = body
    asked.size = body.length if head[9] == b"2" else 0
    if asked.task == HEAD:
        # What it says of a body is of the one that does not come.
        asked.body = Body(0, False, True)
        return result if fits and (has_length or head[9] == b"4") else UNEXPECTED
    # Of an object the length must be said; an excuse says either, or is not worth reading. What is wrong with one
    # object is no reason to ask for no other.
    if not fits or (has_length and body.chunked) or not (has_length or body.excuse):
        return UNEXPECTED
    return result if has_length or body.chunked else ENDED


cdef inline bint is_as_stored(const Field *field) noexcept nogil:
    """Whether an object with such a Content-Encoding is understood as it is: these show by their first bytes."""
    return (is_name(field.value, field.value_size, b"identity", 8) or is_name(field.value, field.value_size, b"gzip", 4)
            or is_name(field.value, field.value_size, b"zstd", 4))


cdef uint64_t number_in(const char *text, Py_ssize_t size) noexcept nogil:
    """What these decimal digits say; NO_NUMBER for everything else."""
    cdef uint64_t found = 0
    cdef Py_ssize_t i
    if not 0 < size <= 18 or (size > 1 and text[0] == b"0"):
        return NO_NUMBER
    for i in range(size):
        if not b"0" <= text[i] <= b"9":
            return NO_NUMBER
        found = found * 10 + <uint64_t> (text[i] - ZERO)
    return found


cdef int excuse_ends(const char *data, Py_ssize_t size, const Body *body) noexcept nogil:
    """1 if this is just the body of such an answer, 0 if more is to come, -1 if it is something else."""
    cdef Py_ssize_t at = 0, digits, value
    if not body.chunked:
        return -1 if <uint64_t> size > body.length else <uint64_t> size == body.length
    while True:
        value, digits = 0, 0
        while at < size and digits < 8 and hex_digit(data[at]) >= 0:
            value = value * 16 + hex_digit(data[at])
            at += 1
            digits += 1
        if at < size and (digits == 0 or not (data[at] == b"\r" or data[at] == b";")):
            return -1
        if value == 0 or at == size:
            break
        # What may stand behind a size, the end of its line, so many bytes, the end of theirs.
        while at < size and data[at] != b"\n":
            at += 1
        at += 1 + value + 2
        if at >= size:
            return 0
    at = end_of_head(data, at, size)
    return 0 if at < 0 else 1 if at + 4 == size else -1


cdef inline int hex_digit(char one) noexcept nogil:
    if b"0" <= one <= b"9":
        return one - ZERO
    one |= 32
    return one - LETTER_A + 10 if b"a" <= one <= b"f" else -1
