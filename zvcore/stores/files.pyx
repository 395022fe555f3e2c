"""Local files as objects: keys to paths, stamps, ranged reads. How they are written stands in `file_writes`.

Every call to the system happens without the GIL and may be used from any thread at once. The C functions declared in
`files.pxd` are for native code; the Python functions below them are for `LocalStore`.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EINTR, EIO, EISDIR, ENAMETOOLONG, ENOENT, ENOTDIR, ENXIO, errno
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcmp, memcpy
from posix.fcntl cimport O_RDONLY
from posix.types cimport off_t
from posix.unistd cimport close, pread

from zvcore.system.files cimport ZV_STAMP_TICK, file_stamp, zv_fstat, zv_open, zv_stamp_clock, zv_stat

import os

from zvcore.errors import InvalidKeyError


cdef enum:
    LONGEST_PATH = 4096
    BYTES_AT_ONCE = 1 << 30             # below what one call may move anywhere (INT_MAX on macOS)


cdef enum refusal:
    FINE = 0
    EMPTY_KEY
    ABSOLUTE
    EMPTY_NAME
    DOTS
    NUL
    BACKSLASH
    RESERVED


cdef tuple REFUSALS = (
    "",
    "a key is not empty",
    "a key does not begin with '/'",
    "a key has no empty names and does not end with '/'",
    "a key has no '.' and '..'",
    "a key has no NUL characters",
    "a key has no backslashes",
    "names of this form are kept for locks and unfinished writes",
)


# --- keys

cdef int check_key(const char *key, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i, start = 0, length
    cdef char c
    if size == 0:
        return EMPTY_KEY
    if key[0] == b"/":
        return ABSOLUTE
    for i in range(size + 1):
        c = key[i] if i < size else b"/"
        if c == b"/":
            length = i - start
            if length == 0:
                return EMPTY_NAME
            if key[start] == b".":
                if length == 1 or (length == 2 and key[start + 1] == b"."):
                    return DOTS
                if length > 6 and memcmp(&key[i - 6], b".zvtmp", 6) == 0:
                    return RESERVED
                if length > 7 and memcmp(&key[i - 7], b".zvlock", 7) == 0:
                    return RESERVED
            start = i + 1
        elif c == 0:
            return NUL
        elif c == b"\\":
            return BACKSLASH
    return FINE


cdef inline bytes utf8(key):
    if type(key) is not str:
        if not isinstance(key, str):
            raise TypeError(f"a key is a str, not {type(key).__name__}")
    # Names on disk that are no UTF-8 are listed with surrogates, as everywhere in Python.
    return (<str>key).encode("utf-8", "surrogateescape")


def encode_key(key) -> bytes:
    """A key as the bytes of a path below the store's root; what may not be a key is refused."""
    cdef bytes raw
    try:
        raw = utf8(key)
    except UnicodeEncodeError:
        raise InvalidKeyError("a key is Unicode text", found=ascii(key)) from None
    cdef int why = check_key(PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))
    if why != FINE:
        raise InvalidKeyError(REFUSALS[why], found=repr(key))
    return raw


def is_key_name(name: bytes) -> bool:
    """Whether a name found in a folder may be part of a key: neither ours (locks, unfinished writes) nor refused."""
    return check_key(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)) == FINE


cdef int last_error() noexcept nogil:
    return errno if errno != 0 else EIO


cdef object failure(int code, bytes path):
    return OSError(code, os.strerror(code), os.fsdecode(path))


cdef bint absent(int code) noexcept nogil:
    """Whether this errno of open or stat means that there is no such object, and nothing worse."""
    return code == ENOENT or code == ENOTDIR or code == EISDIR or code == ENAMETOOLONG or code == ENXIO


# --- reading

cdef int stamp_object(const char *path, file_stamp *stamp) noexcept nogil:
    return zv_stat(path, stamp)


cdef int open_object(const char *path, file_stamp *stamp) noexcept nogil:
    cdef int descriptor = zv_open(path, O_RDONLY)
    return -last_error() if descriptor < 0 else adopt_object(descriptor, stamp)


cdef int adopt_object(int descriptor, file_stamp *stamp) noexcept nogil:
    cdef int code = zv_fstat(descriptor, stamp)
    if code != 0:
        close(descriptor)
        return -code
    return descriptor


cdef int64_t read_at(int descriptor, void *into, uint64_t size, uint64_t offset) noexcept nogil:
    cdef uint64_t done = 0, wanted
    cdef ssize_t count
    while done < size:
        wanted = size - done
        if wanted > BYTES_AT_ONCE:
            wanted = BYTES_AT_ONCE
        count = pread(descriptor, <char *>into + done, <size_t>wanted, <off_t>(offset + done))
        if count < 0:
            if errno == EINTR:
                continue
            return -last_error()
        if count == 0:
            break
        done += count
    return <int64_t>done


