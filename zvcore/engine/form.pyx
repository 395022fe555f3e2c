"""How a chunk's decoded bytes lie, and the move of its selected share into the result and back."""

import math

import numpy as np

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from zvcore.engine.framing cimport framing_of
from zvcore.engine.selection cimport LIST_AXIS, Axis, Selection, Share, find_chunk, share_of
from zvcore.kernels.blocks cimport ZV_MAX_NDIM, copy_block, fill_block

from zvcore.errors import MetadataError
from zvcore.kernels.blocks import swap_unit


cdef class Form:
    """A layout's `ChunkForm` together with the array's shape and fill value, prepared for the engine."""

    def __cinit__(self, form, tuple shape, fill_value, framing=None):
        cdef int axis
        dtype = np.dtype(form.dtype)
        self.ndim = len(shape)
        if self.ndim > ZV_MAX_NDIM:
            raise MetadataError(f"arrays of more than {ZV_MAX_NDIM} dimensions are not supported")
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


cdef void aim(Selection selection, char *data, const Py_ssize_t *strides, Target *target) noexcept:
    cdef int axis, place = 0
    target.data = data
    for axis in range(selection.ndim):
        if selection.dropped[axis]:
            target.strides[axis] = 0
            continue
        target.strides[axis] = strides[place]
        place += 1
        if selection.flipped[axis] and selection.axes[axis].count > 0:
            target.data += (selection.axes[axis].count - 1) * target.strides[axis]
            target.strides[axis] = -target.strides[axis]


cdef struct Move:
    int ndim                                # of the range axes
    Py_ssize_t shape[ZV_MAX_NDIM]
    Py_ssize_t chunk_strides[ZV_MAX_NDIM]
    Py_ssize_t result_strides[ZV_MAX_NDIM]
    int list_count
    const int64_t *list_source[ZV_MAX_NDIM]
    const int64_t *list_target[ZV_MAX_NDIM]
    int64_t list_length[ZV_MAX_NDIM]
    int64_t list_bound[ZV_MAX_NDIM]         # of the chunk along this axis: entries from here on are not in it
    Py_ssize_t list_chunk_stride[ZV_MAX_NDIM]
    Py_ssize_t list_result_stride[ZV_MAX_NDIM]
    Py_ssize_t itemsize
    int swap_unit
    int direction                           # 0: fill the result, 1: chunk to result, 2: result to chunk
    const char *fill


cdef void run_move(const Move *move, int depth, char *chunk, char *result) noexcept nogil:
    cdef int64_t i, source
    if depth == move.list_count:
        if move.direction == 1:
            copy_block(result, move.result_strides, chunk, move.chunk_strides, move.shape, move.ndim, move.itemsize,
                       move.swap_unit)
        elif move.direction == 2:
            copy_block(chunk, move.chunk_strides, result, move.result_strides, move.shape, move.ndim, move.itemsize,
                       move.swap_unit)
        else:
            fill_block(result, move.result_strides, move.shape, move.ndim, move.itemsize, move.fill)
        return
    for i in range(move.list_length[depth]):
        source = move.list_source[depth][i]
        if source < move.list_bound[depth]:
            run_move(move, depth + 1, chunk + source * move.list_chunk_stride[depth] if move.direction else chunk,
                     result + move.list_target[depth][i] * move.list_result_stride[depth])


