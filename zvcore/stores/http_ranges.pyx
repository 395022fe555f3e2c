"""Objects and ranges of them by HTTP/1.1: many requests and answers without the GIL.

Nothing here opens or closes connections; `range_requests` does, and says which ranges are wanted.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from zvcore.stores.http_answers cimport (
    AT_REST, ENDED, GOING_ON, HEAD, LONGEST_REST, LOST, OBJECT, PART, RANGE, REFUSED, SENT_AT_ONCE, STORE, UNEXPECTED,
    Asked, Outcome, check_answer, end_of_head, excuse_ends, iovec, write_request,
)
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


cdef extern from "<sys/uio.h>" nogil:
    Py_ssize_t writev(int descriptor, const iovec *parts, int count)


cdef enum:
    AT_FIRST = 4096                     # bytes of an answer that are read before it is known where they belong
    LONGEST_HEAD = 1 << 15
    ATTEMPTS = 3                        # how often a range is asked for
    PARTS_AT_ONCE = 64                  # of what is sent in one call
    SIGNAL_MILLISECONDS = 100           # between looks for signals
    REST_MILLISECONDS = 5               # for which connections at rest are kept from others, if answers still come


cpdef enum:
    SLOWEST = 64                        # bytes in a millisecond, of what is waited for


cdef enum stage:
    CONNECTING = 0
    SENDING
    BEGINNING
    BODY
    EXCUSE                              # the body of an answer that says that there is nothing


cdef struct Line:
    int descriptor
    stage at
    Outcome over
    bint has_answered
    Py_ssize_t number                   # of the range that is asked for
    char *request
    Py_ssize_t request_size
    Py_ssize_t sent                     # of the request, and of what is to be stored
    Py_ssize_t part                     # of what is to be stored: the one that is sent, and how much of it is
    Py_ssize_t part_sent
    char *head
    Py_ssize_t head_size
    Py_ssize_t got                      # bytes of the head, then of the body; of an excuse, of both
    bint ends                           # no other request goes this way
    int64_t begun                       # when it was asked for


@cython.final
cdef class Received:
    """Bytes that have arrived."""
    cdef char *data
    cdef Py_ssize_t size

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data, self.size, 1, flags)


# --- which ranges are left

@cython.final
cdef class Ranges:
    """Objects, or ranges of them, that are asked for or stored one after the other, each a few times if connections
    break.

    `wanted` are `range_requests.Wanted`, ranges that are not empty.
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
            if number >= self.count or not can_be_asked_for(one):
                raise ValueError(f"{one.start}..{one.stop} of {one.size} bytes cannot be asked for")
            request, tag = one.address.request, (one.e_tag or "").encode()
            self.held.append((request, tag))
            asked = &self.asked[number]
            asked.request, asked.request_size = <const char *> request, len(request)
            asked.tag, asked.tag_size = <const char *> tag, len(tag)
            if one.parts is not None:
                self.give(asked, one.parts)
            elif request.startswith(b"HEAD "):
                asked.task = HEAD
            elif one.start == 0 and one.stop is None:
                asked.task = OBJECT
            else:
                asked.task = PART if one.e_tag is None else RANGE
                asked.start, asked.stop, asked.size = one.start, one.stop or 0, one.size
            self.queue[number] = number
            self.left += 1
            self.longest_request = max(self.longest_request, asked.request_size + asked.tag_size + LONGEST_REST
                                       + min(asked.given_size, <Py_ssize_t> SENT_AT_ONCE))

    cdef int give(self, Asked *asked, parts) except -1:
        """What is to be stored, which stays as it is until this goes."""
        cdef const unsigned char[::1] view
        cdef iovec *given = <iovec *> malloc((len(parts) + 1) * sizeof(iovec))
        if given == NULL:
            raise MemoryError
        asked.task = STORE
        asked.given = given
        for part in parts:
            view = part
            if view.shape[0]:
                self.held.append(view)
                given[asked.given_count] = iovec(<void *> &view[0], view.shape[0])
                asked.given_count += 1
                asked.given_size += view.shape[0]
        return 0

    def __dealloc__(self):
        cdef Py_ssize_t number
        if self.asked != NULL:
            for number in range(self.count):
                free(<void *> self.asked[number].given)
                free(self.asked[number].data)
                free(self.asked[number].head)
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
        # What was stored under a condition that held may have made it hold no longer.
        if self.asked[number].task == STORE and self.asked[number].tag_size:
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

    def announced(self, Py_ssize_t number):
        """The bytes of the body that the head which was checked last announced; None where it excuses itself."""
        self._check(number)
        return None if self.asked[number].body.excuse else self.asked[number].body.length

    def excuse_ends(self, Py_ssize_t number, bytes body not None):
        """Whether this is all of an excuse; None if it is none."""
        self._check(number)
        cdef int found = excuse_ends(<const char *> body, len(body), &self.asked[number].body)
        return None if found < 0 else found == 1

    def received(self, Py_ssize_t number):
        """What `PlainLines` got of this, once, as `with_head` gives it; None if it did not come."""
        self._check(number)
        cdef Asked *asked = &self.asked[number]
        cdef Received found
        data = None
        if not asked.is_there:
            return None
        if not asked.body.excuse:
            found = Received()
            found.data, found.size = asked.data, asked.body.length
            asked.data = NULL
            data = memoryview(found)
        asked.is_there = False
        return data if asked.task == RANGE else self.with_head(number, asked.head[:asked.head_size], data)

    def with_head(self, Py_ssize_t number, bytes head, data):
        """(the head of the answer that was checked last, the bytes or None where there are none, how many all of the
        object has), of objects, parts and what was to be stored; the bytes, of a range.
        """
        self._check(number)
        return data if self.asked[number].task == RANGE else (head, data, self.asked[number].size)

    cdef int _check(self, Py_ssize_t number) except -1:
        if not 0 <= number < self.count:
            raise IndexError(f"range {number} of {self.count}")
        return 0


