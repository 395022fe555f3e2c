"""Local files written: put in place as a whole, lengthened, changed, removed; and the folders that they need.

With `sync`, what is done is durable, file and folder, when the function returns. This is the one place where that is
seen to. The C functions are for native code, which may call them from any thread without the GIL; the Python functions
below them are for `LocalStore`.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING
from libc.errno cimport (
    EACCES, EDQUOT, EEXIST, EINTR, EINVAL, EIO, ENAMETOOLONG, ENOENT, ENOMEM, ENOSPC, ENOSYS, ENOTDIR,
    EOPNOTSUPP, errno,
)
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy
from posix.fcntl cimport AT_FDCWD, O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_RDWR, O_WRONLY
from posix.types cimport off_t
from posix.uio cimport iovec, writev
from posix.unistd cimport SEEK_SET, close, fsync, ftruncate, lseek

from zvcore.stores.files cimport absent, failure, last_error, read_at
from zvcore.stores.late_writes cimport give_space, name_kept, note_failed_exchange, settle_later
from zvcore.system.files cimport (
    file_stamp, linkat, renameat, unlinkat, zv_exchange_at, zv_fstat, zv_is_file_at, zv_make_parents, zv_name_new_at,
    zv_open, zv_open_at, zv_random_name, zv_touch,
)

import errno as errors
import os


cdef enum:
    PARTS_AT_ONCE = 256                 # below every system's IOV_MAX
    # What one call writes. For more, Linux looks for large pieces of memory, which in a virtual machine are often such
    # as nobody has used yet: with 4 MiB at once, a file took up to three times the processor time.
    BYTES_AT_ONCE = 1 << 20


cdef int write_all(int descriptor, const iovec *parts, Py_ssize_t count) noexcept nogil:
    """Write the parts one after the other from where the descriptor stands: 0 or errno."""
    cdef iovec batch[PARTS_AT_ONCE]
    cdef Py_ssize_t part = 0, next_part
    cdef size_t skip = 0, length, total
    cdef ssize_t written
    cdef int filled, code
    cdef bint full = False
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
            code = last_error()
            if code == EINTR:
                continue
            if is_full(code) and not full:
                full = True
                if give_space():
                    continue
            return code
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


cdef bint is_full(int code) noexcept nogil:
    return code == ENOSPC or code == EDQUOT


cdef int sync_folder(const char *path) noexcept nogil:
    """Make the entry of this file in its folder durable: 0 or errno."""
    cdef char folder[LONGEST_PATH]
    cdef Py_ssize_t end = name_starts(path)
    cdef int descriptor, code = 0
    if end >= LONGEST_PATH:
        return ENAMETOOLONG
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


cdef int make_folders(char *path, Py_ssize_t root, bint sync) noexcept nogil:
    cdef int _attempt, code = ENOENT
    for _attempt in range(100):
        if code == ENOENT:          # someone removes them as fast as we make them
            code = make_folders_once(path, root, sync)
    return code


cdef int make_folders_once(char *path, Py_ssize_t root, bint sync) noexcept nogil:
    cdef size_t made = 0
    cdef int code = zv_make_parents(path, &made)
    cdef Py_ssize_t i
    if code != 0 or not sync:
        return code
    # Of folders that are here already, another writer may have made some just now, and be about to sync them.
    for i in range(min(root, <Py_ssize_t> made) if made else root, LONGEST_PATH):
        if path[i] == 0:
            break
        if path[i] == b"/" and i > 0:
            path[i] = 0
            code = sync_folder(path)
            path[i] = b"/"
            if code == EACCES and i <= root and (made == 0 or i < <Py_ssize_t> made):
                code = 0            # a folder above the store, which was there before
            if code != 0:
                return code
    return 0


cdef int remove_file(Folder *folder, const char *path, bint sync) noexcept nogil:
    cdef int code = reach_folder(folder, path)
    cdef const char *name = path + folder.length if code == 0 else path
    cdef int within = folder.descriptor if code == 0 else AT_FDCWD
    if code == ENOENT or code == ENOTDIR:
        return 0
    if unlinkat(within, name, 0) == 0:
        return sync_names(within, path) if sync else 0
    return 0 if errno == ENOENT or errno == ENOTDIR else last_error()


# --- folders kept open

cdef int reach_folder(Folder *folder, const char *path) noexcept nogil:
    """Have the folder of this file open: 0 or errno."""
    cdef Py_ssize_t end = name_starts(path)
    if end == 0 or end >= LONGEST_PATH:
        return ENAMETOOLONG
    if folder.length == end and memcmp(folder.path, path, end) == 0:
        return 0
    leave_folder(folder)
    memcpy(folder.path, path, end)
    folder.path[end] = 0
    folder.descriptor = zv_open(folder.path, O_RDONLY | O_DIRECTORY)
    if folder.descriptor < 0:
        return last_error()
    folder.length = end
    return 0


cdef void leave_folder(Folder *folder) noexcept nogil:
    if folder.length:
        close(folder.descriptor)
        folder.length = 0


cdef Py_ssize_t name_starts(const char *path) noexcept nogil:
    """Where the name of a file begins, behind its folder; LONGEST_PATH if the path is too long."""
    cdef Py_ssize_t i, end = 0
    for i in range(LONGEST_PATH):
        if path[i] == 0:
            return end
        if path[i] == b"/":
            end = i + 1
    return LONGEST_PATH


cdef int sync_names(int folder, const char *path) noexcept nogil:
    """Make durable what became of this file's name, which is in the open folder if there is one: 0 or errno."""
    if folder == AT_FDCWD:
        return sync_folder(path)
    return last_error() if fsync(folder) != 0 else 0


