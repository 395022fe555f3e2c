from zvcore.codecs.running cimport Stages
from zvcore.engine.form cimport Form


cdef class Chains:
    cdef readonly tuple chains          # of CodecChain
    cdef Stages **stages
    cdef int count


cdef class Prepared:
    cdef readonly Form form             # None: chunks are byte strings without items
    cdef readonly Chains chains
    cdef readonly bytes root            # the folder of a local store; None: bytes come and go through Python
    cdef readonly int durability        # how files replace older ones: a DURABILITY_ of file_writes.pxd
    cdef object name_of
