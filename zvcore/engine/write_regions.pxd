from libc.stdint cimport int64_t

from zvcore.engine.regions cimport Regions
from zvcore.engine.write cimport Encoding


cdef class EncodingRegions(Encoding):
    cdef Regions regions
    cdef const int64_t *rows            # which of the chunks of `regions` these are; NULL: all
