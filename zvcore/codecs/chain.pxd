from zvcore.codecs.abi cimport zv_codec


cdef struct Stage:
    const zv_codec *table       # NULL: this codec works through Python
    void *codec                 # the Python object, borrowed from the chain
    const char *name


cdef struct Stages:
    Stage *stage                # in the order of encoding
    int count
    void **idle                 # worker sets that no thread uses now
    int idle_count, idle_capacity


# A set of workers, one per stage, for the use of one thread; NULL when memory is short. Give it back.
cdef void **take_workers(Stages *stages) noexcept nogil
cdef void give_workers(Stages *stages, void **workers) noexcept nogil


cdef class CodecChain:
    cdef readonly tuple codecs          # in the order of encoding
    cdef readonly bint native           # whether every codec has a C table
    cdef tuple _kept                    # capsules and names whose memory `stages` points into
    cdef Stages stages