cdef inline bytes stamp_bytes(const file_stamp *stamp):
    return PyBytes_FromStringAndSize(<const char *>stamp, sizeof(file_stamp))


def join(folder: bytes, key) -> bytes:
    """The path of an object: `folder` ends with a slash."""
    return folder + encode_key(key)


def stamp(folder: bytes, key) -> bytes | None:
    """The stamp of an object, None if there is none. This is on the path of every warm read, so it is one call."""
    cdef char path[LONGEST_PATH]
    cdef bytes raw = encode_key(key)
    cdef Py_ssize_t n = PyBytes_GET_SIZE(folder), m = PyBytes_GET_SIZE(raw)
    cdef file_stamp found
    cdef int code
    if n + m >= LONGEST_PATH:
        return None
    memcpy(path, PyBytes_AS_STRING(folder), n)
    memcpy(path + n, PyBytes_AS_STRING(raw), m + 1)
    with nogil:
        code = zv_stat(path, &found)
    if code != 0:
        if absent(code):
            return None
        raise failure(code, folder + raw)
    return stamp_bytes(&found)


def read_whole(folder: bytes, key) -> bytes | None:
    """All bytes of an object, None if there is none: to open, to read and to close it, in one call."""
    cdef file_stamp found
    return read_stamped(folder, key, &found, NULL)


def read_version(folder: bytes, key) -> tuple[bytes, bytes | None] | None:
    """All bytes of an object, and its stamp if that is settled; None if there is no object."""
    cdef file_stamp found
    cdef bint is_settled
    cdef bytes raw = read_stamped(folder, key, &found, &is_settled)
    return None if raw is None else (raw, stamp_bytes(&found) if is_settled else None)


cdef bytes read_stamped(bytes folder, key, file_stamp *found, bint *is_settled):
    cdef bytes path = folder + encode_key(key), into
    cdef const char *where = PyBytes_AS_STRING(path)
    cdef char *buffer
    cdef int descriptor
    cdef int64_t count
    with nogil:
        descriptor = open_object(where, found)
    if descriptor < 0:
        if absent(-descriptor):
            return None
        raise failure(-descriptor, path)
    if is_settled != NULL:
        is_settled[0] = has_settled(found)
    try:
        into = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>found.size)
        buffer = PyBytes_AS_STRING(into)
        with nogil:
            count = read_at(descriptor, buffer, found.size, 0)
    finally:
        with nogil:
            close(descriptor)
    if count < 0:
        raise failure(<int>-count, path)
    return into if <uint64_t>count == found.size else into[:count]


cdef bint nothing_at(const char *path) noexcept nogil:
    """Whether there is no object, of which nothing else can be said."""
    cdef file_stamp found
    cdef int code = zv_stat(path, &found)
    return code != 0 and absent(code)


def present(folder: bytes, keys) -> set:
    """Those of some keys which have an object, or of which the system cannot say whether they have."""
    cdef char path[LONGEST_PATH]
    cdef bytes raw
    cdef Py_ssize_t n = PyBytes_GET_SIZE(folder), m
    cdef bint none
    cdef set found = set()
    if n < LONGEST_PATH:
        memcpy(path, PyBytes_AS_STRING(folder), n)
    for key in keys:
        raw = encode_key(key)
        m = PyBytes_GET_SIZE(raw)
        if n + m >= LONGEST_PATH:
            continue
        memcpy(path + n, PyBytes_AS_STRING(raw), m + 1)
        with nogil:
            none = nothing_at(path)
        if not none:
            found.add(key)
    return found


def nothing_above(here: bytes, name: bytes) -> bool:
    """Whether surely no folder above an absolute path, the root left out, has an object of this name."""
    cdef char path[LONGEST_PATH]
    cdef const char *last = PyBytes_AS_STRING(name)
    cdef Py_ssize_t n = PyBytes_GET_SIZE(here), m = PyBytes_GET_SIZE(name)
    cdef bint none = True
    if n + m >= LONGEST_PATH:
        return False
    memcpy(path, PyBytes_AS_STRING(here), n)
    with nogil:
        while none:
            n -= 1
            while n > 0 and path[n] != b"/":
                n -= 1
            if n <= 0:
                break
            memcpy(path + n + 1, last, m + 1)
            none = nothing_at(path)
    return none


def stamp_size(stamp: bytes) -> int:
    """The size of the object that has this stamp."""
    cdef file_stamp one
    if PyBytes_GET_SIZE(stamp) != sizeof(file_stamp):
        raise ValueError("this is not a stamp of a file")
    memcpy(&one, PyBytes_AS_STRING(stamp), sizeof(file_stamp))
    return one.size


