"""Bytes that threads made, as Python sees them."""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo


@cython.final
cdef class ByteBlock:
    """Bytes that nobody changes any more, through the buffer protocol: who keeps them needs no copy."""

    def __dealloc__(self):
        let_block_go(self.data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)

    def __len__(self):
        return self.size


cdef ByteBlock byte_block(uint8_t *block, Py_ssize_t size):
    cdef ByteBlock made = ByteBlock.__new__(ByteBlock)
    made.data = hold_block(block)
    made.size = size
    return made
