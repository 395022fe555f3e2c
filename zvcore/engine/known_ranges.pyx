"""Chunks that lie in one file of this machine, as those in an archive do: where those were that were read from before.

Whoever opens the file compares its stamp with the one that is noted here, so another version is noticed then, and
everything is asked for anew. Of a chunk that is missing nothing is noted.
"""

cimport cython
from libc.stdint cimport int64_t, uint64_t

import numpy as np

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN
from zvcore.kernels.blocks cimport ZV_MAX_NDIM

from zvcore.engine.buffers import Keys
from zvcore.engine.sources import Sources


cdef enum:
    # Of arrays with more chunks nothing is kept: of each, three numbers have room from the first one on.
    MOST_CHUNKS = 1 << 20


@cython.final
cdef class Version:
    """The ranges in one version of a file. A chunk that nothing is known of begins at 0, all others one later."""
    cdef bytes folder
    cdef str file
    cdef object stamp
    cdef object keys
    cdef uint64_t[::1] begin
    cdef uint64_t[::1] length
    cdef uint64_t[::1] crc32


@cython.final
cdef class KnownRanges:
    """Those of one array, with `grid` chunks along each axis."""
    cdef int ndim
    cdef int64_t[ZV_MAX_NDIM] grid
    cdef int64_t count
    cdef Version version
    cdef bint asked
    # Whether more than one read was made.
    cdef readonly bint asked_again

    def __init__(self, grid):
        cdef int axis
        if len(grid) > ZV_MAX_NDIM:
            raise ValueError("too many axes")
        self.ndim = len(grid)
        self.count = 1
        for axis in range(self.ndim):
            self.grid[axis] = grid[axis]
            # Of more than that nothing is kept.
            self.count = min(self.count * min(self.grid[axis], MOST_CHUNKS + 1), MOST_CHUNKS + 1)

    cdef int64_t number_of(self, const int64_t *position) noexcept nogil:
        """The chunk as one number; -1 for one that lies outside."""
        cdef int axis
        cdef int64_t number = 0
        for axis in range(self.ndim):
            if not 0 <= position[axis] < self.grid[axis]:
                return -1
            number = number * self.grid[axis] + position[axis]
        return number

    def note(self, const int64_t[:, ::1] positions not None, bytes folder not None, sources not None):
        """Remember where these chunks are: `sources` are ranges of one file in the folder, of one version of it."""
        cdef Py_ssize_t i
        cdef int64_t number
        cdef Version version = self.version
        cdef str file
        cdef const uint64_t[:] begin, length, crc32
        if self.count > MOST_CHUNKS or positions.shape[1] != self.ndim or sources.chain is not None:
            return
        file, stamp = sources.keys[0], sources.stamps[0]
        if version is None or version.stamp != stamp or version.file != file or version.folder != folder:
            version = Version.__new__(Version)
            version.folder, version.file, version.stamp, version.keys = folder, file, stamp, Keys.of([file])
            version.begin = np.zeros(self.count, np.uint64)
            version.length = np.empty(self.count, np.uint64)
            version.crc32 = np.empty(self.count, np.uint64)
            self.version = version
        begin, length, crc32 = sources.offset, sources.length, sources.crc32
        if begin.shape[0] != positions.shape[0] or length.shape[0] != positions.shape[0] or (
                crc32 is not None and crc32.shape[0] != positions.shape[0]):
            raise ValueError("columns of different lengths")
        for i in range(positions.shape[0]):
            number = self.number_of(&positions[i, 0] if self.ndim else NULL)
            if number >= 0 and length[i] != ZV_SIZE_UNKNOWN and begin[i] < ZV_SIZE_UNKNOWN - 1:
                version.begin[number], version.length[number] = begin[i] + 1, length[i]
                version.crc32[number] = ZV_SIZE_UNKNOWN if crc32 is None else crc32[i]

    def recall(self, const int64_t[:, ::1] positions not None, store not None):
        """(a folder, the chunks as ranges of a file in it) if that is known of all, and is what the store would say."""
        cdef Py_ssize_t i, count = positions.shape[0]
        cdef int64_t number
        cdef bint with_crc32 = False
        cdef Version version = self.version
        self.asked_again, self.asked = self.asked, True
        if version is None or positions.shape[1] != self.ndim or not store.is_in_file(version.stamp):
            return None
        begin, length, crc32 = np.empty(count, np.uint64), np.empty(count, np.uint64), np.empty(count, np.uint64)
        cdef uint64_t[::1] begin_view = begin, length_view = length, crc32_view = crc32
        for i in range(count):
            number = self.number_of(&positions[i, 0] if self.ndim else NULL)
            if number < 0 or version.begin[number] == 0:
                return None
            begin_view[i], length_view[i] = version.begin[number] - 1, version.length[number]
            crc32_view[i] = version.crc32[number]
            with_crc32 |= crc32_view[i] != ZV_SIZE_UNKNOWN
        return version.folder, Sources(
            version.keys, np.zeros(count, np.int32), begin, length, crc32=crc32 if with_crc32 else None,
            stamps=[version.stamp],
        )