# --- whole files

cdef int descriptor_of(const Folder *folder) noexcept nogil:
    return AT_FDCWD if folder == NULL else folder.descriptor


cdef int begin_file(const Folder *folder, const char *path, char *temporary, Py_ssize_t room) noexcept nogil:
    cdef Py_ssize_t end = name_starts(path)
    cdef int descriptor, code
    cdef bint taken = False, full = False
    if end + 24 >= min(room, <Py_ssize_t> LONGEST_PATH):
        return -ENAMETOOLONG
    memcpy(temporary, path, end)
    while True:
        code = zv_random_name(temporary + end, taken)
        if code != 0:
            return -code
        descriptor = zv_open_at(descriptor_of(folder), temporary, O_WRONLY | O_CREAT | O_EXCL)
        if descriptor >= 0:
            return descriptor
        code = last_error()
        if is_full(code) and not full and give_space():
            full = True
            continue
        if code != EEXIST:
            return -code
        taken = True


cdef int take_place(int folder, const char *temporary, const char *path, int durability) noexcept nogil:
    """Give a new file the name of an old one: 0 or errno. Other kinds of things are left to what rename says."""
    # ext4 writes a file out before it replaces another by rename; by an exchange it does not.
    cdef int code
    if durability == DURABILITY_NONE and zv_is_file_at(folder, path) and zv_exchange_at(folder, temporary, path) == 0:
        if unlinkat(folder, temporary, 0) == 0 or errno == ENOENT:
            return 0
        code = last_error()         # somebody has put a folder there just now
        return code if zv_exchange_at(folder, temporary, path) == 0 else 0
    return 0 if renameat(folder, temporary, folder, path) == 0 else last_error()


cdef int take_place_late(
    const Folder *folder, const char *temporary, const char *path, const char *kept, uint64_t size
) noexcept nogil:
    """The same; the old file stays, under the name `kept` if that is not empty, until the new one is on the disk."""
    cdef int within = descriptor_of(folder), code
    if kept[0] == 0:
        return take_place(within, temporary, path, DURABILITY_RENAME)
    # Before the exchange, so that the old file never has another name than one that tells of the new.
    if renameat(within, temporary, within, kept) != 0:
        return last_error()
    if zv_exchange_at(within, kept, path) == 0:
        if zv_is_file_at(within, kept):
            if folder == NULL:
                settle_later(b"", path, kept, size)
            else:
                settle_later(folder.path, path, kept, size)
            return 0
        # Somebody has put a folder there just now, or removed a file that a link led to: as above.
        if zv_exchange_at(within, kept, path) != 0:
            return 0
    else:
        note_failed_exchange(within, kept, last_error())
    code = take_place(within, kept, path, DURABILITY_RENAME)
    if code != 0:
        unlinkat(within, kept, 0)
    return code


cdef int take_new_place(int folder, const char *temporary, const char *path) noexcept nogil:
    """Give a new file a name that nothing has: 0 or errno."""
    cdef int code
    if zv_name_new_at(folder, temporary, path) == 0:
        return 0
    code = last_error()
    if code != EINVAL and code != ENOSYS and code != EOPNOTSUPP:
        return code
    # Network file systems know links alone.
    if linkat(folder, temporary, folder, path, 0) != 0:
        return last_error()
    unlinkat(folder, temporary, 0)
    return 0