# No object has as many bytes.
cdef object LARGEST = 1 << 62


cdef bint can_be_asked_for(one) except -1:
    if one.stop is None:
        return -LARGEST <= one.start <= 0
    if not 0 <= one.start < one.stop <= LARGEST:
        return False
    return one.e_tag is None or one.stop <= one.size


# --- many connections

@cython.final
cdef class PlainLines:
    """Connections that are not encrypted, at most `room` of them, over which ranges are asked for.

    `longest`: so many seconds each of them may take, besides those for its bytes at `SLOWEST`.
    """
    cdef Ranges ranges
    cdef Line *lines
    cdef pollfd *polled
    cdef Py_ssize_t count
    cdef Py_ssize_t room
    cdef int64_t longest

    def __cinit__(self, Ranges ranges not None, Py_ssize_t room, double longest):
        self.ranges = ranges
        self.longest = <int64_t> (1000 * longest)
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
        line.descriptor = descriptor
        line.over = self.ask_next(line)
        line.at = SENDING if is_open else CONNECTING
        line.has_answered = has_answered
        self.polled[self.count].fd = descriptor
        self.polled[self.count].events = <short> POLLOUT
        self.count += 1

    def remove(self, int descriptor):
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.lines[i].descriptor == descriptor:
                free(self.lines[i].request)
                free(self.lines[i].head)
                self.count -= 1
                self.lines[i], self.polled[i] = self.lines[self.count], self.polled[self.count]
                return

    def wait(self, double seconds):
        """(descriptor, what has become of it, the number of its range, whether it was open, whether it has answered)
        of the next connections with which nothing goes on; of none if no byte comes from anywhere for so long, or too
        few come of one range.
        """
        cdef Py_ssize_t i
        cdef bint some
        cdef Line *line
        cdef list over = []
        with nogil:
            some = self.some_over(<int> (seconds * 1000))
        for i in range(self.count if some else 0):
            line = &self.lines[i]
            if line.over != GOING_ON:
                over.append((line.descriptor, line.over, line.number, line.at != CONNECTING, line.has_answered))
        return over

    cdef bint some_over(self, int milliseconds) except -1 nogil:
        """Signals are looked after all the time, as one that comes between two waits ends neither of them. They are no
        reason to wait any longer.
        """
        cdef Py_ssize_t i, going, resting
        cdef int ready
        cdef int64_t now = zv_milliseconds()
        cdef int64_t heard = now, looked = now
        for i in range(self.count):
            if self.lines[i].over == GOING_ON and self.lines[i].at == SENDING and self.lines[i].sent == 0:
                self.go_on(i)
        while True:
            resting = self.count_of(AT_REST)
            going = self.count_of(GOING_ON)
            if resting + going < self.count or going == 0:
                return self.count > 0
            ready = poll(self.polled, self.count,
                         <int> min(heard + milliseconds - now, <int64_t> (REST_MILLISECONDS if resting else
                                                                          SIGNAL_MILLISECONDS)))
            if ready < 0 and errno != EINTR:
                return False
            if ready == 0 and resting:
                return True
            now = zv_milliseconds()
            if ready > 0:
                heard = now
            elif now - heard >= milliseconds:
                return False
            if ready < 0 or now - looked >= SIGNAL_MILLISECONDS:
                looked = now
                if self.waits_for_too_little(now):
                    return False
                zv_need_python()
                with gil:
                    PyErr_CheckSignals()
            for i in range(self.count if ready > 0 else 0):
                if self.polled[i].revents:
                    self.go_on(i)

    cdef Py_ssize_t count_of(self, Outcome outcome) noexcept nogil:
        cdef Py_ssize_t i, found = 0
        for i in range(self.count):
            found += self.lines[i].over == outcome
        return found

    cdef bint waits_for_too_little(self, int64_t now) noexcept nogil:
        """Whether a range takes longer than it may: a server could send it for ever, a byte at a time."""
        cdef Py_ssize_t i
        cdef const Asked *asked
        for i in range(self.count):
            asked = &self.ranges.asked[self.lines[i].number]
            if self.lines[i].over == GOING_ON and <uint64_t> (now - self.lines[i].begun) > (
                    <uint64_t> self.longest + (asked.body.length + <uint64_t> asked.given_size) // SLOWEST):
                return True
        return False

    cdef void go_on(self, Py_ssize_t i) noexcept nogil:
        """Send and receive what is possible without waiting."""
        cdef Line *line = &self.lines[i]
        line.over = self.step(line, line.descriptor)
        self.polled[i].events = <short> (POLLIN if line.at >= BEGINNING else POLLOUT)
        if line.over != GOING_ON:
            self.polled[i].fd = -1          # what comes of it now is of no interest here

    cdef Outcome ask_next(self, Line *line) noexcept nogil:
        cdef Py_ssize_t number = self.ranges.take_next()
        if number < 0:
            return AT_REST
        line.number = number
        line.begun = zv_milliseconds()
        line.request_size = write_request(&self.ranges.asked[number], line.request)
        line.sent = line.part = line.part_sent = line.got = 0
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
        cdef Asked *asked = &self.ranges.asked[line.number]
        cdef Py_ssize_t sent, size = line.request_size
        cdef iovec parts[PARTS_AT_ONCE]
        if asked.given_size > SENT_AT_ONCE:
            size += asked.given_size
        while line.sent < size:
            # In one piece, so that the server need not wake up twice.
            sent = writev(descriptor, parts, gather(line, asked, parts))
            if sent < 0:
                return nothing_now()
            line.part_sent += max(0, line.sent + sent - max(line.sent, line.request_size))
            line.sent += sent
            while line.part < asked.given_count and line.part_sent >= <Py_ssize_t> asked.given[line.part].iov_len:
                line.part_sent -= asked.given[line.part].iov_len
                line.part += 1
        line.at = BEGINNING
        return GOING_ON

    cdef Outcome receive(self, Line *line, int descriptor) noexcept nogil:
        """Take what has come. Once a range is there, the next one is to be sent for."""
        cdef Asked *asked = &self.ranges.asked[line.number]
        cdef Py_ssize_t length, got
        cdef Outcome found
        if line.at == BEGINNING:
            got = recv(descriptor, line.head + line.got, AT_FIRST, 0)
            if got <= 0:
                return LOST if got == 0 else nothing_now()
            found = self.take_head(line, asked, got)
            if found != GOING_ON or line.at == BEGINNING:
                return found
        if line.at == EXCUSE:
            return self.hear_out(line, asked, descriptor)
        length = asked.body.length
        while line.got < length:
            got = recv(descriptor, asked.data + line.got, length - line.got, 0)
            if got <= 0:
                return LOST if got == 0 else nothing_now()
            line.got += got
        return self.has_come(line, asked)

    cdef Outcome hear_out(self, Line *line, Asked *asked, int descriptor) noexcept nogil:
        """Take the body of an answer that says that there is nothing; of a long one the connection is given up."""
        cdef int ended
        cdef Py_ssize_t got
        while not line.ends:
            ended = excuse_ends(line.head + line.head_size, line.got - line.head_size, &asked.body)
            if ended < 0:
                return REFUSED
            if ended:
                break
            line.ends = line.got > LONGEST_HEAD
            if not line.ends:
                got = recv(descriptor, line.head + line.got, AT_FIRST, 0)
                if got <= 0:
                    return LOST if got == 0 else nothing_now()
                line.got += got
        return self.has_come(line, asked)

    cdef Outcome has_come(self, Line *line, Asked *asked) noexcept nogil:
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
        line.ends = found == ENDED
        if asked.task != RANGE and not self.keep_head(line, asked, end):
            return UNEXPECTED
        if asked.body.excuse:
            line.at = EXCUSE
            line.head_size = end + 4
            return GOING_ON
        if <uint64_t> beyond > asked.body.length:
            return REFUSED
        free(asked.data)                # what came of it before, over a connection that broke
        asked.data = <char *> malloc(max(<uint64_t> 1, asked.body.length))
        if asked.data == NULL:
            return UNEXPECTED
        memcpy(asked.data, line.head + end + 4, beyond)
        line.got = beyond
        line.at = BODY
        return GOING_ON

    cdef bint keep_head(self, Line *line, Asked *asked, Py_ssize_t size) noexcept nogil:
        free(asked.head)
        asked.head = <char *> malloc(size + 1)
        asked.head_size = size
        if asked.head == NULL:
            return False
        memcpy(asked.head, line.head, size)
        return True


cdef int gather(const Line *line, const Asked *asked, iovec *parts) noexcept nogil:
    """What is to be sent next, as many parts as go at once: how many they are."""
    cdef int count = 0
    cdef Py_ssize_t part = line.part, begin = line.part_sent
    if line.sent < line.request_size:
        parts[0] = iovec(line.request + line.sent, line.request_size - line.sent)
        count = 1
    if asked.given_size > SENT_AT_ONCE:
        while part < asked.given_count and count < PARTS_AT_ONCE:
            parts[count] = iovec(<char *> asked.given[part].iov_base + begin, asked.given[part].iov_len - begin)
            count += 1
            part += 1
            begin = 0
    return count


cdef bint failed(int descriptor) noexcept nogil:
    """Whether a connection could not be opened."""
    cdef int code = 0
    cdef unsigned int size = sizeof(code)
    return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size) != 0 or code != 0


cdef Outcome nothing_now() noexcept nogil:
    return GOING_ON if errno == EAGAIN or errno == EINTR else LOST
