"""What requests for objects and ranges of them say, and whether an answer is the one. Nothing here does I/O."""

from libc.stdint cimport int64_t, uint64_t


cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len


cpdef enum:
    LONGEST_REST = 160                  # of a request, besides its beginning and the entity tag
    SENT_AT_ONCE = 4096                 # what is to be stored goes together with its request, if it is not longer


cdef enum Task:
    RANGE = 0                           # of an object that is there
    PART                                # the same of whatever version is there, if one is; it may reach beyond its end
    OBJECT                              # all of one, which may not be there
    HEAD                                # what is said of one
    STORE                               # one in place of another, or where there is none


# What has become of a connection, or of an answer.
cpdef enum Outcome:
    GOING_ON = 0
    AT_REST                             # nothing is left to ask for
    ENDED                               # the server closes the connection after this answer
    LOST
    UNEXPECTED                          # an answer that is not the one
    REFUSED                             # the same, and such requests will not be answered another time


# What an answer has behind its head.
cdef struct Body:
    uint64_t length
    bint chunked                        # of an excuse only
    bint excuse                         # what nobody reads, if there is any: all but what an object has


cdef struct Asked:
    Task task
    const char *request                 # how its requests begin
    Py_ssize_t request_size
    const char *tag                     # of the object of a range; the condition of what is to be stored
    Py_ssize_t tag_size
    const iovec *given                  # to be stored, one after the other: none of them empty
    Py_ssize_t given_count
    Py_ssize_t given_size               # of all of them
    int64_t start                       # below zero: so many bytes from the end, without a `stop`
    uint64_t stop
    uint64_t size                       # of the object, that of a range before it has come
    Body body                           # what the last answer announced
    char *head                          # of the answer that has come, but for ranges
    Py_ssize_t head_size
    char *data                          # its bytes
    bint is_there                       # or is known not to be; of what is stored: it is known what became of it
    int times                           # how often it was asked for


cdef Py_ssize_t write_request(const Asked *asked, char *to) noexcept nogil
cdef Py_ssize_t end_of_head(const char *data, Py_ssize_t begin, Py_ssize_t size) noexcept nogil
cdef Outcome check_answer(const char *head, Py_ssize_t size, Asked *asked) noexcept nogil
cdef int excuse_ends(const char *data, Py_ssize_t size, const Body *body) noexcept nogil
