"""Moves between a chunk and a region of an array of any strides, in one pass.

Copying, clipping (by the shape given), reversing or permuting axes and byte swapping are one move here, because each
pass over the data costs as much as the next. The engine calls the C functions of blocks.pxd without the GIL; the
Python functions check everything and then do the same.
"""

cimport numpy as cnp
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport uint32_t
from libc.string cimport memcmp

import numpy as np

from zvcore.kernels.cpu cimport features
from zvcore.system.gil cimport let_go, take_back

cnp.import_array()


cdef extern from "zv_blocks.h" nogil:
    ctypedef struct zv_plane:
        ptrdiff_t n0, n1, d0, d1, s0, s1
        int by_source
        ptrdiff_t parts, part
    ctypedef void (*zv_mover)(char *d, const char *s, const zv_plane *p, const char *next) noexcept nogil
    const ptrdiff_t ZV_CALL
    zv_mover zv_find_mover(uint32_t features, ptrdiff_t size, int unit, int tiles)
    zv_mover zv_find_splitter(uint32_t features, ptrdiff_t size, int unit, int into)
    void zv_copy_rows(char *d, const char *s, const zv_plane *p, const char *next)
    zv_mover zv_find_streamer(uint32_t features, int unit)
    bint zv_is_whole_lines(const char *d, const zv_plane *p, ptrdiff_t bytes)
    void zv_join_rows(char *d, ptrdiff_t d_stride, const char *s, ptrdiff_t s_stride, ptrdiff_t apart, ptrdiff_t n,
                      ptrdiff_t bytes)
    void zv_end_streaming()
    ptrdiff_t zv_rows_staged(const char *d, const zv_plane *p, ptrdiff_t size)
    void zv_move_staged(zv_mover mover, ptrdiff_t rows, char *d, const char *s, const zv_plane *p,
                        ptrdiff_t size)
    const bint ZV_STREAMS
    const ptrdiff_t ZV_LINE


cdef struct Axis:
    Py_ssize_t n
    Py_ssize_t d
    Py_ssize_t s


cdef enum:
    # One more than an array has: an item of a size that no mover takes becomes an axis of smaller ones.
    MAX_AXES = ZV_MAX_NDIM + 1
    PAGE = 4096


cdef struct Move:
    char *dst
    const char *src
    Py_ssize_t itemsize
    int swap_unit
    bint by_source
    bint far                # the destination does not stay in the caches
    int count
    Axis[MAX_AXES] axes


cdef inline Py_ssize_t distance(Py_ssize_t stride) noexcept nogil:
    return -stride if stride < 0 else stride


cdef inline bint is_known(Py_ssize_t itemsize, int swap_unit) noexcept nogil:
    return zv_find_mover(features, itemsize, swap_unit, 0) != NULL


cdef inline Py_ssize_t order_of(const Move *move, Axis axis) noexcept nogil:
    return distance(axis.s) if move.by_source else axis.d


cdef void add_axis(Move *move, Axis axis) noexcept nogil:
    """Put an axis in its place, from slowest to fastest; the destination is walked forwards."""
    cdef int place = move.count
    if axis.n == 1:
        return
    if axis.d < 0:
        move.dst += (axis.n - 1) * axis.d
        move.src += (axis.n - 1) * axis.s
        axis.d = -axis.d
        axis.s = -axis.s
    while place > 0 and order_of(move, move.axes[place - 1]) < order_of(move, axis):
        move.axes[place] = move.axes[place - 1]
        place -= 1
    move.axes[place] = axis
    move.count += 1


