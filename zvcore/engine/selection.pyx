"""Which items of an array are meant: numpy's indexing, cut along the chunk grid.

A `Selection` is made from what stands inside the brackets. It knows the shape of the result, which chunks it touches
and which of those it covers whole; the engine's threads cut each chunk's share from it.
"""

import operator

import numpy as np

from zvcore.errors import UnsupportedError

cimport cython
from cpython.long cimport PyLong_Check
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Check, PySlice_Unpack
from libc.stdint cimport INT64_MAX, int64_t

from zvcore.kernels.blocks cimport ZV_MAX_NDIM
from zvcore.system.gil cimport let_go, take_back


cdef Share share_of(const Axis *axis, int64_t chunk, int64_t extent) noexcept nogil:
    cdef Share share
    cdef int64_t low = chunk * extent - axis.start
    cdef int64_t first = 0
    cdef int64_t last
    if low > 0:
        first = low if axis.step == 1 else (low + axis.step - 1) // axis.step
    low += extent
    if low <= 0:
        last = 0
    else:
        last = low if axis.step == 1 else (low + axis.step - 1) // axis.step
    if last > axis.count:
        last = axis.count
    share.count = last - first if last > first else 0
    share.target = first
    share.step = axis.step
    share.source = axis.start + first * axis.step - chunk * extent
    return share


cdef int64_t find_chunk(const Axis *axis, int64_t chunk) noexcept nogil:
    cdef int64_t low = 0
    cdef int64_t high = axis.chunk_count
    cdef int64_t middle
    while low < high:
        middle = (low + high) // 2
        if axis.chunks[middle] < chunk:
            low = middle + 1
        else:
            high = middle
    return low if low < axis.chunk_count and axis.chunks[low] == chunk else -1


cdef int64_t chunk_count(const Axis *axis, int64_t extent) noexcept nogil:
    """How many chunks are touched along an axis."""
    if axis.kind == LIST_AXIS:
        return axis.chunk_count
    if axis.step > extent or axis.count == 0:
        return axis.count
    return (axis.start + (axis.count - 1) * axis.step) // extent - axis.start // extent + 1


cdef bint covers(Selection selection, const int64_t *position, const Py_ssize_t *extent) noexcept nogil:
    cdef int64_t begin, end
    cdef const Axis *place
    cdef int axis
    if selection.is_points or selection.has_lists:
        return False
    for axis in range(selection.ndim):
        place = &selection.axes[axis]
        begin = position[axis] * extent[axis]
        end = min(begin + extent[axis], selection.bounds[axis])
        if place.start > begin or place.start + place.count * place.step < end:
            return False
        if place.step != 1 and (end - begin > 1 or (begin - place.start) % place.step):
            return False
    return True


cdef object as_int(object item):
    """An integer index, or None when it is none."""
    if isinstance(item, (bool, np.bool_)):
        return None
    try:
        return operator.index(item)
    except TypeError:
        return None


cdef int set_integer(Selection selection, int axis, object index) except -1:
    cdef int64_t bound = selection.bounds[axis]
    if index < -bound or index >= bound:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {bound}")
    cdef int64_t value = index
    selection.axes[axis].start = value + bound if value < 0 else value
    selection.axes[axis].step = 1
    selection.axes[axis].count = 1
    selection.dropped[axis] = True
    return 0


cdef int set_slice(Selection selection, int axis, object item) except -1:
    cdef Axis *place = &selection.axes[axis]
    cdef Py_ssize_t start, stop, step, count
    # What lies beyond all integers of 64 bits is taken for the last of them, as numpy does.
    PySlice_Unpack(item, &start, &stop, &step)
    count = PySlice_AdjustIndices(selection.bounds[axis], &start, &stop, step)
    if step < 0:
        if count > 0:
            start += (count - 1) * step
        step = -step
        selection.flipped[axis] = True
    place.start = start
    # One item has no next: no sum with a step may grow beyond the array.
    place.step = step if count > 1 else 1
    place.count = count
    return 0


