"""Ranges of objects by HTTP/1.1: what a request says, whether an answer is the one, and many of both without the GIL.

Nothing here opens or closes connections; `range_requests` does, and says which ranges are wanted.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int64_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memchr, memcmp, memcpy

from zvcore.system.atomics cimport zv_milliseconds
from zvcore.system.interpreter cimport zv_need_python


cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int POLLIN
    int POLLOUT
    int poll(pollfd *lines, unsigned long count, int milliseconds)


cdef extern from "<sys/socket.h>" nogil:
    int SOL_SOCKET
    int SO_ERROR
    int getsockopt(int descriptor, int level, int option, void *value, unsigned int *length)
    Py_ssize_t recv(int descriptor, void *room, size_t size, int flags)
    Py_ssize_t send(int descriptor, const void *data, size_t size, int flags)


cdef extern from "<strings.h>" nogil:
    int strncasecmp(const char *one, const char *other, size_t count)


cdef enum:
    AT_FIRST = 4096                     # bytes of an answer that are read before it is known where they belong
    LONGEST_HEAD = 1 << 15
    LONGEST_REST = 160                  # of a request, besides its beginning and the entity tag
    ATTEMPTS = 3                        # how often a range is asked for
    SIGNAL_MILLISECONDS = 100           # between looks for signals


# What has become of a connection, or of an answer.
cpdef enum Outcome:
    GOING_ON = 0
    AT_REST                             # nothing is left to ask for
    ENDED                               # the server closes the connection after this answer
    LOST
    UNEXPECTED                          # an answer that is not the one
    REFUSED                             # the same, and such requests will not be answered another time


cdef enum stage:
    CONNECTING = 0
    SENDING
    HEAD
    BODY


cdef struct Asked:
    const char *request                 # how its requests begin
    Py_ssize_t request_size
    const char *tag
    Py_ssize_t tag_size
    uint64_t start
    uint64_t stop
    uint64_t size                       # of the object
    char *data                          # its bytes
    bint is_there
    int times                           # how often it was asked for


cdef struct Line:
    stage at
    Outcome over
    bint has_answered
    Py_ssize_t number                   # of the range that is asked for
    char *request
    Py_ssize_t request_size
    Py_ssize_t sent
    char *head
    Py_ssize_t got                      # bytes of the head, then of the body
    bint ends                           # no other request goes this way


@cython.final
cdef class Received:
    """Bytes that have arrived."""
    cdef char *data
    cdef Py_ssize_t size

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data, self.size, 1, flags)


# --- requests and answers

cdef Py_ssize_t write_request(const Asked *asked, char *to) noexcept nogil:
    """The request for a range; its size. `to` has room for its beginning, its entity tag and LONGEST_REST."""
    cdef char *at = to
    memcpy(at, asked.request, asked.request_size)
    at += asked.request_size
    at += snprintf(at, LONGEST_REST - 4, b"Range: bytes=%llu-%llu\r\nIf-Match: ", <unsigned long long> asked.start,
                   <unsigned long long> (asked.stop - 1))
    memcpy(at, asked.tag, asked.tag_size)
    at += asked.tag_size
    memcpy(at, b"\r\n\r\n", 4)
    return at + 4 - to


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
    if size >= 12 and (head[9] == b"5" or memcmp(head + 9, b"404", 3) == 0 or memcmp(head + 9, b"412", 3) == 0
                       or memcmp(head + 9, b"429", 3) == 0):
        return UNEXPECTED
    return REFUSED


cdef Outcome check_answer(const char *head, Py_ssize_t size, const Asked *asked) noexcept nogil:
    """GOING_ON or ENDED if a head, without the empty line at its end, announces just this range of this object."""
    cdef char span[96]
    cdef char length[24]
    cdef int span_size = snprintf(span, sizeof(span), b"bytes %llu-%llu/%llu", <unsigned long long> asked.start,
                                  <unsigned long long> (asked.stop - 1), <unsigned long long> asked.size)
    cdef int length_size = snprintf(length, sizeof(length), b"%llu", <unsigned long long> (asked.stop - asked.start))
    cdef bint has_span = False, has_length = False, has_tag = False, fits = True
    cdef Outcome result = GOING_ON
    cdef const char *line = head
    cdef const char *end = head + size
    cdef const char *stop
    cdef const char *value
    cdef const char *last
    if size < 12 or memcmp(head, b"HTTP/1.1 206", 12) != 0:
        return not_fitting(head, size)
    while fits:
        line = <const char *> memchr(line, b"\n", end - line)
        if line == NULL:
            break
        line += 1
        last = <const char *> memchr(line, b"\r", end - line)
        if last == NULL:
            last = end
        stop = <const char *> memchr(line, b":", last - line)
        if stop == NULL:
            continue
        value = stop + 1
        while value < last and (value[0] == b" " or value[0] == b"\t"):
            value += 1
        while last > value and ((last - 1)[0] == b" " or (last - 1)[0] == b"\t"):
            last -= 1
        if is_name(line, stop - line, b"content-range", 13):
            has_span = fits = is_text(value, last - value, span, span_size)
        elif is_name(line, stop - line, b"content-length", 14):
            has_length = fits = is_text(value, last - value, length, length_size)
        elif is_name(line, stop - line, b"etag", 4):
            has_tag = fits = is_text(value, last - value, asked.tag, asked.tag_size)
        elif is_name(line, stop - line, b"content-encoding", 16):
            fits = is_text(value, last - value, b"identity", 8)
        elif is_name(line, stop - line, b"transfer-encoding", 17):
            fits = False
        elif is_name(line, stop - line, b"connection", 10) and is_name(value, last - value, b"close", 5):
            result = ENDED
    return result if fits and has_span and has_length and has_tag else REFUSED


# --- which ranges are left

@cython.final
cdef class Ranges:
    """Ranges of objects that are asked for one after the other, each a few times if connections break.

    `wanted` are `range_requests.Wanted`, none of them empty.
    """
    cdef Asked *asked
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t *queue              # a ring: no range is in it twice
    cdef Py_ssize_t first
    cdef readonly Py_ssize_t left
    cdef bint stopped
    cdef Py_ssize_t longest_request
    cdef list held                      # what pointers lead to

    def __cinit__(self, wanted):
        cdef Py_ssize_t number
        cdef Asked *asked
        cdef bytes request, tag
        self.count = len(wanted)
        self.asked = <Asked *> calloc(self.count + 1, sizeof(Asked))
        self.queue = <Py_ssize_t *> malloc((self.count + 1) * sizeof(Py_ssize_t))
        if self.asked == NULL or self.queue == NULL:
            raise MemoryError
        self.held = []
        for number, one in enumerate(wanted):
            if number >= self.count or not 0 <= one.start < one.stop <= one.size:
                raise ValueError(f"{one.start}..{one.stop} of {one.size} bytes cannot be asked for")
            request, tag = one.address.request, one.e_tag.encode()
            self.held.append((request, tag))
            asked = &self.asked[number]
            asked.request, asked.request_size = <const char *> request, len(request)
            asked.tag, asked.tag_size = <const char *> tag, len(tag)
            asked.start, asked.stop, asked.size = one.start, one.stop, one.size
            self.queue[number] = number
            self.longest_request = max(self.longest_request, asked.request_size + asked.tag_size + LONGEST_REST)
        self.left = len(self.held)

    def __dealloc__(self):
        cdef Py_ssize_t number
        if self.asked != NULL:
            for number in range(self.count):
                free(self.asked[number].data)
        free(self.asked)
        free(self.queue)

    cdef Py_ssize_t take_next(self) noexcept nogil:
        cdef Py_ssize_t number
        if self.left == 0:
            return -1
        number = self.queue[self.first]
        self.first = (self.first + 1) % self.count
        self.left -= 1
        self.asked[number].times += 1
        return number

    def take(self):
        """The number of the range that is to be asked for next."""
        cdef Py_ssize_t number = self.take_next()
        if number < 0:
            raise IndexError("no range is left")
        return number

    def put_back(self, Py_ssize_t number, bint has_answered):
        """Whether a range will be asked for again whose connection broke: one that has answered may do so any time."""
        self._check(number)
        if has_answered:
            self.asked[number].times -= 1
        if self.stopped or self.asked[number].times >= ATTEMPTS or self.left == self.count:
            return False
        self.queue[(self.first + self.left) % self.count] = number
        self.left += 1
        return True

    def stop(self):
        """Ask for nothing more."""
        self.stopped = True
        self.left = 0

    def request(self, Py_ssize_t number):
        self._check(number)
        cdef bytearray room = bytearray(self.longest_request)
        return bytes(room[:write_request(&self.asked[number], room)])

    def check(self, Py_ssize_t number, bytes head not None):
        """What becomes of the connection on which this head of an answer came, without the empty line at its end."""
        self._check(number)
        return check_answer(<const char *> head, len(head), &self.asked[number])

    def received(self, Py_ssize_t number):
        """What `PlainLines` got of a range, once."""
        self._check(number)
        cdef Asked *asked = &self.asked[number]
        if not asked.is_there:
            return None
        cdef Received found = Received()
        found.data, found.size = asked.data, asked.stop - asked.start
        asked.data, asked.is_there = NULL, False
        return memoryview(found)

    cdef int _check(self, Py_ssize_t number) except -1:
        if not 0 <= number < self.count:
            raise IndexError(f"range {number} of {self.count}")
        return 0


# --- many connections

@cython.final
cdef class PlainLines:
    """Connections that are not encrypted, at most `room` of them, over which ranges are asked for."""
    cdef Ranges ranges
    cdef Line *lines
    cdef pollfd *polled
    cdef Py_ssize_t count
    cdef Py_ssize_t room

    def __cinit__(self, Ranges ranges not None, Py_ssize_t room):
        self.ranges = ranges
        self.room = max(1, room)
        self.lines = <Line *> calloc(self.room, sizeof(Line))
        self.polled = <pollfd *> calloc(self.room, sizeof(pollfd))
        if self.lines == NULL or self.polled == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.count):
            free(self.lines[i].request)
            free(self.lines[i].head)
        free(self.lines)
        free(self.polled)

    def add(self, int descriptor, bint is_open, bint has_answered):
        """Ask for the next range over a connection, which may not be open yet. It must stay until `remove`."""
        cdef Line *line = &self.lines[self.count]
        if self.count == self.room:
            raise ValueError(f"more than {self.room} connections")
        line.request = <char *> malloc(self.ranges.longest_request)
        line.head = <char *> malloc(LONGEST_HEAD + AT_FIRST)
        line.number = -1
        if line.request == NULL or line.head == NULL:
            free(line.request)
            free(line.head)
            raise MemoryError
        self.polled[self.count].fd = descriptor
        self.count += 1
        with nogil:
            line.over = self.ask_next(line)
            line.at = SENDING if is_open else CONNECTING
            line.has_answered = has_answered
            self.polled[self.count - 1].events = <short> POLLOUT
            if line.over == GOING_ON and is_open:
                self.go_on(self.count - 1)

    def remove(self, int descriptor):
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.polled[i].fd == descriptor:
                free(self.lines[i].request)
                free(self.lines[i].head)
                self.count -= 1
                self.lines[i], self.polled[i] = self.lines[self.count], self.polled[self.count]
                return

    def wait(self, double seconds):
        """(descriptor, what has become of it, the number of its range, whether it was open, whether it has answered)
        of the next connection with which nothing goes on; None if no byte comes from anywhere for so long.
        """
        cdef Py_ssize_t i
        cdef Line *line
        with nogil:
            i = self.next_over(<int> (seconds * 1000))
        if i < 0:
            return None
        line = &self.lines[i]
        return self.polled[i].fd, line.over, line.number, line.at != CONNECTING, line.has_answered

    cdef Py_ssize_t next_over(self, int milliseconds) except -2 nogil:
        """Signals are looked after all the time, as one that comes between two waits ends neither of them. They are no
        reason to wait any longer.
        """
        cdef Py_ssize_t i
        cdef int ready
        cdef int64_t now = zv_milliseconds()
        cdef int64_t heard = now, looked = now
        while True:
            for i in range(self.count):
                if self.lines[i].over != GOING_ON:
                    return i
            ready = poll(self.polled, self.count,
                         <int> min(heard + milliseconds - now, <int64_t> SIGNAL_MILLISECONDS))
            if ready < 0 and errno != EINTR:
                return -1
            now = zv_milliseconds()
            if ready > 0:
                heard = now
            elif now - heard >= milliseconds:
                return -1
            if ready < 0 or now - looked >= SIGNAL_MILLISECONDS:
                looked = now
                zv_need_python()
                with gil:
                    PyErr_CheckSignals()
            for i in range(self.count if ready > 0 else 0):
                if self.polled[i].revents:
                    self.go_on(i)

    cdef void go_on(self, Py_ssize_t i) noexcept nogil:
        """Send and receive what is possible without waiting."""
        cdef Line *line = &self.lines[i]
        line.over = self.step(line, self.polled[i].fd)
        self.polled[i].events = <short> (POLLIN if line.at >= HEAD else POLLOUT)

    cdef Outcome ask_next(self, Line *line) noexcept nogil:
        cdef Py_ssize_t number = self.ranges.take_next()
        if number < 0:
            return AT_REST
        line.number = number
        line.request_size = write_request(&self.ranges.asked[number], line.request)
        line.sent = line.got = 0
        line.ends = False
        line.at = SENDING
        return GOING_ON

    cdef Outcome step(self, Line *line, int descriptor) noexcept nogil:
        cdef Outcome found
        if line.at == CONNECTING:
            if failed(descriptor):
                return LOST
            line.at = SENDING
        if line.at != SENDING:
            found = self.receive(line, descriptor)
            if found != GOING_ON or line.at != SENDING:
                return found
        return self.send_rest(line, descriptor)

    cdef Outcome send_rest(self, Line *line, int descriptor) noexcept nogil:
        cdef Py_ssize_t sent
        while line.sent < line.request_size:
            sent = send(descriptor, line.request + line.sent, line.request_size - line.sent, 0)
            if sent < 0:
                return nothing_now()
            line.sent += sent
        line.at = HEAD
        return GOING_ON

    cdef Outcome receive(self, Line *line, int descriptor) noexcept nogil:
        """Take what has come. Once a range is there, the next one is to be sent for."""
        cdef Asked *asked = &self.ranges.asked[line.number]
        cdef Py_ssize_t length = asked.stop - asked.start, got
        cdef Outcome found
        if line.at == HEAD:
            got = recv(descriptor, line.head + line.got, AT_FIRST, 0)
            if got <= 0:
                return LOST if got == 0 else nothing_now()
            found = self.take_head(line, asked, got)
            if found != GOING_ON or line.at == HEAD:
                return found
        while line.got < length:
            got = recv(descriptor, asked.data + line.got, length - line.got, 0)
            if got <= 0:
                return LOST if got == 0 else nothing_now()
            line.got += got
        asked.is_there = True
        line.has_answered = True
        return ENDED if line.ends else self.ask_next(line)

    cdef Outcome take_head(self, Line *line, Asked *asked, Py_ssize_t got) noexcept nogil:
        """Look at what begins an answer; once that is all there, the range is given room."""
        cdef Py_ssize_t end = end_of_head(line.head, max(0, line.got - 3), line.got + got), beyond
        cdef Outcome found
        line.got += got
        if end < 0:
            return REFUSED if line.got > LONGEST_HEAD else GOING_ON
        found = check_answer(line.head, end, asked)
        beyond = line.got - end - 4
        if found > ENDED:
            return found
        if <uint64_t> beyond > asked.stop - asked.start:
            return REFUSED
        free(asked.data)                # what came of it before, over a connection that broke
        asked.data = <char *> malloc(asked.stop - asked.start)
        if asked.data == NULL:
            return UNEXPECTED
        memcpy(asked.data, line.head + end + 4, beyond)
        line.got = beyond
        line.at = BODY
        line.ends = found == ENDED
        return GOING_ON


cdef bint failed(int descriptor) noexcept nogil:
    """Whether a connection could not be opened."""
    cdef int code = 0
    cdef unsigned int size = sizeof(code)
    return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size) != 0 or code != 0


cdef Outcome nothing_now() noexcept nogil:
    return GOING_ON if errno == EAGAIN or errno == EINTR else LOST
