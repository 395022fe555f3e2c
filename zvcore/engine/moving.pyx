"""Moves items between chunks and the memory of a selection's values."""

import numpy as np

cimport cython
from cpython.buffer cimport PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from zvcore.engine.form cimport Block, Form
from zvcore.engine.selection cimport LIST_AXIS, Axis, Selection, Share, find_chunk, share_of
from zvcore.kernels.blocks cimport (
    ZV_MAX_NDIM, blocks_in_a_line, copy_block, copy_block_far, copy_joined_far, fill_block,
)


# --- the values

cdef enum:
    LINE = 64               # of the caches
    FAR = 4 << 20           # bytes of values from which on they are written past the caches: they would not stay there
    SHORT_ROW = 16          # of bytes: rows of chunks that are moved item by item


cdef int hold(object values, bint writable, Py_ssize_t itemsize, Py_buffer *view) except -1:
    # ndarray's own buffer refuses dtypes such as datetime64; bytes of the same shape do as well.
    if values.dtype.kind in "mMV":
        values = values.view(f"V{values.dtype.itemsize}")
    PyObject_GetBuffer(values, view, PyBUF_STRIDES | PyBUF_WRITABLE if writable else PyBUF_STRIDES)
    if view.itemsize != itemsize:
        PyBuffer_Release(view)
        raise ValueError(f"the values have items of {values.dtype.itemsize} bytes, the array of {itemsize}")
    return 0


cdef void aim(Selection selection, char *data, const Py_ssize_t *strides, Target *target) noexcept nogil:
    cdef int axis, place = 0
    target.begin = NULL
    target.far = False
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


@cython.final
cdef class Items:
    """The values of a selection in memory, held as long as this object lives.

    `values` has the selection's `result_shape`; `rows` says which of the chunks of a selection of points are meant, all
    if it is None, and `count` how many these are.
    """

    def __cinit__(self, Selection selection not None, values, Form form not None, rows, Py_ssize_t count,
                  bint writable):
        if selection.ndim != form.ndim:
            raise ValueError("selection and form must have the same rank")
        if tuple(values.shape) != selection.result_shape:
            raise ValueError(f"the values have shape {tuple(values.shape)}, the selection {selection.result_shape}")
        if selection.is_points:
            if writable and not values.flags.c_contiguous:
                raise ValueError("the values of a selection of points must be C-contiguous")
            values = np.ascontiguousarray(values)
        self.selection = selection
        hold(values, writable, form.itemsize, &self.view)
        self.held = True
        if selection.is_points:
            self.aim_points(rows, count)
        else:
            aim(selection, <char *> self.view.buf, self.view.strides, &self.target)
            self.target.far = self.view.len >= FAR

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef int aim_points(self, rows, Py_ssize_t count) except -1:
        cdef const int64_t[::1] begin, end, target
        cdef const int64_t[:, ::1] source
        self.target.data = <char *> self.view.buf
        if count == 0:
            return 0
        self._columns = self.selection.points_of(rows, count)
        begin, end = self._columns
        target = self.selection.point_target
        self.target.begin = &begin[0]
        self.target.end = &end[0]
        self.target.target = &target[0]
        if self.selection.ndim:
            source = self.selection.point_source
            self.target.source = &source[0, 0]
        return 0


# --- boxes and lists of coordinates

cdef enum Direction:
    FILL = 0
    OUT             # from the chunk
    IN


cdef struct Move:
    int direction
    Py_ssize_t itemsize
    int swap_unit
    const char *fill
    bint far                                # the result does not stay in the caches
    bint clipped                            # the chunk lacks some of the selected items
    char *chunk                             # where the share begins; NULL for moves that fill
    char *result
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