cdef tuple full_key(object key, int ndim):
    """What stands inside the brackets as one entry per axis, ellipsis and missing trailing axes filled in."""
    cdef tuple items = key if isinstance(key, tuple) else (key,)
    cdef list filled = []
    cdef int ellipses = 0
    cdef Py_ssize_t missing
    for item in items:
        if item is Ellipsis:
            ellipses += 1
        elif item is None:
            raise IndexError("newaxis (None) is not supported: add the axis to the result instead")
    if ellipses > 1:
        raise IndexError("an index can have only one ellipsis ('...')")
    missing = ndim - (len(items) - ellipses)
    if missing < 0:
        raise IndexError(f"too many indices: the array has {ndim} dimensions, but {len(items) - ellipses} were indexed")
    if missing == 0 and ellipses == 0:
        return items
    for item in items:
        if item is Ellipsis:
            filled.extend([slice(None)] * missing)
        else:
            filled.append(item)
    if not ellipses:
        filled.extend([slice(None)] * missing)
    return tuple(filled)


cdef tuple open_mesh(list parts, tuple shape):
    """What numpy takes where some axes are selected by lists: coordinates along all of them."""
    return np.ix_(*[np.arange(extent)[part] if isinstance(part, slice) else part
                    for part, extent in zip(parts, shape, strict=True)])


cdef object coordinates(object item, int64_t bound, int axis):
    """An integer array index of one axis as non-negative int64 coordinates, checked."""
    array = np.asarray(item)
    if array.dtype.kind == "b":
        raise IndexError("boolean arrays cannot stand here")
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise IndexError(f"arrays used as indices must be of integer (or boolean) type, not {array.dtype}")
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise IndexError(f"index {int(array.max())} is out of bounds for axis {axis} with size {bound}")
    array = array.astype(np.int64, order="C")
    cdef int64_t[::1] view = array.reshape(-1)
    cdef Py_ssize_t i
    cdef int64_t bad = 0
    for i in range(view.shape[0]):
        bad = view[i]
        if bad < 0:
            view[i] += bound
        if view[i] < 0 or view[i] >= bound:
            raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {bound}")
    return array


