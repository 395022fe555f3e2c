"""Local files as objects: keys to paths, stamps, ranged reads, and replacement as a whole.

Every call to the system happens without the GIL and may be used from any thread at once. The C functions declared in
`files.pxd` are for native code; the Python functions below them are for `LocalStore`.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EEXIST, EINTR, EIO, EISDIR, ENAMETOOLONG, ENOENT, ENOTDIR, ENXIO, errno
from libc.stdint cimport int64_t, uint64_t
from libc.stdio cimport rename
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy
from posix.fcntl cimport O_CREAT, O_EXCL, O_RDONLY, O_WRONLY
from posix.types cimport off_t
from posix.uio cimport iovec, writev
from posix.unistd cimport SEEK_SET, close, fsync, ftruncate, link, lseek, pread, unlink

from zvcore.system.files cimport (
    ZV_STAMP_TICK, file_stamp, zv_fstat, zv_open, zv_random_name, zv_stamp_clock, zv_stat, zv_touch,
)

import os

from zvcore.errors import InvalidKeyError


cdef enum:
    LONGEST_PATH = 4096
    PARTS_AT_ONCE = 256                 # below every system's IOV_MAX
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


cdef inline int last_error() noexcept nogil:
    return errno if errno != 0 else EIO


cdef object failure(int code, bytes path):
    return OSError(code, os.strerror(code), os.fsdecode(path))


cdef inline bint absent(int code) noexcept nogil:
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
    cdef uint64_t now, tick = ZV_STAMP_TICK
    if PyBytes_GET_SIZE(stamp) != sizeof(file_stamp):
        raise ValueError("this is not a stamp of a file")
    memcpy(&one, PyBytes_AS_STRING(stamp), sizeof(file_stamp))
    if one.changed % 1000000000 == 0 and one.modified % 1000000000 == 0:
        tick = 2000000000       # a file system that keeps whole seconds (or two)
    now = zv_stamp_clock()
    # A time well ahead of ours comes from a clock that was wrong or is another machine's: nothing to wait for.
    return one.changed + tick < now or one.changed > now + 1000000000


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


# --- writing

cdef int write_all(int descriptor, const iovec *parts, Py_ssize_t count) noexcept nogil:
    """Write the parts one after the other from where the descriptor stands: 0 or errno."""
    cdef iovec batch[PARTS_AT_ONCE]
    cdef Py_ssize_t part = 0, next_part
    cdef size_t skip = 0, length, total
    cdef ssize_t written
    cdef int filled
    while True:
        while part < count and skip == parts[part].iov_len:
            part += 1
            skip = 0
        if part == count:
            return 0
        filled = 0
        total = 0
        next_part = part
        while next_part < count and filled < PARTS_AT_ONCE and total < BYTES_AT_ONCE:
            batch[filled].iov_base = <char *>parts[next_part].iov_base + (skip if filled == 0 else 0)
            length = parts[next_part].iov_len - (skip if filled == 0 else 0)
            if length > BYTES_AT_ONCE - total:
                length = BYTES_AT_ONCE - total
            batch[filled].iov_len = length
            total += length
            filled += 1
            next_part += 1
        written = writev(descriptor, batch, filled)
        if written < 0:
            if errno == EINTR:
                continue
            return last_error()
        if written == 0:
            return EIO
        while written > 0:
            length = parts[part].iov_len - skip
            if <size_t>written < length:
                skip += written
                break
            written -= length
            part += 1
            skip = 0


cdef int sync_folder(const char *path) noexcept nogil:
    """Make the entry of this file in its folder durable: 0 or errno."""
    cdef char folder[LONGEST_PATH]
    cdef Py_ssize_t i, end = 0
    cdef int descriptor, code = 0
    for i in range(LONGEST_PATH):
        if path[i] == 0:
            break
        if path[i] == b"/":
            end = i + 1
    memcpy(folder, path, end)
    folder[end] = 0
    if end == 0:
        folder[0] = b"."
        folder[1] = 0
    descriptor = zv_open(folder, O_RDONLY)
    if descriptor < 0:
        return last_error()
    if fsync(descriptor) != 0:
        code = last_error()
    close(descriptor)
    return code


cdef int begin_file(const char *path, char *temporary, Py_ssize_t room) noexcept nogil:
    cdef Py_ssize_t i, end = 0
    cdef int descriptor, code
    for i in range(LONGEST_PATH):
        if path[i] == 0:
            break
        if path[i] == b"/":
            end = i + 1
    else:
        return -ENAMETOOLONG
    if end + 24 >= min(room, <Py_ssize_t> LONGEST_PATH):
        return -ENAMETOOLONG
    memcpy(temporary, path, end)
    while True:
        code = zv_random_name(temporary + end)
        if code != 0:
            return -code
        descriptor = zv_open(temporary, O_WRONLY | O_CREAT | O_EXCL)
        if descriptor >= 0:
            return descriptor
        if errno != EEXIST:
            return -last_error()


cdef int finish_file(int descriptor, const char *temporary, const char *path, bint sync, bint exclusive) noexcept nogil:
    cdef int code = 0
    zv_touch(descriptor)
    if sync and fsync(descriptor) != 0:
        code = last_error()
    # Some file systems tell only here that there was no room.
    if close(descriptor) != 0 and code == 0 and errno != EINTR:
        code = last_error()
    if code == 0 and exclusive:
        if link(temporary, path) != 0:
            code = last_error()
        elif unlink(temporary) != 0:
            pass
    elif code == 0 and rename(temporary, path) != 0:
        code = last_error()
    if code != 0:
        unlink(temporary)
    elif sync:
        code = sync_folder(path)
    return code


cdef int replace_file(
    const char *path, const iovec *parts, Py_ssize_t count, bint sync, bint exclusive
) noexcept nogil:
    cdef char temporary[LONGEST_PATH]
    cdef int descriptor = begin_file(path, temporary, LONGEST_PATH), code
    if descriptor < 0:
        return -descriptor
    code = write_all(descriptor, parts, count)
    if code != 0:
        close(descriptor)
        unlink(temporary)
        return code
    return finish_file(descriptor, temporary, path, sync, exclusive)


cdef class Parts:
    """The buffers of one write, held for as long as it takes."""

    cdef iovec *vectors
    cdef Py_buffer *views
    cdef Py_ssize_t count

    def __cinit__(self, parts) -> None:
        cdef Py_ssize_t n = len(parts), i
        self.count = 0
        self.vectors = <iovec *>malloc((n + 1) * sizeof(iovec))
        self.views = <Py_buffer *>malloc((n + 1) * sizeof(Py_buffer))
        if self.vectors == NULL or self.views == NULL:
            raise MemoryError()
        for i in range(n):
            PyObject_GetBuffer(parts[i], &self.views[i], PyBUF_SIMPLE)
            self.count = i + 1
            self.vectors[i].iov_base = self.views[i].buf
            self.vectors[i].iov_len = <size_t>self.views[i].len

    def __dealloc__(self) -> None:
        cdef Py_ssize_t i
        for i in range(self.count):
            PyBuffer_Release(&self.views[i])
        free(self.views)
        free(self.vectors)


def replace(path: bytes, parts: tuple, sync: bool, exclusive: bool) -> None:
    """Put a file in place as a whole. `exclusive`: FileExistsError if something is there.

    FileNotFoundError: the folder is missing. Whatever fails, what was there stays and nothing is left over.
    """
    cdef Parts held = Parts(parts)
    cdef const char *where = PyBytes_AS_STRING(path)
    cdef bint durable = sync, new = exclusive
    cdef int code
    with nogil:
        code = replace_file(where, held.vectors, held.count, durable, new)
    if code != 0:
        raise failure(code, path)


def write_at(path: bytes, parts: tuple, uint64_t offset, appending: bool, sync: bool) -> tuple[bool, int]:
    """Write into an existing file: (whether it was done, the file's size before).

    Nothing is written unless the bytes lie within the file or, when appending, begin exactly at its end. An append that
    fails half way is taken back.
    """
    cdef Parts held = Parts(parts)
    cdef const char *where = PyBytes_AS_STRING(path)
    cdef bint durable = sync, append = appending, fits
    cdef file_stamp found
    cdef uint64_t total = 0
    cdef Py_ssize_t i
    cdef int code = 0, descriptor
    for i in range(held.count):
        total += held.vectors[i].iov_len
    with nogil:
        descriptor = zv_open(where, O_WRONLY)
        if descriptor < 0:
            code = last_error()
        else:
            code = zv_fstat(descriptor, &found)
    if code != 0:
        if descriptor >= 0:
            close(descriptor)
        if absent(code):
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), os.fsdecode(path))
        raise failure(code, path)
    fits = offset == found.size if append else (offset <= found.size and total <= found.size - offset)
    if not fits:
        close(descriptor)
        return False, found.size
    with nogil:
        if lseek(descriptor, <off_t>offset, SEEK_SET) < 0:
            code = last_error()
        else:
            code = write_all(descriptor, held.vectors, held.count)
        if code != 0 and append and ftruncate(descriptor, <off_t>found.size) != 0:
            pass
        zv_touch(descriptor)
        if code == 0 and durable and fsync(descriptor) != 0:
            code = last_error()
        if close(descriptor) != 0 and code == 0 and errno != EINTR:
            code = last_error()
    if code != 0:
        raise failure(code, path)
    return True, found.size
