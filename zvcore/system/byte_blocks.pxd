"""Blocks of bytes that several may hold: each goes with the last who lets go of it."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from zvcore.system.atomics cimport zv_fetch_add


cdef enum:
    LINE = 64                           # bytes of a line of the caches
    LARGE = 4096                        # blocks from this size on begin with one


# What lies before a block.
cdef struct BlockHead:
    int64_t holders
    int64_t distance                    # bytes from where its memory begins


# Threads without the GIL let go only of what nobody else holds: all others are ordered by it.

cdef inline BlockHead *head_of_block(uint8_t *block) noexcept nogil:
    return <BlockHead *> block - 1


# A block with one holder; NULL when memory is short.
cdef inline uint8_t *new_block(uint64_t size) noexcept nogil:
    cdef uint64_t distance = sizeof(BlockHead)
    cdef uint64_t spare = LINE if size >= LARGE else 0
    cdef uint8_t *memory = NULL
    if size < <uint64_t> 1 << 62:
        memory = <uint8_t *> malloc(distance + spare + max(size, <uint64_t> 1))
    if memory == NULL:
        return NULL
    if spare:
        distance += -(<uint64_t> memory + distance) % LINE
    head_of_block(memory + distance)[0] = BlockHead(1, distance)
    return memory + distance


cdef inline uint8_t *hold_block(uint8_t *block) noexcept nogil:
    if block != NULL:
        zv_fetch_add(&head_of_block(block).holders, 1)
    return block


cdef inline void let_block_go(uint8_t *block) noexcept nogil:
    if block != NULL and zv_fetch_add(&head_of_block(block).holders, -1) == 1:
        free(block - head_of_block(block).distance)


cdef class ByteBlock:
    cdef uint8_t *data
    cdef Py_ssize_t size


# Holds the block.
cdef ByteBlock byte_block(uint8_t *block, Py_ssize_t size)