cdef void run_move(const Move *move, int depth, char *chunk, char *result) noexcept nogil:
    cdef int64_t i, source
    if depth == move.list_count:
        if move.direction == OUT and move.far:
            copy_block_far(result, move.result_strides, chunk, move.chunk_strides, move.shape, move.ndim,
                           move.itemsize, move.swap_unit)
        elif move.direction == OUT:
            copy_block(result, move.result_strides, chunk, move.chunk_strides, move.shape, move.ndim, move.itemsize,
                       move.swap_unit)
        elif move.direction == IN and move.far:
            copy_block_far(chunk, move.chunk_strides, result, move.result_strides, move.shape, move.ndim,
                           move.itemsize, move.swap_unit)
        elif move.direction == IN:
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


cdef bint add_list(Move *move, const Axis *axis, int64_t chunk, Py_ssize_t bound) noexcept nogil:
    """Which entries of a list lie in a chunk; False if none do."""
    cdef int64_t row = find_chunk(axis, chunk)
    if row < 0:
        return False
    move.list_source[move.list_count] = axis.source + axis.first[row]
    move.list_target[move.list_count] = axis.target + axis.first[row]
    move.list_length[move.list_count] = axis.first[row + 1] - axis.first[row]
    move.list_bound[move.list_count] = bound
    return True


cdef bint prepare_move(Move *move, Form form, Selection selection, const int64_t *position, const Block *block,
                       const Target *target) noexcept nogil:
    """False when there is nothing to move."""
    cdef int axis
    cdef int64_t count
    cdef const Axis *place
    cdef Share share
    cdef bint any_items = True
    move.ndim = 0
    move.list_count = 0
    move.itemsize = form.itemsize
    move.swap_unit = form.swap_unit
    move.fill = form.fill
    move.result = target.data
    move.far = target.far
    move.clipped = False
    for axis in range(selection.ndim):
        place = &selection.axes[axis]
        if place.kind == LIST_AXIS:
            if not add_list(move, place, position[axis], block.shape[axis]):
                return False
            move.list_chunk_stride[move.list_count] = block.strides[axis]
            move.list_result_stride[move.list_count] = target.strides[axis]
            if block.shape[axis] < form.chunk[axis]:
                move.clipped = True
            move.list_count += 1
            continue
        share = share_of(place, position[axis], form.chunk[axis])
        if share.count == 0:
            return False
        count = share.count
        if share.source + (count - 1) * share.step >= block.shape[axis]:
            move.clipped = True
            count = (block.shape[axis] - share.source + share.step - 1) // share.step
            if share.source >= block.shape[axis]:
                count = 0
                any_items = False
        move.shape[move.ndim] = count
        move.chunk_strides[move.ndim] = block.strides[axis] * share.step
        move.result_strides[move.ndim] = target.strides[axis]
        # Moves that fill have no chunk, and nothing may be added to NULL, not even zero.
        if any_items and move.chunk != NULL:
            move.chunk += share.source * block.strides[axis]
        move.result += share.target * target.strides[axis]
        move.ndim += 1
    return any_items


cdef void whole_block(Form form, Block *block) noexcept nogil:
    """The shape of a whole chunk; for moves that have no chunk."""
    cdef int axis
    for axis in range(form.ndim):
        block.shape[axis] = form.chunk[axis]
        block.strides[axis] = 0


cdef void fill_out(Form form, Selection selection, Place place, const Target *target) noexcept nogil:
    cdef Move move
    cdef Block block
    if target.begin != NULL:
        move_points(form, place.row, NULL, NULL, target, FILL)
        return
    whole_block(form, &block)
    move.direction = FILL
    move.chunk = NULL
    if prepare_move(&move, form, selection, place.position, &block, target):
        run_move(&move, 0, NULL, move.result)


cdef void move_out(Form form, Selection selection, Place place, const char *chunk, const Block *block,
                   const Target *target) noexcept nogil:
    cdef Move move
    cdef bint any_items
    if target.begin != NULL:
        move_points(form, place.row, <char *> chunk, block, target, OUT)
        return
    move.direction = OUT
    move.chunk = <char *> chunk
    any_items = prepare_move(&move, form, selection, place.position, block, target)
    if move.clipped:
        fill_out(form, selection, place, target)
    if any_items:
        run_move(&move, 0, move.chunk, move.result)


