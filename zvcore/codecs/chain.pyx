"""A chain of bytes codecs, prepared for the engine's threads."""

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdlib cimport calloc, free, realloc

from zvcore.codecs.abi cimport ZV_CODEC_CAPSULE, zv_codec

import os

from zvcore.errors import UnsupportedError


cdef extern from *:
    """
    #include <pthread.h>
    /* One for all chains: it is taken twice per thread and batch, and a fork must find it free. */
    static pthread_mutex_t zv_chains_lock = PTHREAD_MUTEX_INITIALIZER;
    """
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_lock(pthread_mutex_t *) nogil
    int pthread_mutex_unlock(pthread_mutex_t *) nogil
    pthread_mutex_t zv_chains_lock


def _lock():
    pthread_mutex_lock(&zv_chains_lock)


def _unlock():
    pthread_mutex_unlock(&zv_chains_lock)


os.register_at_fork(before=_lock, after_in_parent=_unlock, after_in_child=_unlock)


cdef void free_workers(Stages *stages, void **workers) noexcept nogil:
    cdef int i
    if workers == NULL:
        return
    for i in range(stages.count):
        if workers[i] != NULL:
            stages.stage[i].table.worker_free(workers[i])
    free(workers)


cdef void **take_workers(Stages *stages) noexcept nogil:
    cdef void **workers = NULL
    cdef int i
    cdef const zv_codec *table
    pthread_mutex_lock(&zv_chains_lock)
    if stages.idle_count > 0:
        stages.idle_count -= 1
        workers = <void **> stages.idle[stages.idle_count]
    pthread_mutex_unlock(&zv_chains_lock)
    if workers != NULL:
        return workers
    workers = <void **> calloc(max(stages.count, 1), sizeof(void *))
    if workers == NULL:
        return NULL
    for i in range(stages.count):
        table = stages.stage[i].table
        if table != NULL and table.worker_new != NULL:
            workers[i] = table.worker_new(table.cfg)
            if workers[i] == NULL:
                free_workers(stages, workers)
                return NULL
    return workers


cdef void give_workers(Stages *stages, void **workers) noexcept nogil:
    cdef void **grown
    cdef int capacity
    if workers == NULL:
        return
    pthread_mutex_lock(&zv_chains_lock)
    if stages.idle_count == stages.idle_capacity:
        capacity = max(4, 2 * stages.idle_capacity)
        grown = <void **> realloc(stages.idle, capacity * sizeof(void *))
        if grown == NULL:
            pthread_mutex_unlock(&zv_chains_lock)
            free_workers(stages, workers)
            return
        stages.idle = grown
        stages.idle_capacity = capacity
    stages.idle[stages.idle_count] = <void *> workers
    stages.idle_count += 1
    pthread_mutex_unlock(&zv_chains_lock)


# Freeing the workers needs the codecs' tables: the garbage collector must not take the capsules before.
@cython.no_gc_clear
cdef class CodecChain:
    """Bytes codecs in the order in which a chunk is encoded; decoding goes backwards.

    Codecs that change nothing are left out. The chain is immutable, may be used by many threads at once, and keeps
    the workers of its codecs (contexts of the C libraries) from one batch to the next.
    """

    def __cinit__(self, codecs=()):
        self.codecs = tuple([codec for codec in codecs if not getattr(codec, "identity", False)])
        cdef Py_ssize_t count = len(self.codecs)
        cdef Py_ssize_t i
        self.native = True
        self.stages.stage = <Stage *> calloc(max(count, 1), sizeof(Stage))
        if self.stages.stage == NULL:
            raise MemoryError
        self.stages.count = count
        kept = []
        for i in range(count):
            codec = self.codecs[i]
            if getattr(codec, "kind", "bytes") != "bytes":
                raise UnsupportedError(f"codec {codec.name!r} works on arrays, not on bytes")
            name = codec.name.encode()
            kept.append(name)
            self.stages.stage[i].name = name
            self.stages.stage[i].codec = <void *> codec
            offer = getattr(codec, "__zv_codec__", None)
            capsule = None if offer is None else offer()
            if capsule is None:
                self.native = False
                continue
            kept.append(capsule)
            self.stages.stage[i].table = table_of(capsule, codec.name)
        self._kept = tuple(kept)

    def __dealloc__(self):
        cdef int i
        for i in range(self.stages.idle_count):
            free_workers(&self.stages, <void **> self.stages.idle[i])
        free(self.stages.idle)
        free(self.stages.stage)

    def __len__(self):
        return self.stages.count

    def __repr__(self):
        return f"CodecChain({list(self.codecs)!r})"

    def __eq__(self, other):
        return isinstance(other, CodecChain) and self.codecs == (<CodecChain> other).codecs

    def __hash__(self):
        return hash(self.codecs)

    def __reduce__(self):
        return (CodecChain, (self.codecs,))


cdef const zv_codec *table_of(object capsule, str name) except NULL:
    """The table in a capsule, after checking that it is one that this version can use."""
    if not PyCapsule_IsValid(capsule, ZV_CODEC_CAPSULE):
        raise TypeError(f"codec {name!r}: __zv_codec__() must return a capsule named {ZV_CODEC_CAPSULE.decode()!r}")
    cdef const zv_codec *table = <const zv_codec *> PyCapsule_GetPointer(capsule, ZV_CODEC_CAPSULE)
    if table.struct_size < sizeof(zv_codec):
        raise TypeError(
            f"codec {name!r}: the C table has {table.struct_size} bytes, this version needs {sizeof(zv_codec)}"
        )
    if table.bound == NULL or table.encode == NULL or table.decode == NULL:
        raise TypeError(f"codec {name!r}: the C table lacks bound, encode or decode")
    if (table.worker_new == NULL) != (table.worker_free == NULL):
        raise TypeError(f"codec {name!r}: the C table has one of worker_new and worker_free without the other")
    return table