cdef void split_items(Move *move) noexcept nogil:
    """Turn an item of a size that no mover takes into an axis of smaller ones."""
    cdef Py_ssize_t part = move.swap_unit
    if is_known(move.itemsize, move.swap_unit):
        return
    if part == 0:
        part = min(move.itemsize & -move.itemsize, 16)
    add_axis(move, Axis(move.itemsize // part, part, part))
    move.itemsize = part


cdef void merge_axes(Move *move) noexcept nogil:
    """Merge neighbouring axes that form one run in both arrays, and turn a short run into one larger item."""
    cdef Axis outer, inner
    cdef int kept = 0
    cdef int i
    if move.count == 0:
        return
    for i in range(1, move.count):
        outer = move.axes[kept]
        inner = move.axes[i]
        if outer.d == inner.n * inner.d and outer.s == inner.n * inner.s:
            move.axes[kept] = Axis(outer.n * inner.n, inner.d, inner.s)
        else:
            kept += 1
            move.axes[kept] = inner
    inner = move.axes[kept]
    move.count = kept + 1
    if kept and not move.swap_unit and inner.d == move.itemsize and inner.s == move.itemsize and inner.n <= 24:
        if is_known(inner.n * inner.d, 0):
            move.itemsize *= inner.n
            move.count = kept


cdef Axis take_axis(Move *move, int place) noexcept nogil:
    cdef Axis axis = move.axes[place]
    move.count -= 1
    while place < move.count:
        move.axes[place] = move.axes[place + 1]
        place += 1
    return axis


cdef bint has_whole_lines(const Move *move) noexcept nogil:
    """Whether every plane begins with a line of the destination if the first does."""
    cdef int i
    for i in range(move.count):
        if move.axes[i].d % ZV_LINE:
            return False
    return True


cdef zv_mover take_plane(Move *move, zv_plane *plane) noexcept nogil:
    """Remove the two axes that a mover works on, and choose the mover.

    The inner one is the axis along which neighbours lie in the destination. The outer one is the axis along which they
    lie in the source, if they are nearer there than along the inner axis; otherwise the fastest of the others.
    """
    cdef Axis inner = Axis(1, move.itemsize, move.itemsize)
    cdef Axis outer = Axis(1, 0, 0)
    cdef Py_ssize_t nearest
    cdef int place, i
    cdef bint tiles = False
    cdef zv_mover streamer
    if move.count:
        place = move.count - 1
        for i in range(move.count):
            if move.axes[i].d < move.axes[place].d:
                place = i
        inner = take_axis(move, place)
    if move.count:
        place = move.count - 1
        nearest = distance(inner.s)
        for i in range(move.count):
            if move.axes[i].s != 0 and distance(move.axes[i].s) < nearest:
                nearest = distance(move.axes[i].s)
                place = i
                tiles = True
        outer = take_axis(move, place)
    if tiles and outer.d >= PAGE:
        # Rows of the destination that all lie in different pages are written one after the other.
        move.by_source = False
    plane[0] = zv_plane(outer.n, inner.n, outer.d, inner.d, outer.s, inner.s, move.by_source, 1, 0)
    if inner.d == move.itemsize and inner.s == move.itemsize:
        if move.far and zv_is_whole_lines(move.dst, plane, inner.n * move.itemsize) and has_whole_lines(move):
            streamer = zv_find_streamer(features, move.swap_unit)
            if streamer != NULL:
                plane.n1 = inner.n * move.itemsize
                return streamer
        if not move.swap_unit and inner.n * move.itemsize >= ZV_CALL:
            plane.n1 = inner.n * move.itemsize
            return zv_copy_rows
    return zv_find_mover(features, move.itemsize, move.swap_unit, tiles)


cdef int find_axis(const Move *move, Py_ssize_t d, Py_ssize_t s) noexcept nogil:
    """An axis of more than one item with these strides, 0: any; -1 if there is none."""
    cdef int i
    for i in range(move.count):
        if (d == 0 or move.axes[i].d == d) and (s == 0 or move.axes[i].s == s):
            return i
    return -1


cdef zv_mover take_split_plane(Move *move, zv_plane *plane) noexcept nogil:
    """The same for a few items that are neighbours in one of the arrays alone, with those that follow them there; NULL
    and nothing is taken if there are none, or so many that they fill a vector.
    """
    cdef Py_ssize_t side
    cdef int near_d, near_s, rest, i
    cdef Axis few, many, whole
    cdef bint into
    cdef zv_mover mover
    if move.count < 3:
        return NULL
    side = 16 // move.itemsize
    near_d = find_axis(move, move.itemsize, 0)
    near_s = find_axis(move, 0, move.itemsize)
    if near_d < 0 or near_s < 0 or near_d == near_s:
        return NULL
    into = move.axes[near_s].n < side
    few = move.axes[near_s if into else near_d]
    many = move.axes[near_d if into else near_s]
    rest = find_axis(move, 0, few.n * move.itemsize) if into else find_axis(move, few.n * move.itemsize, 0)
    mover = zv_find_splitter(features, move.itemsize, move.swap_unit, into)
    if (mover == NULL or rest < 0 or rest == near_d or rest == near_s or few.n >= side or many.n < side
            or few.n * move.axes[rest].n < side):
        return NULL
    whole = move.axes[rest]
    if into:
        plane[0] = zv_plane(few.n * whole.n, many.n, whole.d, many.d, few.s, many.s, False, few.n, few.d)
    else:
        plane[0] = zv_plane(many.n, few.n * whole.n, many.d, few.d, many.s, whole.s, False, few.n, few.s)
    for i in range(move.count - 1, -1, -1):
        if i == near_d or i == near_s or i == rest:
            take_axis(move, i)
    return mover


cdef void copy_block(char *dst, const Py_ssize_t *dst_strides, const char *src, const Py_ssize_t *src_strides,
                     const Py_ssize_t *shape, int ndim, Py_ssize_t itemsize, int swap_unit) noexcept nogil:
    cdef Move move = a_move(dst, src, itemsize, swap_unit, False)
    if plan_move(&move, dst_strides, src_strides, shape, ndim):
        run_move(&move)


cdef void copy_block_far(char *dst, const Py_ssize_t *dst_strides, const char *src, const Py_ssize_t *src_strides,
                         const Py_ssize_t *shape, int ndim, Py_ssize_t itemsize, int swap_unit) noexcept nogil:
    cdef Move move = a_move(dst, src, itemsize, swap_unit, ZV_STREAMS)
    if plan_move(&move, dst_strides, src_strides, shape, ndim):
        run_move(&move)
        zv_end_streaming()


cdef inline Move a_move(char *dst, const char *src, Py_ssize_t itemsize, int swap_unit, bint far) noexcept nogil:
    cdef Move move
    move.dst = dst
    move.src = src
    move.itemsize = itemsize
    move.swap_unit = swap_unit if swap_unit > 1 else 0
    move.far = far
    move.count = 0
    return move


cdef bint plan_move(Move *move, const Py_ssize_t *dst_strides, const Py_ssize_t *src_strides, const Py_ssize_t *shape,
                    int ndim) noexcept nogil:
    """False when there is nothing to move."""
    cdef Py_ssize_t dst_span = 0
    cdef Py_ssize_t src_span = 0
    cdef int i

    for i in range(ndim):
        if shape[i] <= 0:
            return False
        dst_span += (shape[i] - 1) * distance(dst_strides[i])
        src_span += (shape[i] - 1) * distance(src_strides[i])
    if move.itemsize <= 0:
        return False
    # One of the two is a chunk, which fits the caches; the other one is better walked in the order of its memory.
    move.by_source = src_span > dst_span
    for i in range(ndim):
        add_axis(move, Axis(shape[i], dst_strides[i], src_strides[i]))
    split_items(move)
    merge_axes(move)
    return True


cdef void run_move(Move *move) noexcept nogil:
    cdef Py_ssize_t[MAX_AXES] position
    cdef zv_plane plane
    cdef zv_mover mover = take_split_plane(move, &plane)
    cdef Py_ssize_t staged = 0
    cdef char *dst = move.dst
    cdef char *next_dst
    cdef const char *src = move.src
    cdef const char *next_src
    cdef int i
    if mover == NULL:
        mover = take_plane(move, &plane)
    if move.far and mover == zv_find_mover(features, move.itemsize, move.swap_unit, True) and has_whole_lines(move):
        staged = zv_rows_staged(dst, &plane, move.itemsize)
    for i in range(move.count):
        position[i] = 0
    while True:
        next_dst = dst
        next_src = src
        i = move.count - 1
        while i >= 0:
            position[i] += 1
            next_dst += move.axes[i].d
            next_src += move.axes[i].s
            if position[i] < move.axes[i].n:
                break
            next_dst -= move.axes[i].n * move.axes[i].d
            next_src -= move.axes[i].n * move.axes[i].s
            position[i] = 0
            i -= 1
        if i < 0:
            next_dst = dst
            next_src = src
        if staged:
            zv_move_staged(mover, staged, dst, src, &plane, move.itemsize)
        else:
            mover(dst, src, &plane, next_src if move.by_source else next_dst)
        if i < 0:
            return
        dst = next_dst
        src = next_src


cdef int blocks_in_a_line(Py_ssize_t row) noexcept nogil:
    return ZV_LINE // row if ZV_STREAMS and (row == 16 or row == 32) else 0


cdef void copy_joined_far(char *dst, const Py_ssize_t *dst_strides, const char *src, const Py_ssize_t *src_strides,
                          const Py_ssize_t *shape, int ndim, Py_ssize_t itemsize, Py_ssize_t apart) noexcept nogil:
    cdef Py_ssize_t[MAX_AXES] position
    cdef Py_ssize_t rows = shape[ndim - 2] if ndim > 1 else 1
    cdef Py_ssize_t dst_row = dst_strides[ndim - 2] if ndim > 1 else 0
    cdef Py_ssize_t src_row = src_strides[ndim - 2] if ndim > 1 else 0
    cdef int i
    for i in range(ndim - 2):
        position[i] = 0
    while True:
        zv_join_rows(dst, dst_row, src, src_row, apart, rows, shape[ndim - 1] * itemsize)
        i = ndim - 3
        while i >= 0:
            position[i] += 1
            dst += dst_strides[i]
            src += src_strides[i]
            if position[i] < shape[i]:
                break
            dst -= shape[i] * dst_strides[i]
            src -= shape[i] * src_strides[i]
            position[i] = 0
            i -= 1
        if i < 0:
            break
    zv_end_streaming()


cdef void fill_block(char *dst, const Py_ssize_t *dst_strides, const Py_ssize_t *shape, int ndim, Py_ssize_t itemsize,
                     const char *item) noexcept nogil:
    cdef Py_ssize_t[ZV_MAX_NDIM] still
    cdef int i
    for i in range(ndim):
        still[i] = 0
    copy_block(dst, dst_strides, item, still, shape, ndim, itemsize, 0)


cdef bint is_filled(const char *src, Py_ssize_t count, Py_ssize_t itemsize, const char *item) noexcept nogil:
    if count <= 0 or itemsize <= 0:
        return True
    # The first item is the one asked for, and each byte equals the one an item later.
    return memcmp(src, item, itemsize) == 0 and memcmp(src + itemsize, src, (count - 1) * itemsize) == 0


def swap_unit(dtype):
    """How many bytes of an item byte swapping reverses as one: the `swap_unit` of the C functions."""
    dtype = np.dtype(dtype)
    # The numbers of ml_dtypes have a kind of their own.
    if (dtype.kind in "iufmM" or dtype.isbuiltin == 2) and dtype.itemsize in (1, 2, 4, 8, 16):
        return dtype.itemsize if dtype.itemsize > 1 else 0
    if dtype.kind == "c" and dtype.itemsize in (8, 16, 32):
        return dtype.itemsize // 2
    if dtype.kind == "U":
        return 4
    if dtype.kind in "bS":
        return 0
    raise TypeError(f"items of {dtype} have no byte order that a swap could change")


cdef int check_array(cnp.ndarray array, str name, bint written) except -1:
    if array.dtype.hasobject:
        raise TypeError(f"{name} holds Python objects")
    if array.ndim > ZV_MAX_NDIM:
        raise ValueError(f"{name} has {array.ndim} axes; at most {ZV_MAX_NDIM} are supported")
    if written and not array.flags.writeable:
        raise ValueError(f"{name} is read-only")
    return 0


cdef cnp.ndarray one_item(object dtype, object value):
    """`value` as numpy converts it on assignment."""
    cdef cnp.ndarray item = np.empty((), dtype)
    item[...] = value
    return item


def copy(cnp.ndarray dst not None, cnp.ndarray src not None, bint swap=False):
    """Copy `src` into `dst`, two arrays of one shape whose items are of one kind and size, whatever their strides.

    Byte orders in the dtypes play no part: bytes are moved as they are, or, with `swap`, in the other order. Views of
    the same memory are allowed.
    """
    check_array(dst, "dst", True)
    check_array(src, "src", False)
    if dst.dtype != src.dtype and dst.dtype != src.dtype.newbyteorder():
        raise TypeError(f"dst has items of {dst.dtype}, src of {src.dtype}")
    if (<object> dst).shape != (<object> src).shape:
        raise ValueError(f"dst has the shape {(<object> dst).shape}, src {(<object> src).shape}")
    cdef int unit = swap_unit(dst.dtype) if swap else 0
    if np.may_share_memory(dst, src):
        src = src.copy()
    cdef Py_ssize_t itemsize = cnp.PyArray_ITEMSIZE(dst)
    cdef int ndim = cnp.PyArray_NDIM(dst)
    with nogil:
        copy_block(
            <char *> cnp.PyArray_DATA(dst), <const Py_ssize_t *> cnp.PyArray_STRIDES(dst),
            <const char *> cnp.PyArray_DATA(src), <const Py_ssize_t *> cnp.PyArray_STRIDES(src),
            <const Py_ssize_t *> cnp.PyArray_DIMS(dst), ndim, itemsize, unit,
        )


def fill(cnp.ndarray dst not None, value):
    """Set every item of `dst` to `value`, converted to its dtype as numpy does."""
    check_array(dst, "dst", True)
    cdef cnp.ndarray item = one_item(dst.dtype, value)
    cdef Py_ssize_t itemsize = cnp.PyArray_ITEMSIZE(dst)
    cdef int ndim = cnp.PyArray_NDIM(dst)
    with nogil:
        fill_block(
            <char *> cnp.PyArray_DATA(dst), <const Py_ssize_t *> cnp.PyArray_STRIDES(dst),
            <const Py_ssize_t *> cnp.PyArray_DIMS(dst), ndim, itemsize, <const char *> cnp.PyArray_DATA(item),
        )


def holds_only(cnp.ndarray array not None, value):
    """Whether every item of a contiguous array is `value`, byte for byte: 0.0 is not -0.0, a NaN equals itself."""
    check_array(array, "array", False)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError("array is not contiguous")
    cdef cnp.ndarray item = one_item(array.dtype, value)
    cdef Py_ssize_t count = array.size
    cdef Py_ssize_t itemsize = cnp.PyArray_ITEMSIZE(array)
    cdef bint answer
    python = let_go(array.nbytes // 16)
    answer = is_filled(<const char *> cnp.PyArray_DATA(array), count, itemsize, <const char *> cnp.PyArray_DATA(item))
    take_back(python)
    return answer
