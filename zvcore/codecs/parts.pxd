"""Decoding one large stream on several threads, where its codec can decode it in parts."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from zvcore.codecs.abi cimport ZV_OK, zv_codec
from zvcore.codecs.workers cimport Workers, give_worker, take_worker
from zvcore.system.atomics cimport zv_compare_and_set64, zv_load, zv_load64, zv_store

cdef extern from *:
    """
    #include <stddef.h>
    /* Tables of earlier versions end before these fields. */
    #define ZV_HAS_PARTS(table) \\
        ((table)->struct_size >= offsetof(zv_codec, decode_part) + sizeof(void (*)(void)) && \\
         (table)->part_size != NULL && (table)->decode_part != NULL)
    """
    bint ZV_HAS_PARTS(const zv_codec *table) noexcept nogil


cdef enum:
    # What is smaller is decoded before another thread has woken up.
    WORTH_SHARING = 1 << 20
    CLAIMS = 2


# How other threads take part in the work of one. run(context, number) is called in this thread with number 0, and with
# 1, 2, ... in as many others as have nothing else to do, at most `count`; it is over when all have returned.
ctypedef void (*Together)(void (*run)(void *, int) noexcept nogil, void *context, int count) noexcept nogil


cdef struct Helpers:
    Together together
    int count                   # 0: there are none


cdef struct Parts:
    const zv_codec *table
    Workers *workers
    void *worker                # of the thread that has asked the others
    const uint8_t *src
    uint64_t n
    uint8_t *into
    uint64_t size
    uint64_t begin, end         # of the bytes that are wanted; the parts that hold them are decoded
    uint64_t part               # bytes of each but the last
    int64_t count               # the one behind the last that is wanted
    int threads
    int64_t next                # taken atomically
    int failed


cdef inline int64_t claim_parts(Parts *parts, int64_t *end) noexcept nogil:
    """The next parts for a thread, up to `end`. The fewer are left the fewer they are, so that all end together."""
    cdef int64_t first = zv_load64(&parts.next)
    while first < parts.count:
        end[0] = first + max(<int64_t> 1, (parts.count - first) // (CLAIMS * parts.threads))
        if zv_compare_and_set64(&parts.next, &first, end[0]):
            return first
    return -1


cdef inline void decode_some_parts(void *context, int number) noexcept nogil:
    """What each thread does."""
    cdef Parts *parts = <Parts *> context
    cdef const zv_codec *table = parts.table
    cdef void *worker = parts.worker
    cdef int64_t first, end = 0
    cdef uint64_t begin, size
    # Without a worker the others do its share.
    if number and take_worker(table, parts.workers, &worker) != ZV_OK:
        return
    while not zv_load(&parts.failed):
        first = claim_parts(parts, &end)
        if first < 0:
            break
        begin = first * parts.part
        size = min((end - first) * parts.part, parts.size - begin)
        if table.decode_part(table.cfg, worker, parts.src, parts.n, begin, parts.into + begin, size) != ZV_OK:
            zv_store(&parts.failed, 1)
    if number:
        give_worker(table, parts.workers, worker)


# Whether helpers and this thread have decoded what is wanted of `n` bytes at `src`, all of which decode to exactly
# `size` bytes; `parts` has all fields up to `end`. If not, the codec has to be asked for the whole, and says what is
# wrong.
cdef inline bint decode_parts(Parts *parts, const Helpers *helpers) noexcept nogil:
    cdef bint some = parts.end - parts.begin <= parts.size // 4 * 3
    cdef bint shared = helpers.count != 0 and parts.end - parts.begin >= WORTH_SHARING
    if not (some or shared) or parts.begin >= parts.end or not ZV_HAS_PARTS(parts.table):
        return False
    parts.part = parts.table.part_size(parts.table.cfg, parts.src, parts.n, parts.size)
    if parts.part == 0 or parts.part >= parts.size:
        return False
    parts.next = parts.begin // parts.part
    parts.count = (parts.end - 1) // parts.part + 1
    if not shared and (parts.count - parts.next) * parts.part > parts.size // 4 * 3:
        return False                # all at once takes less time
    parts.threads = <int> min(<int64_t> helpers.count, parts.count - parts.next - 1) + 1 if shared else 1
    parts.failed = 0
    if parts.threads == 1:
        parts.begin = parts.next * parts.part
        parts.end = min(parts.count * parts.part, parts.size)
        return parts.table.decode_part(parts.table.cfg, parts.worker, parts.src, parts.n, parts.begin,
                                       parts.into + parts.begin, parts.end - parts.begin) == ZV_OK
    helpers.together(decode_some_parts, parts, parts.threads - 1)
    return not parts.failed
