"""Old versions of files that stay until the new ones are on the disk: what `durability="late"` is made of.

A new file is exchanged with the old one, which then lies beside it as `.NAME~TIME~SIZE.zvtmp`: TIME (in nanoseconds)
and SIZE, both hexadecimal, are the new file's. A thread syncs the new file and removes the old one. If power fails
before that, the file system may have cut the new one short; `kept_versions.py` then puts the old one back.

What waits is a list. A writer that finds too much in it works on it itself, so disks that are slower than writers are
waited for in the end, and old and new versions together never take more room than that.
"""

from libc.errno cimport ENOENT, ENOTDIR, errno
from libc.stdint cimport uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strlen, strrchr
from posix.fcntl cimport O_RDONLY
from posix.unistd cimport close, fsync, unlink

from zvcore.stores.files cimport last_error
from zvcore.system.files cimport file_stamp, zv_begin_writing, zv_fstat, zv_open
from zvcore.system.fork cimport guard
from zvcore.system.mutex cimport (
    pthread_cond_init, pthread_cond_signal, pthread_cond_t, pthread_cond_wait, pthread_mutex_init, pthread_mutex_lock,
    pthread_mutex_t, pthread_mutex_unlock,
)

import atexit
import os
import threading

from zvcore.logs import Log


cdef enum:
    LONGEST_NAME = 255
    MOST_BYTES = 64 << 20           # of new files that wait
    MOST_FILES = 4096


cdef struct Waiting:
    Waiting *next
    char *path                      # of the object; behind this struct, as is
    char *kept


# All under the lock.
cdef Waiting *first = NULL
cdef Waiting *last = NULL
cdef uint64_t waiting_bytes = 0
cdef uint64_t waiting_files = 0
cdef pthread_mutex_t queue
cdef pthread_cond_t something
# Held while what was taken from the list is worked on: who waits for all of it waits for that, too.
cdef pthread_mutex_t settling


cdef void begin_empty() noexcept nogil:
    """What a parent has written it sees to itself. The memory is lost: no more than waits at any time."""
    global first, last, waiting_bytes, waiting_files
    first = last = NULL
    waiting_bytes = waiting_files = 0
    pthread_cond_init(&something, NULL)
    pthread_mutex_init(&settling, NULL)


begin_empty()
guard(&queue, begin_empty)


cdef void name_kept(int descriptor, const char *path, char *kept, size_t room, uint64_t *size) noexcept nogil:
    cdef const char *slash = strrchr(path, b"/")
    cdef const char *name = path if slash == NULL else slash + 1
    cdef size_t above = name - path
    cdef file_stamp found
    cdef int length
    kept[0] = 0
    if zv_fstat(descriptor, &found) != 0 or found.modified % 1_000_000_000 == 0 or above >= room:
        return
    size[0] = found.size
    length = snprintf(kept + above, room - above, b".%s~%llx~%llx.zvtmp", name, <unsigned long long> found.modified,
                      <unsigned long long> found.size)
    if length < 0 or length > LONGEST_NAME or above + <size_t> length >= room:
        kept[0] = 0
        return
    memcpy(kept, path, above)


cdef void settle_later(const char *above, const char *path, const char *kept, uint64_t size) noexcept nogil:
    global first, last, waiting_bytes, waiting_files
    cdef size_t before = strlen(above), path_length = strlen(path) + 1, kept_length = strlen(kept) + 1
    cdef Waiting *one = <Waiting *> malloc(sizeof(Waiting) + 2 * before + path_length + kept_length)
    cdef bint much
    if one == NULL:
        return                      # it stays until somebody cleans
    one.next = NULL
    one.path = <char *> (one + 1)
    one.kept = one.path + before + path_length
    memcpy(one.path, above, before)
    memcpy(one.path + before, path, path_length)
    memcpy(one.kept, above, before)
    memcpy(one.kept + before, kept, kept_length)
    pthread_mutex_lock(&queue)
    if last == NULL:
        first = one
    else:
        last.next = one
    last = one
    waiting_bytes += size
    waiting_files += 1
    much = waiting_bytes > MOST_BYTES or waiting_files > MOST_FILES
    pthread_cond_signal(&something)
    pthread_mutex_unlock(&queue)
    if much:
        settle_all()                # a failure leaves the old version, and is told to nobody, as in the thread


cdef Waiting *take_all() noexcept nogil:
    global first, last, waiting_bytes, waiting_files
    cdef Waiting *taken
    pthread_mutex_lock(&queue)
    taken = first
    first = last = NULL
    waiting_bytes = waiting_files = 0
    pthread_mutex_unlock(&queue)
    return taken


cdef int settle_all() noexcept nogil:
    """Work on everything that waits now: 0, or the errno of what failed, whose old version stays."""
    cdef int code
    pthread_mutex_lock(&settling)
    code = settle_these(take_all())
    pthread_mutex_unlock(&settling)
    return code


cdef int settle_these(Waiting *these) noexcept nogil:
    cdef Waiting *one = these
    cdef int code = 0, failed = 0, fd
    # The disk begins with all of them, so that the first sync has most of the work done for the others.
    while one != NULL and these.next != NULL:
        fd = zv_open(one.path, O_RDONLY)
        if fd >= 0:
            zv_begin_writing(fd)
            close(fd)
        one = one.next
    while these != NULL:
        code = settle_one(these.path, these.kept)
        failed = failed if failed != 0 else code
        one = these
        these = these.next
        free(one)
    return failed


cdef int settle_one(const char *path, const char *kept) noexcept nogil:
    # Whatever has the name by now: if it is yet another version, the old one of that is beside it, too.
    cdef int fd = zv_open(path, O_RDONLY), code
    if fd < 0:
        code = last_error()
        if code != ENOENT and code != ENOTDIR:
            return code
    else:
        code = last_error() if fsync(fd) != 0 else 0
        close(fd)
        if code != 0:
            return code
    return 0 if unlink(kept) == 0 or errno == ENOENT or errno == ENOTDIR else last_error()


# --- the thread

_log = Log("stores")
_starting = threading.Lock()
_thread = None


def settle() -> None:
    """Return when all that this process has replaced until now is on the disk, and no old version is left."""
    cdef int code
    with nogil:
        code = settle_all()
    if code != 0:
        raise OSError(code, os.strerror(code))


def _work() -> None:
    while True:
        with nogil:
            wait_for_some()
        _settle_quietly()


cdef void wait_for_some() noexcept nogil:
    pthread_mutex_lock(&queue)
    while first == NULL:
        pthread_cond_wait(&something, &queue)
    pthread_mutex_unlock(&queue)


def _settle_quietly() -> None:
    try:
        settle()
    except OSError as error:
        _log.warning("a new file could not be brought to the disk; the old version stays beside it: %s", error)


def start() -> None:
    """Have a thread in this process that works on what waits; what is left at the end of the program is done then."""
    global _thread
    if _thread is not None:
        return
    with _starting:
        if _thread is None:
            atexit.register(_settle_quietly)
            thread = threading.Thread(target=_work, name="zvcore-settling", daemon=True)
            try:
                thread.start()
            except RuntimeError:        # no thread begins while the program ends, or where there are too many
                return
            _thread = thread


def _after_fork() -> None:
    global _thread, _starting
    _thread = None
    _starting = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
