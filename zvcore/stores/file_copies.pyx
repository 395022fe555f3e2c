"""Files copied into other folders, and compared with what is there: many in one call, without the GIL.

What is unusual in any way (links, files that differ, that are changed meanwhile, or have no room) is left to the
caller, who finds out again, and says what it is.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.errno cimport EINTR, ENOENT, ENXIO, errno
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, strcmp
from posix.fcntl cimport O_CLOEXEC, O_DIRECTORY, O_RDONLY
from posix.types cimport off_t
from posix.unistd cimport close, lseek, pwrite

from zvcore.stores.file_writes cimport (
    DURABILITY_FSYNC, LONGEST_PATH, Folder, begin_file, finish_file, leave_folder, make_folders, reach_folder,
)
from zvcore.stores.files cimport OpenFile, failure, last_error, read_at
from zvcore.system.atomics cimport zv_fetch_add
from zvcore.system.files cimport (
    file_stamp, unlinkat, zv_copy_between, zv_fstat, zv_is_file_at, zv_is_plain_file_at, zv_open_at, zv_open_beneath,
)

import os


cdef extern from "<fcntl.h>" nogil:
    enum:
        O_NOCTTY
        O_NOFOLLOW


cdef extern from *:
    """
    #include <unistd.h>
    #if !defined(SEEK_DATA)
    #define SEEK_DATA 3 /* as on Linux, whose headers have it for those alone who ask for more than POSIX */
    #define SEEK_HOLE 4
    #endif
    """
    enum:
        SEEK_DATA
        SEEK_HOLE


cdef enum:
    ROOM = 1 << 18
    AT_ONCE = 16                        # files that a thread takes, most of them of one folder
    ENOUGH = 1 << 26                    # bytes after which signals are seen to
    BYTES_AT_ONCE = 1 << 30             # what one call of the system may copy

cdef enum outcome:
    LEFT = 0
    COPIED
    SAME

cdef enum comparison:
    ALIKE
    UNLIKE
    FIRST_UNREAD
    SECOND_UNREAD

cdef tuple OUTCOMES = (None, "copied", "the same")


# One file: `name` in the folder `above`, below the folder that is copied, and the path where it is to be.
cdef struct Pair:
    const char *above
    const char *name
    char *path
    uint64_t size
    int what


cdef struct Copying:
    int source                      # the folder that is copied
    int above                       # the folder in it where the last file was, -1: none
    const char *way                 # to that
    Py_ssize_t root                 # how many bytes of each path name the folder that it is copied to
    int durability
    uint64_t largest                # larger files are left
    bint creates
    bint compares
    Folder folder                   # where the last file was put
    char *room                      # for ROOM bytes, twice


cdef uint64_t copy_some(
    int source, int target, uint64_t at, uint64_t size, char *room, int *unread, int *unwritten
) noexcept nogil:
    """Copy bytes to the same place: how many, fewer if the source ends, or one of both fails, with its errno."""
    cdef uint64_t left = size
    cdef int64_t count, done
    cdef ssize_t written
    cdef bint by_system = True
    unread[0] = unwritten[0] = 0
    while left:
        if by_system:
            count = zv_copy_between(source, target, at, min(left, <uint64_t> BYTES_AT_ONCE))
            # What it cannot, in this place or at all, may be done step by step; and that tells whose error it is.
            by_system = count > 0
        if not by_system:
            count = read_at(source, room, min(left, <uint64_t> ROOM), at)
            if count <= 0:
                unread[0] = <int> -count
                break
            done = 0
            while done < count:
                written = pwrite(target, room + done, count - done, <off_t> at + done)
                if written > 0:
                    done += written
                elif written == 0 or errno != EINTR:
                    unwritten[0] = last_error()
                    return size - left
        at += count
        left -= count
    return size - left


cdef comparison hold_same(int one, int other, uint64_t at, uint64_t size, char *room, int *code) noexcept nogil:
    """Whether so many bytes are there, and the same; `room` is for ROOM bytes of each, `code` for the errno of reading.
    """
    cdef int64_t count, found
    while size:
        count = read_at(one, room, min(size, <uint64_t> ROOM), at)
        if count < 0:
            code[0] = <int> -count
            return FIRST_UNREAD
        found = read_at(other, room + ROOM, count, at)
        if found < 0:
            code[0] = <int> -found
            return SECOND_UNREAD
        if count == 0 or found != count or memcmp(room, room + ROOM, count) != 0:
            return UNLIKE
        at += count
        size -= count
    return ALIKE


cdef int compare(Copying *copying, int source, int target, const file_stamp *first) noexcept nogil:
    cdef file_stamp there
    cdef int code
    if zv_fstat(target, &there) != 0 or there.size != first.size:
        return LEFT
    if copying.compares and hold_same(source, target, 0, first.size, copying.room, &code) != ALIKE:
        return LEFT
    return SAME


cdef int create(Copying *copying, int source, const char *path, const file_stamp *first) noexcept nogil:
    cdef const char *name = path + copying.folder.length
    cdef char temporary[LONGEST_PATH]
    cdef file_stamp last, made
    cdef int unread, unwritten
    cdef int target = begin_file(&copying.folder, name, temporary, LONGEST_PATH)
    if target < 0:
        return LEFT
    if (
        copy_some(source, target, 0, first.size, copying.room, &unread, &unwritten) != first.size
        or zv_fstat(source, &last) != 0 or memcmp(&last, first, sizeof(file_stamp)) != 0
        or zv_fstat(target, &made) != 0 or made.size != first.size
    ):
        close(target)
        unlinkat(copying.folder.descriptor, temporary, 0)
        return LEFT
    if finish_file(target, &copying.folder, temporary, name, copying.durability, True) != 0:
        return LEFT
    return COPIED


cdef int reach(Copying *copying, char *path) noexcept nogil:
    """Have the folder open that the copy belongs in, which is made if it is missing: 0 or errno."""
    cdef int code = reach_folder(&copying.folder, path)
    if code == ENOENT and copying.creates:
        code = make_folders(path, copying.root, copying.durability == DURABILITY_FSYNC)
        if code == 0:
            code = reach_folder(&copying.folder, path)
    return code


cdef int open_source(Copying *copying, Pair *pair, file_stamp *first) noexcept nogil:
    """The open file that is copied, or -1: there is none, or something else."""
    cdef int source
    if copying.above < 0 or strcmp(copying.way, pair.above) != 0:
        if copying.above >= 0:
            close(copying.above)
        copying.above = zv_open_beneath(copying.source, pair.above, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        copying.way = pair.above
    # To open what is no file could keep us waiting, or do something.
    if copying.above < 0 or not zv_is_plain_file_at(copying.above, pair.name):
        return -1
    source = zv_open_at(copying.above, pair.name, O_RDONLY | O_NOFOLLOW | O_NOCTTY)
    if source >= 0 and zv_fstat(source, first) != 0:
        close(source)
        return -1
    return source


cdef int copy_one(Copying *copying, Pair *pair) noexcept nogil:
    cdef file_stamp first
    cdef int source = open_source(copying, pair, &first), target, what = LEFT
    if source < 0:
        return LEFT
    if first.size <= copying.largest and reach(copying, pair.path) == 0:
        pair.size = first.size
        # Of anything else that is there, `create` finds that something is.
        if zv_is_file_at(copying.folder.descriptor, pair.path + copying.folder.length):
            target = zv_open_at(copying.folder.descriptor, pair.path + copying.folder.length, O_RDONLY)
            if target >= 0:
                what = compare(copying, source, target, &first)
                close(target)
        elif copying.creates:
            what = create(copying, source, pair.path, &first)
    close(source)
    return what


cdef class FileCopies:
    """Files that are copied where nothing is yet, and compared with those that are there.

    Any number of threads may `work` on them at once; when all have ended, `outcomes` says what became of each.
    """

    cdef Pair *pairs
    cdef Copying asked
    cdef int64_t begun              # how many files some thread has taken
    cdef int64_t count
    cdef list held                  # what the pairs point to

    def __cinit__(
        self, int source, list wanted, *, Py_ssize_t root, int durability, uint64_t largest, bint creates,
        bint compares,
    ) -> None:
        """
        source    an open folder, below which the files are
        wanted    (the folder above it, its name, where it is to be) of each: from `source` on, where no links are
                  followed, and absolute; `root` bytes of that name the folder that is copied to
        largest   files of more bytes are left
        creates   else nothing is copied
        compares  else files of the same size are taken for the same
        """
        cdef int64_t i
        self.count = len(wanted)
        self.pairs = <Pair *> malloc((self.count + 1) * sizeof(Pair))
        if self.pairs == NULL:
            raise MemoryError()
        # The paths are copies: they are changed while folders are made.
        self.held = [(above, name, bytearray(path + b"\0")) for above, name, path in wanted]
        for i, (above, name, path) in enumerate(self.held):
            self.pairs[i].above = PyBytes_AS_STRING(<bytes?> above)
            self.pairs[i].name = PyBytes_AS_STRING(<bytes?> name)
            self.pairs[i].path = <bytearray> path
            self.pairs[i].what = LEFT
        self.asked.source = source
        self.asked.root = root
        self.asked.durability = durability
        self.asked.largest = largest
        self.asked.creates = creates
        self.asked.compares = compares

    def __dealloc__(self) -> None:
        free(self.pairs)

    def work(self) -> bool:
        """Copy until none is left that no other thread has taken, or it has taken long: False if none is left."""
        cdef Copying copying = self.asked
        cdef int64_t begin = 0, i
        cdef uint64_t copied = 0
        copying.above = -1
        copying.folder.length = 0
        copying.room = <char *> malloc(2 * ROOM)
        if copying.room == NULL:
            raise MemoryError()
        with nogil:
            while copied < ENOUGH:
                begin = zv_fetch_add(&self.begun, <int64_t> AT_ONCE)
                if begin >= self.count:
                    break
                for i in range(begin, min(begin + AT_ONCE, self.count)):
                    self.pairs[i].what = copy_one(&copying, &self.pairs[i])
                    copied += self.pairs[i].size if self.pairs[i].what != LEFT else 0
            leave_folder(&copying.folder)
            if copying.above >= 0:
                close(copying.above)
            free(copying.room)
        return begin < self.count

    def stop(self) -> None:
        """Nobody takes any more files."""
        zv_fetch_add(&self.begun, self.count)

    def outcomes(self) -> list:
        """(What was done, size) of each: "copied" or "the same"; None of those that are left."""
        cdef int64_t i
        return [
            (OUTCOMES[self.pairs[i].what], self.pairs[i].size) if self.pairs[i].what != LEFT else None
            for i in range(self.count)
        ]


def copy_part(OpenFile file, int into, uint64_t at, uint64_t size) -> int:
    """Copy bytes of an open file to the same place of another one: how many, fewer if it ends before.

    OSError: with the file's name if it cannot be read, without one if the other cannot be written.
    """
    cdef char *room = <char *> malloc(ROOM)
    cdef uint64_t copied
    cdef int unread, unwritten
    if room == NULL:
        raise MemoryError()
    with nogil:
        copied = copy_some(file.descriptor, into, at, size, room, &unread, &unwritten)
        free(room)
    if unwritten:
        raise OSError(unwritten, os.strerror(unwritten))
    if unread:
        raise failure(unread, file.path)
    return copied


def same_part(OpenFile one, OpenFile other, uint64_t at, uint64_t size) -> bool:
    """Whether two files have the same bytes at this place; not if one of them ends before."""
    cdef char *room = <char *> malloc(2 * ROOM)
    cdef comparison found
    cdef int code = 0
    if room == NULL:
        raise MemoryError()
    with nogil:
        found = hold_same(one.descriptor, other.descriptor, at, size, room, &code)
        free(room)
    if code:
        raise failure(code, one.path if found == FIRST_UNREAD else other.path)
    return found == ALIKE


def next_data(OpenFile file, uint64_t at, uint64_t size) -> tuple[int, int]:
    """Where the next bytes of a file begin that are no hole, and where they end; both its `size` if none do."""
    cdef off_t begin, end = -1
    cdef int code = 0
    with nogil:
        begin = lseek(file.descriptor, <off_t> at, SEEK_DATA)
        if begin < 0:
            code = last_error()
        else:
            end = lseek(file.descriptor, begin, SEEK_HOLE)
    if begin < 0:
        # Where nobody knows of holes, there are none.
        return (size, size) if code == ENXIO else (at, size)
    return min(<uint64_t> begin, size), size if end <= begin else min(<uint64_t> end, size)