cdef bint prepare_move(Form form, Selection selection, const int64_t *position, const Block *block,
                       const Target *target, Move *move, char **chunk, char **result, bint *clipped) noexcept nogil:
    """False when there is nothing to move. `*clipped` tells that the chunk lacks some of the selected items."""
    cdef int axis
    cdef int64_t row, count
    cdef const Axis *place
    cdef Share share
    cdef bint any_items = True
    move.ndim = 0
    move.list_count = 0
    move.itemsize = form.itemsize
    move.swap_unit = form.swap_unit
    move.fill = form.fill
    result[0] = target.data
    clipped[0] = False
    for axis in range(selection.ndim):
        place = &selection.axes[axis]
        if place.kind == LIST_AXIS:
            row = find_chunk(place, position[axis])
            if row < 0:
                return False
            move.list_source[move.list_count] = place.source + place.first[row]
            move.list_target[move.list_count] = place.target + place.first[row]
            move.list_length[move.list_count] = place.first[row + 1] - place.first[row]
            move.list_bound[move.list_count] = block.shape[axis]
            move.list_chunk_stride[move.list_count] = block.strides[axis]
            move.list_result_stride[move.list_count] = target.strides[axis]
            if block.shape[axis] < form.chunk[axis]:
                clipped[0] = True
            move.list_count += 1
            continue
        share = share_of(place, position[axis], form.chunk[axis])
        if share.count == 0:
            return False
        count = share.count
        if share.source + (count - 1) * share.step >= block.shape[axis]:
            clipped[0] = True
            count = (block.shape[axis] - share.source + share.step - 1) // share.step
            if share.source >= block.shape[axis]:
                count = 0
                any_items = False
        move.shape[move.ndim] = count
        move.chunk_strides[move.ndim] = block.strides[axis] * share.step
        move.result_strides[move.ndim] = target.strides[axis]
        # Moves that fill have no chunk, and nothing may be added to NULL, not even zero.
        if any_items and chunk[0] != NULL:
            chunk[0] += share.source * block.strides[axis]
        result[0] += share.target * target.strides[axis]
        move.ndim += 1
    return any_items


cdef void whole_block(Form form, Block *block) noexcept nogil:
    """The shape of a whole chunk; for moves that have no chunk."""
    cdef int axis
    for axis in range(form.ndim):
        block.shape[axis] = form.chunk[axis]
        block.strides[axis] = 0


cdef void fill_share(Form form, Selection selection, const int64_t *position, const Target *target) noexcept nogil:
    cdef Move move
    cdef Block block
    cdef char *chunk = NULL
    cdef char *result = NULL
    cdef bint clipped = False
    whole_block(form, &block)
    if prepare_move(form, selection, position, &block, target, &move, &chunk, &result, &clipped):
        move.direction = 0
        run_move(&move, 0, chunk, result)


cdef void move_share(Form form, Selection selection, const int64_t *position, char *chunk, const Block *block,
                     const Target *target, bint to_result) noexcept nogil:
    cdef Move move
    cdef char *result = NULL
    cdef bint clipped = False
    cdef bint any_items = prepare_move(form, selection, position, block, target, &move, &chunk, &result, &clipped)
    if clipped and to_result:
        fill_share(form, selection, position, target)
    if any_items:
        move.direction = 1 if to_result else 2
        run_move(&move, 0, chunk, result)


cdef char *direct_target(Form form, Selection selection, const int64_t *position, const Block *block,
                         const Target *target) noexcept nogil:
    cdef int axis
    cdef Share share
    cdef char *result = target.data
    if form.swap_unit or selection.has_lists or selection.is_points:
        return NULL
    for axis in range(selection.ndim):
        share = share_of(&selection.axes[axis], position[axis], form.chunk[axis])
        if share.source != 0 or share.count != block.shape[axis] or (share.step != 1 and share.count > 1):
            return NULL
        if share.count > 1 and target.strides[axis] != block.strides[axis]:
            return NULL
        result += share.target * target.strides[axis]
    return result


cdef void move_points(Form form, const char *chunk, const Block *block, const int64_t *source,
                      const int64_t *result_rows, int64_t count, char *data, const char *fill,
                      bint to_result) noexcept nogil:
    """Single items; `data` is the result as one contiguous row of items. Without a chunk, the fill value."""
    cdef int64_t i
    cdef int axis
    cdef Py_ssize_t at
    cdef bint inside
    cdef char *item
    for i in range(count):
        item = data + result_rows[i] * form.itemsize
        at = 0
        inside = chunk != NULL
        if inside:
            for axis in range(form.ndim):
                if source[i * form.ndim + axis] >= block.shape[axis]:
                    inside = False
                    break
                at += source[i * form.ndim + axis] * block.strides[axis]
        if not inside:
            if to_result:
                memcpy(item, fill, form.itemsize)
        elif to_result:
            copy_block(item, NULL, chunk + at, NULL, NULL, 0, form.itemsize, form.swap_unit)
        else:
            copy_block(<char *> chunk + at, NULL, item, NULL, NULL, 0, form.itemsize, form.swap_unit)
