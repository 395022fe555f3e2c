"""The workers of a codec: what its C library can reuse in the next call. Those that no thread uses wait here."""

from zvcore.codecs.abi cimport ZV_NOMEM, ZV_OK, zv_codec
from zvcore.system.atomics cimport zv_put_pointer, zv_take_pointer


cdef enum:
    # As many as there are scratch memories of threads. Each place is taken and filled atomically, so nothing has to be
    # done when the process forks.
    KEPT_WORKERS = 64


cdef struct Workers:
    void *idle[KEPT_WORKERS]


# A worker for this thread alone, in `*worker`: NULL if the codec has none. ZV_OK or ZV_NOMEM.
cdef inline int take_worker(const zv_codec *table, Workers *workers, void **worker) noexcept nogil:
    cdef int i
    worker[0] = NULL
    if table.worker_new == NULL:
        return ZV_OK
    for i in range(KEPT_WORKERS):
        if workers.idle[i] != NULL:
            worker[0] = zv_take_pointer(&workers.idle[i])
            if worker[0] != NULL:
                return ZV_OK
    worker[0] = table.worker_new(table.cfg)
    return ZV_OK if worker[0] != NULL else ZV_NOMEM


cdef inline void give_worker(const zv_codec *table, Workers *workers, void *worker) noexcept nogil:
    cdef int i
    if worker == NULL:
        return
    for i in range(KEPT_WORKERS):
        if workers.idle[i] == NULL and zv_put_pointer(&workers.idle[i], worker):
            return
    table.worker_free(worker)


# When the table goes.
cdef inline void free_workers(const zv_codec *table, Workers *workers) noexcept nogil:
    cdef int i
    for i in range(KEPT_WORKERS):
        if workers.idle[i] != NULL:
            table.worker_free(workers.idle[i])
            workers.idle[i] = NULL