cdef int finish_file(
    int descriptor, const Folder *folder, const char *temporary, const char *path, int durability, bint exclusive
) noexcept nogil:
    cdef int code = 0, within = descriptor_of(folder)
    cdef bint sync = durability == DURABILITY_FSYNC
    cdef char kept[LONGEST_PATH]
    cdef uint64_t size = 0
    zv_touch(descriptor)
    kept[0] = 0
    if durability == DURABILITY_LATE and zv_is_file_at(within, path):
        name_kept(descriptor, path, kept, LONGEST_PATH, &size)
    if sync and fsync(descriptor) != 0:
        code = last_error()
    # Some file systems tell only here that there was no room.
    if close(descriptor) != 0 and code == 0 and errno != EINTR:
        code = last_error()
    if code == 0 and exclusive:
        code = take_new_place(within, temporary, path)
    elif code == 0 and durability == DURABILITY_LATE:
        code = take_place_late(folder, temporary, path, kept, size)
    elif code == 0:
        code = take_place(within, temporary, path, durability)
    if code != 0:
        unlinkat(within, temporary, 0)
    elif sync:
        code = sync_names(within, path)
    return code


cdef int replace_file(
    const Folder *folder, const char *path, const iovec *parts, Py_ssize_t count, int durability, bint exclusive
) noexcept nogil:
    """The folder is as in `begin_file`."""
    cdef char temporary[LONGEST_PATH]
    cdef int descriptor = begin_file(folder, path, temporary, LONGEST_PATH), code
    if descriptor < 0:
        return -descriptor
    code = write_all(descriptor, parts, count)
    if code != 0:
        close(descriptor)
        unlinkat(descriptor_of(folder), temporary, 0)
        return code
    return finish_file(descriptor, folder, temporary, path, durability, exclusive)


cdef int replace_in_folder(
    Folder *folder, char *path, Py_ssize_t root, const iovec *parts, Py_ssize_t count, int durability
) noexcept nogil:
    cdef int _attempt, code = ENOENT
    for _attempt in range(10):
        code = reach_folder(folder, path)
        if code == 0:
            code = replace_file(folder, path + folder.length, parts, count, durability, False)
            if code != ENOENT:
                return code
            leave_folder(folder)        # somebody has removed it, and perhaps made another
        elif code != ENOENT:
            # What cannot be opened for listing, or for lack of descriptors, may be written to all the same.
            return replace_file(NULL, path, parts, count, durability, False)
        else:
            code = make_folders(path, root, durability == DURABILITY_FSYNC)
            if code != 0:
                return code
    return code


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


def replace(path: bytes, parts: tuple, int durability, exclusive: bool) -> None:
    """Put a file in place as a whole. `exclusive`: FileExistsError if something is there.

    FileNotFoundError: the folder is missing. Whatever fails, what was there stays and nothing is left over.
    """
    cdef Parts held = Parts(parts)
    cdef const char *where = PyBytes_AS_STRING(path)
    cdef bint new = exclusive
    cdef int code
    with nogil:
        code = replace_file(NULL, where, held.vectors, held.count, durability, new)
    if code != 0:
        raise failure(code, path)


def finish(int descriptor, temporary: bytes, path: bytes, int durability) -> None:
    """Put a file that was written under another name beside its place there. Whatever becomes of it, it is closed, and
    has its other name no more.
    """
    cdef const char *here = PyBytes_AS_STRING(temporary)
    cdef const char *there = PyBytes_AS_STRING(path)
    cdef int code
    with nogil:
        code = finish_file(descriptor, NULL, here, there, durability, False)
    if code != 0:
        raise failure(code, path)


def exchange(first: bytes, second: bytes) -> bool:
    """Exchange two files or folders, each in place of the other, in one step; False where that cannot be."""
    cdef const char *one = PyBytes_AS_STRING(first)
    cdef const char *other = PyBytes_AS_STRING(second)
    cdef int code
    with nogil:
        code = 0 if zv_exchange_at(AT_FDCWD, one, other) == 0 else last_error()
    if code in (errors.EINVAL, errors.ENOSYS, errors.ENOTSUP, errors.EOPNOTSUPP):
        return False
    if code != 0:
        raise failure(code, second)
    return True


