from libc.stdint cimport int64_t, uint8_t

from zvcore.engine.failures cimport Failure
from zvcore.engine.form cimport Form
from zvcore.engine.prepared cimport Chains, Prepared


cdef class Chunks:
    cdef readonly Prepared prepared
    cdef readonly object positions      # int64[n, ndim], or None
    cdef readonly object known_as       # the positions as errors name them
    cdef readonly object sources        # Sources, or None: no stored bytes are needed
    cdef readonly object rows           # for a selection of points: which of its chunks these are; None: all
    cdef readonly Py_ssize_t count
    cdef Form form
    cdef object _chain
    cdef const int64_t *places          # the positions, chunk after chunk; NULL where there are none
    cdef const uint8_t *chain           # NULL: the first
    cdef bint decode_two                # whether one of the chains that they have decodes two in less time
    cdef int first_chain                # the number of the array's first chain among those that the threads run

    cdef int set_positions(self, positions) except -1
    cdef int set_chain(self, chain) except -1
    cdef bint any_decodes_two(self)
    # The same chunks for threads that run the chains of other arrays too, which come before those of this array.
    cdef Chunks behind(self, int chains)
    # (key, offset, length) of where a chunk is stored, each None if it is not known or is all of it.
    cdef tuple whereabouts(self, Py_ssize_t chunk)
    # The error for a failed batch that ran these chains, with object, chunk and byte range filled in.
    cdef object error(self, const Failure *failure, Chains chains)


cdef inline const int64_t *position_of(Chunks chunks, int64_t i) noexcept nogil:
    return chunks.places + i * chunks.form.ndim


cdef inline int chain_of(Chunks chunks, int64_t i) noexcept nogil:
    return chunks.first_chain + (chunks.chain[i] if chunks.chain != NULL else 0)
