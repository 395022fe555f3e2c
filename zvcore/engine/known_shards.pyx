"""Shards that were read from before: where their chunks are, without asking for the shards' names and stamps anew.

Who reads ranges of files compares the stamps of those that it opens with what is said here, so a shard that is another
one by now is noticed then, and everything is asked for anew. A chunk that is missing is not: of a shard that has none
at some place nothing is said.
"""

import weakref

cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

import numpy as np

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN


cdef enum:
    MOST_SHARDS = 4096


cdef class ShardGrid:
    """How the chunks of an array lie in shards.

    `per_shard` is how many chunks lie along each axis of a shard, `strides` what a step along each axis adds to a
    chunk's place in the index, `grid` how many shards the array has along each axis.
    """

    def __init__(self, per_shard, strides, grid):
        cdef int axis
        self.ndim = len(per_shard)
        for axis in range(self.ndim):
            self.per_shard[axis] = per_shard[axis]
            self.strides[axis] = strides[axis]
            self.grid[axis] = grid[axis]

    cdef int64_t number_of(self, const int64_t *position, int64_t *slot) noexcept nogil:
        cdef int axis
        cdef int64_t number = 0
        slot[0] = 0
        for axis in range(self.ndim):
            number = number * self.grid[axis] + position[axis] // self.per_shard[axis]
            slot[0] += position[axis] % self.per_shard[axis] * self.strides[axis]
        return number


@cython.final
@cython.no_gc
cdef class KnownShard:
    cdef object index           # a weak reference: who bounds the memory of indexes lets go of them
    cdef const uint64_t *offsets
    cdef const uint64_t *lengths
    cdef int64_t count


@cython.final
cdef class KnownShards(ShardGrid):
    """Those of one array, by their numbers in its grid. They keep no index in memory."""
    cdef dict _shards

    def __init__(self, per_shard, strides, grid):
        ShardGrid.__init__(self, per_shard, strides, grid)
        self._shards = {}

    def note(self, const int64_t[:, ::1] positions not None, const int32_t[::1] which not None, list indexes not None):
        """Remember indexes, with `offsets`, `lengths` and a `stamp`: chunk i lies in the shard that has
        `indexes[which[i]]`, which may be None.
        """
        cdef Py_ssize_t i
        cdef int64_t slot
        cdef KnownShard shard
        cdef const uint64_t[::1] offsets, lengths
        cdef set noted = set()
        if which.shape[0] != positions.shape[0] or positions.shape[1] != self.ndim:
            raise ValueError("columns of different lengths")
        for i in range(positions.shape[0]):
            if (i and which[i] == which[i - 1]) or which[i] in noted:
                continue
            noted.add(which[i])
            index = indexes[which[i]]
            if index is None:
                continue
            offsets, lengths = index.offsets, index.lengths
            if offsets.shape[0] == 0 or offsets.shape[0] != lengths.shape[0]:
                continue
            shard = KnownShard.__new__(KnownShard)
            shard.index = weakref.ref(index)
            shard.offsets, shard.lengths, shard.count = &offsets[0], &lengths[0], offsets.shape[0]
            if len(self._shards) >= MOST_SHARDS:
                self._shards.clear()
            self._shards[self.number_of(&positions[i, 0] if self.ndim else NULL, &slot)] = shard

    def recall(self, const int64_t[:, ::1] positions not None):
        """Where these chunks were: (the shards' places in the grid, which of them has each chunk, its offset, its
        length, the indexes of the shards). None if that is not known of all of them.
        """
        cdef Py_ssize_t i, count = positions.shape[0]
        cdef int64_t slot, number, before = -1
        cdef int32_t place = 0
        cdef KnownShard shard = None
        cdef dict places = {}
        cdef list indexes = [], shards = [], first = []
        cdef int axis
        if positions.shape[1] != self.ndim or not self._shards:
            return None
        which = np.empty(count, np.int32)
        offset, length = np.empty(count, np.uint64), np.empty(count, np.uint64)
        cdef int32_t[::1] which_view = which
        cdef uint64_t[::1] offset_view = offset, length_view = length
        for i in range(count):
            number = self.number_of(&positions[i, 0] if self.ndim else NULL, &slot)
            if number != before:
                before = number
                known = places.get(number)
                if known is not None:
                    place = known
                    shard = <KnownShard> shards[place]
                else:
                    shard = <KnownShard> self._shards.get(number)
                    index = None if shard is None else shard.index()
                    if index is None:
                        return None
                    place = <int32_t> len(shards)
                    places[number] = place
                    shards.append(shard)
                    indexes.append(index)       # which keeps it
                    first.append(i)
            if not 0 <= slot < shard.count or shard.lengths[slot] == ZV_SIZE_UNKNOWN:
                return None
            which_view[i] = place
            offset_view[i], length_view[i] = shard.offsets[slot], shard.lengths[slot]
        grid = np.empty((len(first), self.ndim), np.int64)
        cdef int64_t[:, ::1] grid_view = grid
        for i in range(len(first)):
            for axis in range(self.ndim):
                grid_view[i, axis] = positions[<Py_ssize_t> first[i], axis] // self.per_shard[axis]
        return grid, which, offset, length, indexes