cdef object in_order(list columns, const int64_t *extents, const int64_t *bounds, Py_ssize_t count):
    """What sorts points by the places of their chunks in the grid, and leaves those of one chunk as they are given."""
    cdef int axis, ndim = <int> len(columns)
    cdef int64_t cells = 1, along
    cdef Py_ssize_t i
    cdef bint sorted_already = True
    cdef const int64_t[::1] column
    numbers = np.zeros(count, np.int64)
    cdef int64_t[::1] number = numbers
    for axis in range(ndim):
        along = (bounds[axis] + extents[axis] - 1) // extents[axis]
        if cells > INT64_MAX // max(along, 1):
            # More chunks than one number can tell apart.
            return np.lexsort([columns[i] // extents[i] for i in range(ndim - 1, -1, -1)])
        cells *= along
        column = columns[axis]
        for i in range(count):
            number[i] = number[i] * along + column[i] // extents[axis]
    for i in range(1, count):
        if number[i] < number[i - 1]:
            sorted_already = False
            break
    if sorted_already:
        return np.arange(count, dtype=np.int64)
    # Numbers of two bytes are sorted several times as fast.
    return np.argsort(numbers.astype(np.uint16) if cells <= 1 << 16 else numbers, kind="stable")


cdef int group_points(Selection selection, list columns, tuple chunk_shape, Py_ssize_t count) except -1:
    """Points, given by a column of coordinates for each axis, by the chunks that they lie in."""
    cdef int axis, ndim = selection.ndim
    cdef int64_t[ZV_MAX_NDIM] extents, place, before
    cdef Py_ssize_t i, groups = 0
    cdef bint another
    cdef const int64_t[::1] order
    cdef const int64_t *column[ZV_MAX_NDIM]
    cdef const int64_t[::1] view
    for axis in range(ndim):
        extents[axis] = chunk_shape[axis]
        if count:
            view = columns[axis]
            column[axis] = &view[0]
    selection.point_target = np.ascontiguousarray(in_order(columns, extents, selection.bounds, count), np.int64)
    order = selection.point_target
    positions, source = np.empty((count, ndim), np.int64), np.empty((count, ndim), np.int64)
    first = np.empty(count + 1, np.int64)
    cdef int64_t[:, ::1] position_view = positions, source_view = source
    cdef int64_t[::1] first_view = first
    with nogil:
        for i in range(count):
            another = i == 0
            for axis in range(ndim):
                place[axis] = column[axis][order[i]] // extents[axis]
                source_view[i, axis] = column[axis][order[i]] - place[axis] * extents[axis]
                another = another or place[axis] != before[axis]
            if another:
                for axis in range(ndim):
                    position_view[groups, axis] = before[axis] = place[axis]
                first_view[groups] = i
                groups += 1
        first_view[groups] = count
    selection.point_positions = positions[:groups].copy()
    selection.point_first = first[: groups + 1].copy()
    selection.point_source = source
    return 0


# How many axes an array may have.
MOST_AXES = ZV_MAX_NDIM


@cython.freelist(8)         # it is large for a small read
cdef class Selection:
    """Items of an array of `shape`, chosen as numpy would. Make one with `basic`, `orthogonal` or `points`."""

    def __cinit__(self, tuple shape):
        cdef int axis
        self.shape = shape
        self.ndim = len(shape)
        if self.ndim > ZV_MAX_NDIM:
            raise UnsupportedError(f"arrays of more than {ZV_MAX_NDIM} dimensions are not supported")
        for axis in range(self.ndim):
            self.bounds[axis] = shape[axis]

    @staticmethod
    def basic(object key, tuple shape):
        """Integers, slices with any step, one ellipsis."""
        cdef Selection selection = Selection.__new__(Selection, shape)
        cdef tuple items = full_key(key, selection.ndim)
        cdef int axis
        for axis in range(selection.ndim):
            item = items[axis]
            if PySlice_Check(item):
                set_slice(selection, axis, item)
            elif PyLong_Check(item) and not isinstance(item, bool):
                set_integer(selection, axis, item)
            else:
                index = as_int(item)
                if index is None:
                    raise IndexError(
                        "only integers, slices and '...' are valid here; use .oindex or .vindex for arrays"
                    )
                set_integer(selection, axis, index)
        selection.finish()
        # Numpy gives an item for integers alone, and an array without dimensions when there is an ellipsis.
        selection.is_item = not selection.result_shape and not any(
            [part is Ellipsis for part in (key if isinstance(key, tuple) else (key,))]
        )
        return selection

    @staticmethod
    def orthogonal(object key, tuple shape, tuple chunk_shape):
        """Each axis on its own by an integer, a slice, or a one-dimensional array of integers or booleans."""
        cdef Selection selection = Selection.__new__(Selection, shape)
        cdef tuple items = full_key(key, selection.ndim)
        cdef int axis
        for axis in range(selection.ndim):
            item = items[axis]
            if isinstance(item, slice):
                set_slice(selection, axis, item)
                continue
            index = as_int(item) if np.ndim(item) == 0 else None
            if index is not None:
                set_integer(selection, axis, index)
                continue
            array = np.asarray(item)
            if array.ndim != 1:
                raise IndexError(f"oindex takes one-dimensional arrays, axis {axis} has {array.ndim} dimensions")
            if array.dtype.kind == "b":
                if len(array) != selection.bounds[axis]:
                    raise IndexError(
                        f"boolean index of axis {axis} has {len(array)} entries, the axis has {selection.bounds[axis]}"
                    )
                array = np.flatnonzero(array)
            selection._set_list(axis, coordinates(array, selection.bounds[axis], axis), chunk_shape[axis])
        selection.finish()
        return selection

    @staticmethod
    def points(object key, tuple shape, tuple chunk_shape):
        """Single items, by one array of integers per axis (broadcast together), or a mask of the array's shape."""
        cdef Selection selection = Selection.__new__(Selection, shape)
        cdef int ndim = selection.ndim
        cdef int axis
        items = key if isinstance(key, tuple) else (key,)
        if len(items) == 1 and np.ndim(items[0]) == ndim and np.asarray(items[0]).dtype.kind == "b":
            mask = np.asarray(items[0])
            if mask.shape != shape:
                raise IndexError(f"the mask has shape {mask.shape}, the array {shape}")
            # numpy finds what is set a good deal faster where there is one axis.
            items = np.unravel_index(np.flatnonzero(mask), shape) if ndim else (np.zeros(int(mask), np.int64),)
        elif len(items) != ndim:
            raise IndexError(
                f"vindex takes one array per axis ({ndim}) or a mask of the array's shape, not {len(items)}"
            )
        arrays = []
        for axis in range(ndim):
            if isinstance(items[axis], slice) or items[axis] is Ellipsis or items[axis] is None:
                raise IndexError("vindex takes arrays of integers for all axes, no slices")
            arrays.append(coordinates(items[axis], selection.bounds[axis], axis))
        if ndim == 0:
            count = len(items[0]) if len(items) else 1
            selection.result_shape = (count,) if len(items) else ()
        else:
            if any([array.shape != arrays[0].shape for array in arrays]):
                arrays = [np.ascontiguousarray(array) for array in np.broadcast_arrays(*arrays)]
            selection.result_shape = arrays[0].shape
            count = arrays[0].size
        selection.is_points = True
        group_points(selection, [array.reshape(-1) for array in arrays], chunk_shape, count)
        return selection

    cdef int64_t result_count(self) noexcept:
        cdef int64_t count = 1
        cdef int axis
        for axis in range(self.ndim):
            count *= self.axes[axis].count
        return count

    def _set_list(self, int axis, array, int64_t extent):
        cdef const int64_t[::1] view
        cdef Axis *place = &self.axes[axis]
        chunks = array // extent
        order = np.argsort(chunks, kind="stable").astype(np.int64)
        chunks = chunks[order]
        starts = np.ones(len(array), bool)
        starts[1:] = chunks[1:] != chunks[:-1]
        first = np.flatnonzero(starts)
        columns = [
            np.ascontiguousarray(chunks[first], np.int64),
            np.append(first, len(array)).astype(np.int64),
            np.ascontiguousarray(array[order] - chunks * extent, np.int64),
            order,
        ]
        if self._columns is None:
            self._columns = {}
        self._columns[axis] = tuple(columns)
        place.kind = LIST_AXIS
        place.count = len(array)
        place.chunk_count = len(first)
        if len(array):
            view = columns[0]
            place.chunks = &view[0]
            view = columns[1]
            place.first = &view[0]
            view = columns[2]
            place.source = &view[0]
            view = columns[3]
            place.target = &view[0]
        self.has_lists = True

    cdef int finish(self) except -1:
        cdef int axis
        self.result_shape = tuple([self.axes[axis].count for axis in range(self.ndim) if not self.dropped[axis]])
        return 0

    def chunk_counts(self, tuple chunk_shape):
        """How many chunks are touched along each axis; of points, of all axes together."""
        cdef int axis
        if self.is_points:
            return (len(self.point_positions),)
        return tuple([chunk_count(&self.axes[axis], chunk_shape[axis]) for axis in range(self.ndim)])

    def chunk_places(self, int axis, int64_t extent, int64_t first, int64_t stop):
        """Where the chunks `first` to `stop` of those that are touched along an axis stand in the grid, in order.

        A step larger than a chunk passes over chunks: those are left out.
        """
        cdef Axis *place = &self.axes[axis]
        if place.kind == LIST_AXIS:
            return self._columns[axis][0][first:stop]
        if place.step > extent:
            return (place.start + np.arange(first, stop) * place.step) // extent
        return np.arange(place.start // extent + first, place.start // extent + stop)

    def positions(self, tuple chunk_shape, window=None, most=None, bint reversed=False):
        """The grid positions of all chunks that are touched, as int64[n, ndim] in C order of the grid, or in Fortran's
        if they are wanted `reversed`; lists of coordinates and large steps have C order only.

        `window` limits them to (first, stop) along each axis, counted among the chunks that are touched along it. None
        if there are more than `most`; points are as many as they are.
        """
        cdef int axis, place, ndim = self.ndim
        cdef int64_t n = 1, i, rest, extent
        cdef int64_t limit = INT64_MAX if most is None else most
        cdef int64_t low[ZV_MAX_NDIM]
        cdef int64_t length[ZV_MAX_NDIM]
        cdef int64_t[:, ::1] view
        if self.is_points:
            return self.point_positions
        simple = not self.has_lists
        for axis in range(ndim):
            extent = chunk_shape[axis]
            low[axis] = self.axes[axis].start // extent
            if window is None:
                length[axis] = chunk_count(&self.axes[axis], extent)
            else:
                first, stop = window[axis]
                low[axis] += first
                length[axis] = stop - first
            if n > limit // max(length[axis], 1):
                return None
            n *= length[axis]
            if self.axes[axis].step > extent:
                simple = False
        if n == 0:
            return np.empty((0, ndim), np.int64)
        if simple:
            result = np.empty((n, ndim), np.int64)
            if ndim == 0:
                return result
            view = result
            python = let_go(n * ndim)
            for i in range(n):
                rest = i
                for place in range(ndim):
                    axis = place if reversed else ndim - 1 - place
                    view[i, axis] = low[axis] + rest % length[axis]
                    rest = rest // length[axis]
            take_back(python)
            return result
        if window is None:
            window = [(0, length[axis]) for axis in range(ndim)]
        columns = [self.chunk_places(axis, chunk_shape[axis], *window[axis]) for axis in range(ndim)]
        grid = np.meshgrid(*columns, indexing="ij")
        return np.ascontiguousarray(np.stack([plane.ravel() for plane in grid], axis=1), np.int64)

    def touched(self, const int64_t[:, ::1] positions, tuple chunk_shape):
        """For each chunk, or box of chunks in this shape, whether integers and slices select anything of it."""
        cdef int64_t i, extent
        cdef int axis
        cdef Axis *place
        cdef Share share
        if self.is_points or self.has_lists:
            raise ValueError("only of integers and slices it is known what they touch")
        result = np.ones(positions.shape[0], np.bool_)
        cdef unsigned char[::1] view = result.view(np.uint8)
        for axis in range(self.ndim):
            place = &self.axes[axis]
            extent = chunk_shape[axis]
            python = let_go(positions.shape[0])
            for i in range(positions.shape[0]):
                share = share_of(place, positions[i, axis], extent)
                if share.count == 0:
                    view[i] = False
            take_back(python)
        return result

    def points_of(self, rows, Py_ssize_t count):
        """(first, past the last) point of each of `count` chunks: those in `rows`, or all."""
        first = self.point_first
        if rows is None:
            rows = slice(0, count)
        else:
            rows = np.asarray(rows)
            if len(rows) and (rows.min() < 0 or rows.max() >= len(first) - 1):
                raise ValueError("rows that the selection does not have")
        begin = np.ascontiguousarray(first[:-1][rows])
        end = np.ascontiguousarray(first[1:][rows])
        if len(begin) != count:
            raise ValueError("the rows do not fit the chunks")
        return begin, end

    def share(self, position, tuple chunk_shape, Py_ssize_t row=0):
        """(index within the chunk, index in the result) of what is selected of one chunk, for numpy.

        The result is to be taken with one axis for each of the array's, those of integers with length one; see
        `full_shape`. `row` is the chunk's place among all that a selection of points touches.
        """
        cdef int axis
        cdef Share part
        cdef int64_t begin, end
        if self.is_points:
            begin, end = self.point_first[row], self.point_first[row + 1]
            source = self.point_source[begin:end]
            return tuple([source[:, axis] for axis in range(self.ndim)]), self.point_target[begin:end]
        within, result = [], []
        lists = False
        for axis in range(self.ndim):
            if self.axes[axis].kind == LIST_AXIS:
                chunks, first, source, targets = self._columns[axis]
                found = int(np.searchsorted(chunks, position[axis]))
                within.append(source[first[found] : first[found + 1]])
                result.append(targets[first[found] : first[found + 1]])
                lists = True
                continue
            part = share_of(&self.axes[axis], position[axis], chunk_shape[axis])
            within.append(slice(part.source, part.source + part.count * part.step, part.step))
            if self.flipped[axis]:
                begin = self.axes[axis].count - 1 - part.target
                end = begin - part.count
                result.append(slice(begin, None if end < 0 else end, -1))
            else:
                result.append(slice(part.target, part.target + part.count))
        if not lists:
            return tuple(within), tuple(result)
        return open_mesh(within, chunk_shape), open_mesh(result, self.full_shape)

    @property
    def full_shape(self):
        """The shape of the result before the axes of integers are dropped."""
        cdef int axis
        return self.result_shape if self.is_points else tuple([self.axes[axis].count for axis in range(self.ndim)])

    def covered(self, const int64_t[:, ::1] positions, tuple chunk_shape):
        """For each chunk, whether every one of its items that lies inside the array is selected."""
        cdef int64_t i
        cdef int axis
        cdef Py_ssize_t extent[ZV_MAX_NDIM]
        result = np.zeros(positions.shape[0], np.bool_)
        cdef unsigned char[::1] view = result.view(np.uint8)
        for axis in range(self.ndim):
            extent[axis] = chunk_shape[axis]
        python = let_go(positions.shape[0])
        for i in range(positions.shape[0]):
            view[i] = covers(self, &positions[i, 0] if self.ndim else NULL, extent)
        take_back(python)
        return result