cdef inline bint stretch(Span *span, int64_t first, int64_t last, Py_ssize_t stride) noexcept nogil:
    """Take in the items from `first` to `last` along an axis; False, and nothing is left, if there are none."""
    if last < first:
        span.begin = span.end = 0
        return False
    span.begin += <uint64_t> first * stride
    span.end += <uint64_t> last * stride
    return True


cdef Span span_of(Form form, Selection selection, Place place, const Block *block, const Target *target) noexcept nogil:
    cdef Span span
    cdef Share share
    cdef int axis
    cdef int64_t first, last
    if target.begin != NULL:
        return span_of_points(form, place.row, block, target)
    span.begin = 0
    span.end = form.itemsize
    for axis in range(selection.ndim):
        first = 0
        last = block.shape[axis] - 1
        if selection.axes[axis].kind != LIST_AXIS:
            share = share_of(&selection.axes[axis], place.position[axis], form.chunk[axis])
            first = share.source
            last = min(last, share.source + (share.count - 1) * share.step)
        if not stretch(&span, first, last, block.strides[axis]):
            break
    return span


cdef Span span_of_points(Form form, int64_t row, const Block *block, const Target *target) noexcept nogil:
    """Of any order, so the least and the last along each axis are taken."""
    cdef Span span
    cdef const int64_t *point
    cdef int64_t _i, first, last
    cdef int axis
    span.begin = 0
    span.end = form.itemsize
    for axis in range(form.ndim):
        first = block.shape[axis]
        last = -1
        point = target.source + target.begin[row] * form.ndim + axis
        for _i in range(target.begin[row], target.end[row]):
            if point[0] < block.shape[axis]:
                first = min(first, point[0])
                last = max(last, point[0])
            point += form.ndim
        if not stretch(&span, first, last, block.strides[axis]):
            break
    return span