def settled(stamp: bytes) -> bool:
    """Whether any later change of the file is sure to change its stamp.

    Files are stamped by a clock of a few milliseconds, and an inode number comes back into use at once; so two versions
    made within one tick may look the same. True once the clock has moved on since the stamp's change time. Ask after
    taking the stamp and before reading what it stands for.
    """
    cdef file_stamp one
    if PyBytes_GET_SIZE(stamp) != sizeof(file_stamp):
        raise ValueError("this is not a stamp of a file")
    memcpy(&one, PyBytes_AS_STRING(stamp), sizeof(file_stamp))
    return has_settled(&one)


cdef bint has_settled(const file_stamp *one) noexcept nogil:
    cdef uint64_t now, tick = ZV_STAMP_TICK
    if one.changed % 1000000000 == 0 and one.modified % 1000000000 == 0:
        tick = 2000000000       # a file system that keeps whole seconds (or two)
    now = zv_stamp_clock()
    # A time well ahead of ours comes from a clock that was wrong or is another machine's: nothing to wait for.
    return one.changed + tick < now or one.changed > now + 1000000000


@cython.final
@cython.no_gc
cdef class Watched:
    """A file that is looked at now and then, without the GIL: whether it still has this stamp. `stamp` None: how it is
    to be is not known.
    """

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.stamp = None

    def __reduce__(self):
        return (Watched, (self.path,))


cdef class OpenFile:
    """A file kept open for reading. The descriptor is closed when the last user lets go of it.

    With `opened`, the descriptor of a file that somebody has opened already, which is closed whatever happens.
    """

    def __cinit__(self, path: bytes, int opened=-1) -> None:
        cdef const char *where = PyBytes_AS_STRING(path)
        cdef int descriptor
        self.descriptor = -1
        self.path = path
        with nogil:
            descriptor = open_object(where, &self.first) if opened < 0 else adopt_object(opened, &self.first)
        if descriptor < 0:
            if absent(-descriptor):
                raise FileNotFoundError(ENOENT, os.strerror(ENOENT), os.fsdecode(path))
            raise failure(-descriptor, path)
        self.descriptor = descriptor

    def __dealloc__(self) -> None:
        cdef int descriptor = self.descriptor
        if descriptor >= 0:
            with nogil:
                close(descriptor)

    def stamp(self) -> bytes:
        """The stamp of the open file now, wherever its path leads by now."""
        cdef file_stamp found
        cdef int code
        with nogil:
            code = zv_fstat(self.descriptor, &found)
        if code != 0:
            raise failure(code, self.path)
        return stamp_bytes(&found)

    def is_current(self) -> bool:
        """Whether this file's path still leads to it.

        The same inode number is enough: it cannot be given to another file as long as this one is open.
        """
        cdef const char *where = PyBytes_AS_STRING(self.path)
        cdef file_stamp found
        cdef int code
        with nogil:
            code = zv_stat(where, &found)
        return code == 0 and self.is_same(&found)

    cdef bint is_same(self, const file_stamp *found) noexcept nogil:
        return found.inode == self.first.inode and found.device == self.first.device

    def size(self) -> int:
        cdef file_stamp found
        cdef int code
        with nogil:
            code = zv_fstat(self.descriptor, &found)
        if code != 0:
            raise failure(code, self.path)
        return found.size

    def read(self, start, length=None, whole=None) -> bytes:
        """The bytes from `start` on (negative: from the end), at most `length`, fewer if the file ends before.

        Never asks for more memory than the file has bytes; `whole` is their number where that is known already.
        """
        cdef file_stamp found
        cdef int code
        if whole is not None:
            return self.read_some(whole, start, length)
        with nogil:
            code = zv_fstat(self.descriptor, &found)
        if code != 0:
            raise failure(code, self.path)
        return self.read_some(found.size, start, length)

    def read_if_current(self, start, length=None) -> bytes | None:
        """`read`, unless this file's path leads elsewhere by now: then None."""
        cdef const char *where = PyBytes_AS_STRING(self.path)
        cdef file_stamp found
        cdef int code
        with nogil:
            code = zv_stat(where, &found)
        if code != 0 or not self.is_same(&found):
            return None
        return self.read_some(found.size, start, length)

    cdef bytes read_some(self, uint64_t whole, start, length):
        cdef uint64_t offset, size
        cdef bytes into
        cdef char *buffer
        cdef int64_t count
        # As Python numbers: what is asked for may be larger than any file.
        if start < 0:
            offset = 0 if -start >= whole else whole - <uint64_t>(-start)
        else:
            offset = whole if start >= whole else start
        size = whole - offset
        if length is not None and length < size:
            size = length
        into = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
        buffer = PyBytes_AS_STRING(into)
        with nogil:
            count = read_at(self.descriptor, buffer, size, offset)
        if count < 0:
            raise failure(<int>-count, self.path)
        return into if <uint64_t>count == size else into[:count]
