from libc.stdint cimport int64_t, uint8_t, uint64_t

from zvcore.codecs.running cimport Bytes
from zvcore.engine.batches cimport Task
from zvcore.engine.buffers cimport Buffers
from zvcore.engine.chunks cimport Chunks
from zvcore.engine.failures cimport Failure
from zvcore.engine.load cimport Stored
from zvcore.engine.moving cimport Items, Joining, Span
from zvcore.engine.slots cimport Slot
from zvcore.engine.work cimport Work


cdef class Receiver:
    cdef Chunks chunks
    cdef uint64_t most                  # how large a stored chunk may be
    cdef uint64_t most_of_two           # and each of two that are in memory at the same time
    cdef Joining joined                 # how many neighbours it may take at once

    # Where the bytes of a chunk can be read to as they are, if there are `room` of them; NULL: nowhere.
    cdef uint8_t *place_of(self, int64_t chunk, uint64_t *room) noexcept nogil
    # Whether no more of a chunk need be read than `span` of the `size` bytes that it has.
    cdef bint in_part(self, int64_t chunk, uint64_t *size, Span *span) noexcept nogil
    # Whether it takes chunks in less time if it is told of the next two beforehand, by `expect`.
    cdef bint in_twos(self) noexcept nogil
    cdef void expect(self, Slot *slot, const int64_t *two, const Bytes *stored) noexcept nogil
    # Takes the bytes of a chunk; NULL: it is absent. 0, or -1 with slot.failure.
    cdef int receive(self, Slot *slot, int64_t chunk, Bytes stored) noexcept nogil
    # How many of these chunks it takes at once, from the first on.
    cdef int64_t at_once(self, const int64_t *order, int64_t count) noexcept nogil
    # Takes the bytes of several, which are together in memory or are loaded one after the other.
    cdef int receive_several(self, Slot *slot, const int64_t *order, int64_t count, const Bytes *together,
                             Stored apart) noexcept nogil


cdef class IntoItems(Receiver):
    cdef Items items

    cdef bint follows(self, int64_t first, int64_t chunk, int64_t steps) noexcept nogil


cdef class IntoBuffers(Receiver):
    cdef Buffers results
    cdef uint64_t ceiling
    cdef const uint64_t *expected       # NULL where sizes are not known
    cdef object _expected


cdef class Faults:
    # One for each chunk, NULL where nothing is wrong. Each is set by the one thread that reads the chunk.
    cdef Failure **of_chunk
    cdef int64_t count

    # Whether a failure is of one chunk alone, which is now noted.
    cdef bint take(self, const Failure *failure) noexcept nogil


cdef class Reading(Task):
    cdef Stored stored
    cdef Receiver receiver
    cdef Faults faults                  # None: the first failure ends the batch

    cdef int read_one(self, Slot *slot, int64_t chunk) noexcept nogil
    # The chunk of a run that has no others; -1 if it has.
    cdef int64_t only_chunk(self, int64_t run) noexcept nogil
    # The chunks of a run, which are objects of their own, or lie in one span of an object.
    cdef int read_apart(self, Slot *slot, int64_t run) noexcept nogil
    cdef int read_several(self, Slot *slot, int64_t run) noexcept nogil
    cdef Bytes in_span(self, Bytes together, uint64_t base, int64_t chunk) noexcept nogil
    # The chunks of a span that its object has only a part of.
    cdef int read_each(self, Slot *slot, int64_t run) noexcept nogil
    # Whether the batch goes on after a failure.
    cdef bint noted(self, Slot *slot) noexcept nogil


# Loads these chunks and gives them to a receiver, on so many threads.
cdef bint read_into(Receiver receiver, Chunks chunks, int threads, Work work, Faults faults=*) except -1


# How many threads read these chunks, of which there is at least one.
cdef int threads_to_read(Receiver receiver, Chunks chunks, Work work) except -1
# `parts_wanted` of a receiver.
cdef object parts_of(Receiver receiver, Chunks chunks)
