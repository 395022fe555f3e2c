from zvcore.codecs.failures cimport CodecFailure
from zvcore.codecs.running cimport Stages


cdef class CodecChain:
    cdef readonly tuple codecs          # in the order of encoding
    cdef readonly bint native           # whether every codec has a C table
    cdef tuple _tables                  # what `stages` points into: a `Table` or None for each codec
    cdef Stages stages

    # The exception that a failure of one of these codecs stands for.
    cdef object error(self, const CodecFailure *failure)