def make_folder(path: bytes, root: bytes, sync: bool) -> None:
    """Make a folder of the store whose folder is `root`, and those above it that are missing."""
    cdef bytearray name = bytearray(path + b"/\0")         # a copy: it is changed while folders are made
    cdef char *where = name
    cdef Py_ssize_t length = len(root.rstrip(b"/"))
    cdef bint durable = sync
    cdef int code
    with nogil:
        code = make_folders(where, length, durable)
    if code != 0:
        raise failure(code, path)


def sync_entry(path: bytes) -> None:
    """Make durable what became of a name in its folder."""
    cdef const char *where = PyBytes_AS_STRING(path)
    cdef int code
    with nogil:
        code = sync_folder(where)
    if code != 0:
        raise failure(code, path)


cdef int extend_file(
    int descriptor, const iovec *parts, Py_ssize_t count, uint64_t size, uint64_t copy_at, uint64_t last_at, bint sync
) noexcept nogil:
    """All parts but the last from `size` on, the last at `last_at`; what `extend` says."""
    cdef const iovec *last = &parts[count - 1]
    cdef char *copy
    cdef int code = 0
    cdef iovec part
    if copy_at:
        copy = <char *> malloc(last.iov_len)
        if copy == NULL:
            return ENOMEM
        part.iov_base = copy
        part.iov_len = last.iov_len
        if read_at(descriptor, copy, last.iov_len, size - last.iov_len) != <int64_t> last.iov_len:
            code = EIO
        else:
            code = write_from(descriptor, copy_at, &part, 1)
        free(copy)
    if code == 0:
        code = write_from(descriptor, size, parts, count - 1)
    # What comes last says that the rest is there.
    if code == 0 and sync and fsync(descriptor) != 0:
        code = last_error()
    return code if code != 0 else write_from(descriptor, last_at, last, 1)


cdef int write_from(int descriptor, uint64_t offset, const iovec *parts, Py_ssize_t count) noexcept nogil:
    return last_error() if lseek(descriptor, <off_t> offset, SEEK_SET) < 0 else write_all(descriptor, parts, count)


def extend(path: bytes, parts: tuple, uint64_t size, uint64_t copy_at, uint64_t last_at, sync) -> tuple[bool, int]:
    """Lengthen a file of this size by the parts, of which the last lies at `last_at`: as `write_at`.

    With `copy_at`, which lies behind all parts but the last, what the file ends with (as much as the last part has) is
    first copied there. If neither the copy nor the last part crosses the border of a page, the file ends with the old
    or the new at every moment, because the kernel shows what is written within one page, and the length, at once.
    """
    cdef Parts held = Parts(parts)
    cdef const char *where = PyBytes_AS_STRING(path)
    cdef bint durable = sync
    cdef file_stamp found
    cdef int code = 0, descriptor
    if held.count < 1 or last_at < size or (
            copy_at and (copy_at < size or held.vectors[held.count - 1].iov_len > size)):
        raise ValueError("the parts do not fit the places")
    with nogil:
        descriptor = zv_open(where, O_RDWR)
        code = last_error() if descriptor < 0 else zv_fstat(descriptor, &found)
    if code != 0 or found.size != size:
        if descriptor >= 0:
            close(descriptor)
        if code == 0:
            return False, found.size
        if absent(code):
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), os.fsdecode(path))
        raise failure(code, path)
    with nogil:
        code = extend_file(descriptor, held.vectors, held.count, size, copy_at, last_at, durable)
        if code != 0 and ftruncate(descriptor, <off_t> size) != 0:
            pass
        zv_touch(descriptor)
        if code == 0 and durable and fsync(descriptor) != 0:
            code = last_error()
        if close(descriptor) != 0 and code == 0 and errno != EINTR:
            code = last_error()
    if code != 0:
        raise failure(code, path)
    return True, size


def write_at(path: bytes, parts: tuple, uint64_t offset, sync: bool) -> tuple[bool, int]:
    """Write into an existing file: (whether it was done, the file's size before).

    Nothing is written unless the bytes lie within the file.
    """
    cdef Parts held = Parts(parts)
    cdef const char *where = PyBytes_AS_STRING(path)
    cdef bint durable = sync
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
    if offset > found.size or total > found.size - offset:
        close(descriptor)
        return False, found.size
    with nogil:
        code = write_from(descriptor, offset, held.vectors, held.count)
        zv_touch(descriptor)
        if code == 0 and durable and fsync(descriptor) != 0:
            code = last_error()
        if close(descriptor) != 0 and code == 0 and errno != EINTR:
            code = last_error()
    if code != 0:
        raise failure(code, path)
    return True, found.size
