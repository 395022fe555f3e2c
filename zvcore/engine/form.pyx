"""How a chunk's decoded bytes lie, in a form for threads."""

import math

import numpy as np

cimport cython
from libc.stdint cimport int64_t, uint64_t

from zvcore.engine.framing cimport framing_of
from zvcore.kernels.blocks cimport ZV_MAX_NDIM

from zvcore.errors import MetadataError, UnsupportedError
from zvcore.kernels.blocks import swap_unit


@cython.final
cdef class Form:
    """A layout's `ChunkForm` together with the array's shape and fill value, prepared for the engine."""

    def __cinit__(self, form, tuple shape, fill_value, framing=None):
        cdef int axis
        dtype = np.dtype(form.dtype)
        self.ndim = len(shape)
        if self.ndim > ZV_MAX_NDIM:
            raise UnsupportedError(f"arrays of more than {ZV_MAX_NDIM} dimensions are not supported")
        if len(form.shape) != self.ndim:
            raise MetadataError("the chunk's rank is not the array's", expected=self.ndim, found=len(form.shape))
        if dtype.hasobject:
            raise TypeError(f"items of dtype {dtype} have no bytes of their own")
        self.itemsize = dtype.itemsize
        try:
            self.swap_unit = swap_unit(dtype) if form.swapped else 0
        except TypeError as error:
            raise MetadataError(f"byte order has no meaning for dtype {dtype}") from error
        self.edge = {"full": FULL_EDGE, "cropped": CROPPED_EDGE, "framed": FRAMED_EDGE}[form.edge]
        self.padded = form.padded or self.edge == FULL_EDGE
        self.trailing = form.trailing
        axes = form.axes or tuple(range(self.ndim))
        if sorted(axes) != list(range(self.ndim)):
            raise MetadataError("not an order of the axes", expected=tuple(range(self.ndim)), found=axes)
        for axis in range(self.ndim):
            if form.shape[axis] < 1:
                raise MetadataError("chunks must have at least one item along each axis", found=form.shape)
            self.order[axis] = axes[axis]
            self.chunk[axis] = form.shape[axis]
            self.bounds[axis] = shape[axis]
        nbytes = math.prod(form.shape) * dtype.itemsize
        if nbytes > 2**62:
            raise MetadataError("a chunk of this shape is too large", found=form.shape)
        self.chunk_nbytes = nbytes
        item = np.array([fill_value], dtype)
        self._fill = item.tobytes()
        self._stored_fill = item.byteswap().tobytes() if self.swap_unit else self._fill
        self.fill = self._fill
        self.stored_fill = self._stored_fill
        self.framing_capsule = framing
        if framing is not None:
            self.framing = framing_of(framing, self.ndim, self.chunk)
            self.header_bound = self.framing.header_bound(self.framing.cfg, self.ndim)
        elif self.edge == FRAMED_EDGE:
            raise TypeError("framed chunks need a framing")

    cdef int lay_out(self, const uint64_t *shape, Block *block) noexcept nogil:
        cdef uint64_t nbytes = self.itemsize
        cdef uint64_t limit = <uint64_t> 1 << 62
        cdef int i, axis
        cdef bint empty = False
        for i in range(self.ndim):
            if shape[i] == 0:
                empty = True
            if shape[i] > limit:
                return -1
            block.shape[i] = <Py_ssize_t> shape[i]
        for i in range(self.ndim - 1, -1, -1):
            axis = self.order[i]
            block.strides[axis] = <Py_ssize_t> nbytes
            if not empty and nbytes > limit // shape[axis]:
                return -1
            if not empty:
                nbytes *= shape[axis]
        block.nbytes = 0 if empty else nbytes
        return 0

    cdef void written_block(self, const int64_t *position, Block *block) noexcept nogil:
        cdef uint64_t shape[ZV_MAX_NDIM]
        cdef int axis
        cdef int64_t rest
        for axis in range(self.ndim):
            shape[axis] = self.chunk[axis]
            if not self.padded:
                rest = self.bounds[axis] - position[axis] * self.chunk[axis]
                if rest < self.chunk[axis]:
                    shape[axis] = rest if rest > 0 else 0
        self.lay_out(shape, block)