cdef Joining joining(Form form, Selection selection, const Target *target, int64_t most) noexcept nogil:
    cdef Joining how = Joining(0, form.ndim - 1, False)
    cdef Py_ssize_t row
    if not target.far or form.ndim == 0 or selection.is_points or selection.has_lists:
        return how
    if target.strides[how.axis] != form.itemsize:
        how.axis = 0
    if target.strides[how.axis] != form.itemsize:
        return how
    row = form.chunk[how.axis] * form.itemsize
    if row < SHORT_ROW and form.ndim < ZV_MAX_NDIM:
        most = min(most, <int64_t> MOST_JOINED, <int64_t> (LINE // row))
        how.most = <int> most if most > 1 else 0
    elif form.order[form.ndim - 1] == how.axis and not form.swap_unit:
        how.most = blocks_in_a_line(row)
        how.lines = True
    return how


cdef bint may_join(const Joining *how, Form form, Selection selection, const int64_t *first, const int64_t *position,
                   int64_t steps) noexcept nogil:
    cdef Share share
    cdef int axis
    for axis in range(form.ndim):
        if position[axis] != first[axis] + (steps if axis == how.axis else 0):
            return False
    share = share_of(&selection.axes[how.axis], position[how.axis], form.chunk[how.axis])
    return share.source == 0 and share.count == form.chunk[how.axis] and (share.step == 1 or share.count == 1)


cdef void add_neighbours(Move *move, const Blocks *blocks, Py_ssize_t row) noexcept nogil:
    """One axis more: from a block to the next."""
    move.shape[move.ndim] = blocks.count
    move.chunk_strides[move.ndim] = blocks.apart
    move.result_strides[move.ndim] = row
    move.ndim += 1


cdef void turn_round(Move *move) noexcept nogil:
    """The axes in reverse: the last is to be the one along which neighbours are joined."""
    cdef int axis, other
    for axis in range(move.ndim // 2):
        other = move.ndim - 1 - axis
        move.shape[axis], move.shape[other] = move.shape[other], move.shape[axis]
        move.chunk_strides[axis], move.chunk_strides[other] = move.chunk_strides[other], move.chunk_strides[axis]
        move.result_strides[axis], move.result_strides[other] = move.result_strides[other], move.result_strides[axis]


cdef bint join_lines(Move *move, int axis, Py_ssize_t row, Py_ssize_t apart) noexcept nogil:
    cdef uint64_t lines
    cdef int other
    if axis == 0:
        turn_round(move)
    lines = <uint64_t> move.result
    for other in range(move.ndim - 1):
        lines |= <uint64_t> move.result_strides[other]
    if lines % LINE or move.shape[move.ndim - 1] * move.itemsize != row:
        return False
    copy_joined_far(move.result, move.result_strides, move.chunk, move.chunk_strides, move.shape, move.ndim,
                    move.itemsize, apart)
    return True


cdef bint move_out_joined(const Joining *how, Form form, Selection selection, Place place, const Blocks *blocks,
                          const Target *target) noexcept nogil:
    cdef Move move
    cdef Py_ssize_t row = form.chunk[how.axis] * form.itemsize
    move.direction = OUT
    move.chunk = blocks.first
    if not prepare_move(&move, form, selection, place.position, blocks.shape, target) or move.clipped:
        return False
    if how.lines:
        return join_lines(&move, how.axis, row, blocks.apart)
    add_neighbours(&move, blocks, row)
    run_move(&move, 0, move.chunk, move.result)
    return True


cdef void move_in_joined(const Joining *how, Form form, Selection selection, Place place, const Blocks *blocks,
                         const Target *target) noexcept nogil:
    cdef Move move
    move.direction = IN
    move.chunk = blocks.first
    if prepare_move(&move, form, selection, place.position, blocks.shape, target):
        move.far = False        # what is encoded next stays in the caches
        add_neighbours(&move, blocks, form.chunk[how.axis] * form.itemsize)
        run_move(&move, 0, move.chunk, move.result)


cdef void move_in(Form form, Selection selection, Place place, char *chunk, const Block *block,
                  const Target *target) noexcept nogil:
    cdef Move move
    if target.begin != NULL:
        move_points(form, place.row, chunk, block, target, IN)
        return
    move.direction = IN
    move.chunk = chunk
    if prepare_move(&move, form, selection, place.position, block, target):
        run_move(&move, 0, move.chunk, move.result)


cdef char *direct_target(Form form, Selection selection, Place place, const Block *block,
                         const Target *target) noexcept nogil:
    cdef int axis
    cdef Share share
    cdef char *result = target.data
    if form.swap_unit or selection.has_lists or selection.is_points:
        return NULL
    for axis in range(selection.ndim):
        share = share_of(&selection.axes[axis], place.position[axis], form.chunk[axis])
        if share.source != 0 or share.count != block.shape[axis] or (share.step != 1 and share.count > 1):
            return NULL
        if share.count > 1 and target.strides[axis] != block.strides[axis]:
            return NULL
        result += share.target * target.strides[axis]
    return result


# --- points

cdef void move_points(Form form, int64_t row, char *chunk, const Block *block, const Target *target,
                      int direction) noexcept nogil:
    cdef const int64_t *point = target.source + target.begin[row] * form.ndim
    cdef int64_t i
    cdef int axis
    cdef Py_ssize_t at
    cdef char *item
    for i in range(target.begin[row], target.end[row]):
        item = target.data + target.target[i] * form.itemsize
        at = -1 if direction == FILL else 0
        for axis in range(form.ndim):
            if at < 0 or point[axis] >= block.shape[axis]:
                at = -1
                break
            at += point[axis] * block.strides[axis]
        point += form.ndim
        if at < 0:
            if direction != IN:
                memcpy(item, form.fill, form.itemsize)
        elif direction == OUT:
            copy_block(item, NULL, chunk + at, NULL, NULL, 0, form.itemsize, form.swap_unit)
        else:
            copy_block(chunk + at, NULL, item, NULL, NULL, 0, form.itemsize, form.swap_unit)
