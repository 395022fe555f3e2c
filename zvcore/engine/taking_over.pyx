"""Stored chunks that another array takes over as they are: a thread reads one and hands it on while it is in the cache.

Nothing is kept of a chunk but what a sink keeps that cannot write it yet.
"""

cimport cython
from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint64_t

from zvcore.codecs.running cimport Bytes
from zvcore.engine.carrying cimport Carrying
from zvcore.engine.chunks cimport Chunks
from zvcore.engine.decoding cimport stored_limit
from zvcore.engine.failures cimport Failure
from zvcore.engine.load cimport stored_of
from zvcore.engine.prepared cimport Chains
from zvcore.engine.sinks cimport Sink
from zvcore.engine.slots cimport Slot, fail_python
from zvcore.engine.work cimport Work
from zvcore.system.atomics cimport zv_fetch_add
from zvcore.system.interpreter cimport zv_need_python


class UnlikeChunkError(Exception):
    """A stored chunk is none that could be taken over as it is."""


@cython.final
@cython.no_gc
cdef class TakingOver(Carrying):
    cdef object fits
    cdef bint asked                 # whether there is such a function
    cdef uint64_t size
    cdef uint64_t most              # the largest stored chunk that is read
    cdef int64_t present            # how many chunks are stored; added to atomically when a thread leaves

    cdef void leave(self, Slot *slot) noexcept nogil:
        zv_fetch_add(&self.present, slot.handed_on)
        Carrying.leave(self, slot)

    cdef int run(self, Slot *slot, int64_t item) noexcept nogil:
        cdef int64_t chunk = self.sink.take(slot, item)
        cdef int status = self.take_over(slot, chunk)
        self.stored.done_with(slot, chunk)
        return status

    cdef int take_over(self, Slot *slot, int64_t chunk) noexcept nogil:
        cdef Bytes found, nothing
        if self.stored.load(slot, chunk, self.most, NULL, 0, &found) != 0:
            return -1
        if found.data == NULL:
            return self.of_target(slot, self.sink.leave_out(slot, chunk))
        if self.asked:
            zv_need_python()
            if self.look_at(slot, found) != 0:
                return -1
        elif found.size != self.size:
            zv_need_python()
            return unlike(slot)
        slot.bytes_in += found.size
        slot.handed_on += 1
        nothing.data = NULL
        nothing.size = 0
        return self.of_target(slot, self.sink.put(slot, chunk, nothing, found))

    cdef int look_at(self, Slot *slot, Bytes found) noexcept with gil:
        try:
            if self.fits(PyMemoryView_FromMemory(<char *> found.data, found.size, PyBUF_READ)):
                return 0
            return fail_python(slot, UnlikeChunkError())
        except BaseException as error:
            return fail_python(slot, error)


cdef int unlike(Slot *slot) noexcept with gil:
    return fail_python(slot, UnlikeChunkError())


def take_over_chunks(Chunks source not None, Chunks target not None, Sink sink not None, fits, Work work not None,
                     decoded=None):
    """Hand each chunk of the source to the sink of the target's: (stored bytes, how many chunks are stored).

    `fits` is how many bytes each of them has, or a function that is given the bytes of each and says whether they are
    such that the target can have them. UnlikeChunkError if one is not. `decoded` is how many bytes of values a chunk
    has, None where no one knows: nobody decodes what is taken over, and yet nothing is read that no decoder would
    believe.
    """
    cdef TakingOver task = TakingOver.__new__(TakingOver)
    cdef Failure failure
    if source.count != target.count:
        raise ValueError(f"{source.count} chunks for {target.count}")
    if source.count == 0:
        return 0, 0
    sink.check(target.count, target.count)
    task.asked = callable(fits)
    task.fits = fits if task.asked else None
    task.size = 0 if task.asked else fits
    task.most = stored_limit(<uint64_t> 1 << 60 if decoded is None else decoded)
    task.source = source
    task.target = target
    task.stored = stored_of(source, 0)
    task.sink = sink
    task.chains = Chains(())
    if not task.perform(source.count, work.threads_for(0), work.progress, &failure):
        raise task.error(&failure)
    return task.bytes_in, task.present
