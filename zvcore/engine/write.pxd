from zvcore.engine.batches cimport Task
from zvcore.engine.buffers cimport Buffers
from zvcore.engine.chunks cimport Chunks
from zvcore.engine.load cimport Stored
from zvcore.engine.moving cimport Items
from zvcore.engine.sinks cimport Sink


cdef class Encoding(Task):
    cdef Chunks chunks
    cdef Items items
    cdef Stored old                     # None: no stored bytes are needed
    cdef Sink sink


cdef class StringEncoding(Task):
    cdef Py_ssize_t count
    cdef Py_buffer *views
    cdef Buffers results
