"""Some chunks of one array: which they are, and where their bytes are stored."""

import numpy as np

cimport cython
from libc.errno cimport ENAMETOOLONG
from libc.stdint cimport int64_t, uint8_t

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN
from zvcore.codecs.running cimport decodes_two
from zvcore.engine.failures cimport STALE_FAILURE, Failure, failure_error
from zvcore.engine.prepared cimport Chains, Prepared

from zvcore.errors import ZvcoreError
from zvcore.stores.files import encode_key
from zvcore.stores.lock_names import too_long


class StaleSourcesError(Exception):
    """An object was replaced between the reading of its index and of its chunks: locate them again."""


# Where the positions of chunks without axes lie: to add 0 to NULL is undefined in C.
cdef int64_t nowhere = 0


@cython.final
cdef class Chunks:
    """Some chunks of one array, with columns that are checked once.

    positions  int64[n, ndim], their places in the grid; None where chunks are byte strings and `sources` tells how many
    sources    a `Sources` with a row for each; None where nothing of what is stored is needed
    rows       for a selection of points: which of its chunks these are; None: all
    chain      uint8[n], which of the array's codec chains; None: those that `sources` names, else the first
    known_as   the positions that errors tell of, where chunks are looked at as if they were at others
    """

    def __cinit__(self, Prepared prepared not None, positions, sources=None, rows=None, chain=None, known_as=None):
        self.prepared = prepared
        self.form = prepared.form
        self.sources = sources
        self.rows = rows
        self.count = sources.count if positions is None else len(positions)
        self.set_positions(positions)
        self.known_as = self.positions if known_as is None else known_as
        self.set_chain(sources.chain if chain is None and sources is not None else chain)

    def __len__(self):
        return self.count

    cdef int set_positions(self, positions) except -1:
        cdef const int64_t[:, ::1] view
        if positions is None:
            return 0
        self.positions = np.ascontiguousarray(positions, np.int64)
        if self.form is None:
            return 0
        if self.positions.ndim != 2 or self.positions.shape[1] != self.form.ndim:
            raise ValueError("positions and form must have the same rank")
        if self.form.ndim == 0:
            self.places = &nowhere
        elif self.count:
            view = self.positions
            self.places = &view[0, 0]
        return 0

    cdef int set_chain(self, chain) except -1:
        cdef const uint8_t[::1] view
        if chain is None:
            if self.count and not self.prepared.chains.count:
                raise ValueError("there is no chain for the chunks")
            self.decode_two = self.prepared.chains.count and decodes_two(self.prepared.chains.stages[0])
            return 0
        self._chain = np.ascontiguousarray(chain, np.uint8)
        if len(self._chain) != self.count or self._chain.max(initial=0) >= self.prepared.chains.count:
            raise ValueError("the chain column does not fit the chunks and chains")
        if self.count:
            view = self._chain
            self.chain = &view[0]
        self.decode_two = self.any_decodes_two()
        return 0

    cdef bint any_decodes_two(self):
        cdef uint8_t[256] asked = [0] * 256
        cdef Py_ssize_t i
        for i in range(self.count):
            if not asked[self.chain[i]] and decodes_two(self.prepared.chains.stages[self.chain[i]]):
                return True
            asked[self.chain[i]] = True
        return False

    cdef Chunks behind(self, int chains):
        cdef Chunks moved = Chunks(self.prepared, self.positions, self.sources, self.rows, self._chain, self.known_as)
        moved.first_chain = chains
        return moved

    cdef object error(self, const Failure *failure, Chains chains):
        if failure.kind == STALE_FAILURE:
            return StaleSourcesError()
        error = failure_error(failure, chains.chains)
        if failure.job < 0:
            return error
        key, offset, length = self.whereabouts(failure.job)
        if isinstance(error, OSError) and not isinstance(error, ZvcoreError):
            if error.errno == ENAMETOOLONG:
                return too_long(encode_key(key))
            return OSError(error.errno, error.strerror, key)
        if not isinstance(error, ZvcoreError):
            return error
        error.located(key=key)
        if failure.offset and error.offset is None and offset is None:
            error.located(offset=failure.offset)
        if self.known_as is not None:
            error.located(chunk=tuple([int(i) for i in self.known_as[failure.job]]))
        if offset is not None and error.offset is None:
            error.located(offset=offset, length=length)
        return error

    cdef tuple whereabouts(self, Py_ssize_t chunk):
        origin = self.sources
        if origin is not None and (origin.blobs is not None or origin.origin is not None):
            origin = origin.origin
        if origin is None:
            return (None if self.known_as is None else self.prepared.name(self.known_as[chunk])), None, None
        key = origin.keys[chunk if origin.key is None else int(origin.key[chunk])]
        if origin.offset is None or int(origin.length[chunk]) == ZV_SIZE_UNKNOWN:
            return key, None, None
        return key, int(origin.offset[chunk]), int(origin.length[chunk])
