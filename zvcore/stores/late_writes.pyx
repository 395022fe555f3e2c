"""Old versions of files that stay until the new ones are on the disk: what `durability="late"` is made of.

A new file is exchanged with the old one, which then lies beside it as `.NAME~TIME~SIZE.zvtmp`: TIME (in nanoseconds)
and SIZE, both hexadecimal, are the new file's. A thread syncs the new file and removes the old one. If power fails
before that, the file system may have cut the new one short; `kept_versions.py` then puts the old one back. The thread
begins a moment later, or as soon as much waits: who writes a few files has both processors, and what is replaced again
at once is synced once.
Where there is no disk, or no exchange, files are renamed.

What waits is in lists, one for each writing thread (or several, if there are many), to which a file is added without a
lock. All together must not get too long: each list has room for some files that was taken from the total at once, so
that writers do not count every file in the same place. Who finds no room left works on what waits itself, so disks that
are slower than writers are waited for in the end, and old and new versions together never take more space than that.
Nor does an old version take room that a new file needs: who finds the disk full has what waits brought to it first.
"""

from libc.errno cimport EDQUOT, EINVAL, ENOENT, ENOSPC, ENOSYS, ENOTDIR, EOPNOTSUPP, errno
from libc.stdint cimport int64_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strlen, strrchr
from posix.fcntl cimport O_RDONLY
from posix.unistd cimport close, fsync, unlink, usleep

from zvcore.stores.files cimport absent, last_error
from zvcore.system.atomics cimport (
    zv_fetch_add, zv_load, zv_load64, zv_load_in_order, zv_load_pointer, zv_push, zv_store, zv_store64,
    zv_store_in_order, zv_take_pointer,
)
from zvcore.system.files cimport (
    file_stamp, zv_begin_writing, zv_device_at, zv_fstat, zv_in_memory, zv_open,
)
from zvcore.system.fork cimport guard
from zvcore.system.mutex cimport (
    pthread_cond_init, pthread_cond_signal, pthread_cond_t, pthread_cond_wait, pthread_mutex_init, pthread_mutex_lock,
    pthread_mutex_t, pthread_mutex_unlock,
)
from zvcore.system.thread cimport zv_start_thread, zv_thread_number

import atexit
import os
import sys

from zvcore.logs import Log


cdef enum:
    LONGEST_NAME = 255
    MOST_BYTES = 1 << 30            # of new files that wait: what the kernel keeps in memory by itself, or less
    MOST_FILES = 4096               # each costs a sync of its own
    AT_ONCE = 64 << 20              # so much is brought to the disk before who waits for room looks again
    TAKEN_AT_ONCE = 256 << 10       # of the room
    LEFT_FOR = 50                   # milliseconds after the first file, unless many come
    SEEN_EVERY = 5                  # milliseconds
    LISTS = 64


cdef struct Waiting:
    void *next
    int64_t weight
    char *path                      # of the object; behind this struct, as is
    char *kept


cdef struct List:
    void *first
    int64_t room                    # that was taken from the total, and is not used yet
    int64_t apart[14]               # no two of them share lines of the caches


cdef List lists[LISTS]
# How many bytes may wait, and what any file takes of them at least: then they bound files, too.
cdef int64_t most_bytes = MOST_BYTES
cdef int64_t least_weight = MOST_BYTES // MOST_FILES
# What has been taken of `most_bytes`: the weights of what waits, and the room that lists have left.
cdef int64_t taken_room = 0
# Whether the thread must be woken to see what has come; under the lock, but for those who only ask.
cdef int asleep = 0
cdef int has_thread = 0
cdef bint thread_rests = False      # for tests: what waits goes on waiting
cdef pthread_mutex_t waking
cdef pthread_cond_t something
# Held while some of what was taken from the lists is worked on; under it, the rest of that, the oldest first.
cdef pthread_mutex_t settling
cdef Waiting *taken = NULL
# What has failed and was told to nobody yet: an errno.
cdef int failed = 0


cdef void begin_empty() noexcept nogil:
    """What a parent has written it sees to itself. The memory is lost: no more than waits at any time."""
    global taken
    cdef int i
    taken = NULL
    for i in range(LISTS):
        lists[i].first = NULL
        zv_store64(&lists[i].room, 0)
    zv_store64(&taken_room, 0)
    zv_store(&asleep, 0)
    zv_store(&has_thread, 0)
    zv_store(&failed, 0)
    pthread_cond_init(&something, NULL)
    pthread_mutex_init(&settling, NULL)


begin_empty()
guard(&waking, begin_empty)


# The device that was seen last where old versions can be kept, and where they cannot.
cdef int64_t keeping = -1
cdef int64_t renaming = -1


cdef bint can_keep(int descriptor, uint64_t device) noexcept nogil:
    if <int64_t> device == zv_load64(&renaming):
        return False
    if <int64_t> device == zv_load64(&keeping):
        return True
    if zv_in_memory(descriptor):
        zv_store64(&renaming, <int64_t> device)
        return False
    zv_store64(&keeping, <int64_t> device)
    return True


cdef void note_failed_exchange(int folder, const char *path, int code) noexcept nogil:
    cdef uint64_t device = 0
    if (code == EINVAL or code == ENOSYS or code == EOPNOTSUPP) and zv_device_at(folder, path, &device) == 0:
        zv_store64(&renaming, <int64_t> device)


cdef void name_kept(int descriptor, const char *path, char *kept, size_t room, uint64_t *size) noexcept nogil:
    cdef const char *slash = strrchr(path, b"/")
    cdef const char *name = path if slash == NULL else slash + 1
    cdef size_t above = name - path
    cdef file_stamp found
    cdef int length
    kept[0] = 0
    if zv_fstat(descriptor, &found) != 0 or found.modified % 1_000_000_000 == 0 or above >= room:
        return
    if not can_keep(descriptor, found.device):
        return
    size[0] = found.size
    length = snprintf(kept + above, room - above, b".%s~%llx~%llx.zvtmp", name, <unsigned long long> found.modified,
                      <unsigned long long> found.size)
    if length < 0 or length > LONGEST_NAME or above + <size_t> length >= room:
        kept[0] = 0
        return
    memcpy(kept, path, above)


cdef void settle_later(const char *above, const char *path, const char *kept, uint64_t size) noexcept nogil:
    cdef size_t before = strlen(above), path_length = strlen(path) + 1, kept_length = strlen(kept) + 1
    cdef Waiting *one = <Waiting *> malloc(sizeof(Waiting) + 2 * before + path_length + kept_length)
    cdef List *mine = &lists[zv_thread_number() % LISTS]
    cdef bint fits
    if one == NULL:
        return                      # it stays until somebody cleans
    one.weight = <int64_t> max(<uint64_t> least_weight, min(size, <uint64_t> 1 << 62))
    one.path = <char *> (one + 1)
    one.kept = one.path + before + path_length
    memcpy(one.path, above, before)
    memcpy(one.path + before, path, path_length)
    memcpy(one.kept, above, before)
    memcpy(one.kept + before, kept, kept_length)
    fits = take_room(mine, one.weight)
    zv_push(&mine.first, one, &one.next)
    # In this order; the thread first says that it sleeps, and then looks once more.
    if zv_load_in_order(&asleep) or not zv_load(&has_thread):
        fits = wake() and fits
    if not fits:
        make_room()


cdef bint take_room(List *mine, int64_t weight) noexcept nogil:
    """Whether there was room for that much; it is taken in any case."""
    cdef int64_t left = zv_fetch_add(&mine.room, -weight) - weight, more = TAKEN_AT_ONCE - left
    if left >= 0:
        return True
    zv_fetch_add(&mine.room, more)
    return zv_fetch_add(&taken_room, more) + more <= most_bytes


cdef bint wake() noexcept nogil:
    """Whether there is a thread, which knows now that something waits."""
    cdef bint found
    pthread_mutex_lock(&waking)
    if not has_thread:
        zv_store(&has_thread, zv_start_thread(work) == 0)
    if asleep:
        zv_store(&asleep, 0)
        pthread_cond_signal(&something)
    found = has_thread
    pthread_mutex_unlock(&waking)
    return found


cdef bint something_waits() noexcept nogil:
    cdef int i
    for i in range(LISTS):
        if zv_load_pointer(&lists[i].first) != NULL:
            return True
    return False


cdef Waiting *take_all() noexcept nogil:
    cdef Waiting *all_of_them = NULL
    cdef Waiting *one
    cdef Waiting *behind
    cdef int i
    for i in range(LISTS):
        one = <Waiting *> zv_take_pointer(&lists[i].first)
        # What came last was the first of its list.
        while one != NULL:
            behind = <Waiting *> one.next
            one.next = all_of_them
            all_of_them = one
            one = behind
    return all_of_them


cdef void settle_all(bint in_thread=False) noexcept nogil:
    """Work on everything that waits now. Of what fails the old version stays.

    in_thread  whether it is the thread that does so, which may have to rest from now on
    """
    # What others have taken may be of before; if they take more meanwhile, that is all that waits.
    while settle_some(False, in_thread):
        pass
    settle_some(True, in_thread)
    while settle_some(False, in_thread):
        pass


cdef void make_room() noexcept nogil:
    """For writers that found none: of those one works for all, until there is some."""
    cdef bint wanted = True
    if not zv_load(&has_thread):
        settle_all()
    while wanted:
        pthread_mutex_lock(&settling)
        wanted = zv_load64(&taken_room) > most_bytes and settle_portion(True)
        pthread_mutex_unlock(&settling)


cdef bint give_space() noexcept nogil:
    """For a writer that found no space on the disk: whether old versions have gone since."""
    if zv_load64(&taken_room) == 0:
        return False
    settle_all()
    return True


cdef bint settle_some(bint take, bint in_thread=False) noexcept nogil:
    cdef bint found
    pthread_mutex_lock(&settling)
    # What a writer took to make room, and left, is not for a thread that rests either.
    found = not (in_thread and thread_rests) and settle_portion(take)
    pthread_mutex_unlock(&settling)
    return found


cdef bint settle_portion(bint take) noexcept nogil:
    """Work on the oldest of what was taken, or else (`take`) of all that waits; False if there is nothing."""
    global taken
    cdef Waiting *these
    cdef Waiting *last
    cdef int64_t weight
    cdef int code
    if taken == NULL and take:
        taken = take_all()
    if taken == NULL:
        return False
    these = last = taken
    weight = these.weight
    while last.next != NULL and weight + (<Waiting *> last.next).weight <= AT_ONCE:
        last = <Waiting *> last.next
        weight += last.weight
    taken = <Waiting *> last.next
    last.next = NULL
    code = settle_these(these)
    if code != 0:
        zv_store(&failed, code)
    return True


cdef int settle_these(Waiting *these) noexcept nogil:
    cdef Waiting *one = these
    cdef int64_t weight = 0
    cdef int code, failure = 0, fd
    # The disk begins with all of them, so that the first sync has most of the work done for the others.
    while one != NULL and these.next != NULL:
        fd = zv_open(one.path, O_RDONLY)
        if fd >= 0:
            zv_begin_writing(fd)
            close(fd)
        one = <Waiting *> one.next
    one = these
    while one != NULL:
        code = sync_file(one.path)
        if code != 0:
            failure = code
            one.kept = NULL
        one = <Waiting *> one.next
    # All at once: whoever removes the folder meanwhile is least disturbed.
    while these != NULL:
        one = these
        these = <Waiting *> one.next
        weight += one.weight
        if one.kept != NULL and unlink(one.kept) != 0 and errno != ENOENT and errno != ENOTDIR:
            failure = last_error()
        free(one)
    zv_fetch_add(&taken_room, -weight)
    return failure


cdef int sync_file(const char *path) noexcept nogil:
    # Whatever has the name by now: if it is yet another version, the old one of that is beside it, too.
    cdef int fd = zv_open(path, O_RDONLY), code
    cdef file_stamp found
    if fd < 0:
        code = last_error()
        return 0 if absent(code) else code
    code = zv_fstat(fd, &found)
    if code == 0:
        code = last_error() if fsync(fd) != 0 else 0
    elif absent(code):
        code = 0                    # a pipe that others have put here: the object is gone
    close(fd)
    return code


cdef void *work(void *unused) noexcept nogil:
    """The thread, which knows nothing of Python and lives as long as the process."""
    while True:
        pthread_mutex_lock(&waking)
        while True:
            zv_store_in_order(&asleep, not thread_rests)
            if not thread_rests and something_waits():
                break
            pthread_cond_wait(&something, &waking)
        zv_store(&asleep, 0)
        pthread_mutex_unlock(&waking)
        leave_in_peace()
        settle_all(True)


cdef void leave_in_peace() noexcept nogil:
    """Let whoever writes a few files do so while no disk works for them, and replace them again before one does."""
    cdef int passed = 0
    while passed < LEFT_FOR and zv_load64(&taken_room) < most_bytes // 2:
        usleep(SEEN_EVERY * 1000)
        passed += SEEN_EVERY


# --- for Python

_log = Log("stores")
_ready = False


def settle() -> None:
    """Return when all that this process has replaced until now is on the disk, and no old version is left."""
    with nogil:
        settle_all()
    cdef int code = zv_load(&failed)
    if code != 0:
        zv_store(&failed, 0)
        raise OSError(code, os.strerror(code))


def gives_space(int code) -> bool:
    """After an error of the system: whether the disk was full and old versions have gone since, so that what failed is
    worth another try.
    """
    cdef bint given
    if code != ENOSPC and code != EDQUOT:
        return False
    with nogil:
        given = give_space()
    return given


def _settle_quietly() -> None:
    try:
        settle()
    except OSError as error:
        _log.warning("a new file could not be brought to the disk; the old version stays beside it: %s", error)


def start() -> None:
    """To be called before files are replaced: what still waits when the program ends is done then."""
    global _ready
    if _ready:
        return
    _ready = True
    atexit.register(_settle_quietly)
    # Processes of `multiprocessing` leave without asking `atexit`.
    processes = sys.modules.get("multiprocessing.util")
    if processes is not None:
        processes.Finalize(None, _settle_quietly, exitpriority=0)


def in_memory(folder: bytes) -> bool:
    """Whether what lies in this folder is on no disk, so that nothing waits for one."""
    cdef int descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return zv_in_memory(descriptor)
    finally:
        os.close(descriptor)


def bound(most: int | None = None) -> None:
    """For tests: how many bytes of new files may wait."""
    global most_bytes, least_weight
    most_bytes = MOST_BYTES if most is None else most
    least_weight = most_bytes // MOST_FILES


def rest(bint wanted) -> None:
    """For tests: the thread takes nothing of what will wait, or does so again."""
    global thread_rests
    with nogil:
        pthread_mutex_lock(&waking)
        pthread_mutex_lock(&settling)
        thread_rests = wanted
        pthread_mutex_unlock(&settling)
        zv_store(&asleep, 0)
        pthread_cond_signal(&something)
        pthread_mutex_unlock(&waking)


def _after_fork() -> None:
    global _ready
    _ready = False


os.register_at_fork(after_in_child=_after_fork)
