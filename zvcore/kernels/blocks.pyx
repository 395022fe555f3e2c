"""Moves between a chunk and a region of an array of any strides, in one pass.

Copying, clipping (by the shape given), reversing or permuting axes and byte swapping are one move here, because each
pass over the data costs as much as the next. The engine calls the C functions of blocks.pxd without the GIL; the
Python functions check everything and then do the same.
"""

cimport numpy as cnp
from libc.string cimport memcmp
from libc.stddef cimport ptrdiff_t

import numpy as np

cnp.import_array()

cdef extern from "blocks_move.h" nogil:
    ctypedef void (*zv_mover)(char *d, ptrdiff_t d0, ptrdiff_t d1, const char *s, ptrdiff_t s0, ptrdiff_t s1,
                              ptrdiff_t n0, ptrdiff_t n1) noexcept nogil
    zv_mover zv_find_mover(ptrdiff_t size, int unit, int tiles)
    void zv_copy_rows(char *d, ptrdiff_t d0, ptrdiff_t d1, const char *s, ptrdiff_t s0, ptrdiff_t s1, ptrdiff_t n0,
                      ptrdiff_t n1)


cdef struct Axis:
    Py_ssize_t n
    Py_ssize_t d
    Py_ssize_t s


cdef enum:
    # One more than the axes of an array: an item that no mover knows becomes an axis of smaller ones.
    MAX_AXES = ZV_MAX_NDIM + 1


cdef inline Py_ssize_t distance(Py_ssize_t stride) noexcept nogil:
    return -stride if stride < 0 else stride


cdef void copy_block(char *dst, const Py_ssize_t *dst_strides, const char *src, const Py_ssize_t *src_strides,
                     const Py_ssize_t *shape, int ndim, Py_ssize_t itemsize, int swap_unit) noexcept nogil:
    cdef Axis[MAX_AXES] axes
    cdef Py_ssize_t[MAX_AXES] position
    cdef Axis axis, inner, outer
    cdef Py_ssize_t part
    cdef zv_mover mover
    cdef int count = 0
    cdef int kept, i, j, fastest

    for i in range(ndim):
        if shape[i] == 0:
            return
    if itemsize == 0:
        return
    if swap_unit <= 1:
        swap_unit = 0

    # Axes of one element say nothing. The destination is walked forwards, from its slowest to its fastest axis.
    for i in range(ndim):
        axis = Axis(shape[i], dst_strides[i], src_strides[i])
        if axis.n == 1:
            continue
        if axis.d < 0:
            dst += (axis.n - 1) * axis.d
            src += (axis.n - 1) * axis.s
            axis.d = -axis.d
            axis.s = -axis.s
        j = count
        while j > 0 and axes[j - 1].d < axis.d:
            axes[j] = axes[j - 1]
            j -= 1
        axes[j] = axis
        count += 1

    if zv_find_mover(itemsize, swap_unit, 0) == NULL:
        if swap_unit:
            part = swap_unit
        else:
            part = itemsize & -itemsize
            if part > 16:
                part = 16
        axes[count] = Axis(itemsize // part, part, part)
        count += 1
        itemsize = part

    # Neighbouring axes that are one run in both become one axis.
    kept = 0
    for i in range(1, count):
        outer = axes[kept]
        inner = axes[i]
        if outer.d == inner.n * inner.d and outer.s == inner.n * inner.s:
            axes[kept] = Axis(outer.n * inner.n, inner.d, inner.s)
        else:
            kept += 1
            axes[kept] = inner
    if count:
        count = kept + 1

    # A short run of whole items moves as one larger item, so that a permutation of the other axes can use tiles.
    if count > 1 and not swap_unit:
        inner = axes[count - 1]
        if inner.d == itemsize and inner.s == itemsize and inner.n <= 16:
            if zv_find_mover(inner.n * itemsize, 0, 0) != NULL:
                itemsize *= inner.n
                count -= 1

    # The mover takes the last two axes: for tiles, the fastest axis of the source and that of the destination.
    if count == 0:
        inner = Axis(1, itemsize, itemsize)
    else:
        inner = axes[count - 1]
        count -= 1
    fastest = -1
    for i in range(count):
        if axes[i].s != 0 and distance(axes[i].s) < distance(inner.s):
            if fastest < 0 or distance(axes[i].s) < distance(axes[fastest].s):
                fastest = i
    if fastest >= 0:
        outer = axes[fastest]
        for i in range(fastest, count - 1):
            axes[i] = axes[i + 1]
        count -= 1
        mover = zv_find_mover(itemsize, swap_unit, 1)
    else:
        outer = Axis(1, 0, 0)
        if count:
            outer = axes[count - 1]
            count -= 1
        mover = zv_find_mover(itemsize, swap_unit, 0)
        if not swap_unit and inner.d == itemsize and inner.s == itemsize:
            inner.n *= itemsize
            mover = zv_copy_rows

    for i in range(count):
        position[i] = 0
    while True:
        mover(dst, outer.d, inner.d, src, outer.s, inner.s, outer.n, inner.n)
        i = count - 1
        while i >= 0:
            position[i] += 1
            dst += axes[i].d
            src += axes[i].s
            if position[i] < axes[i].n:
                break
            dst -= axes[i].n * axes[i].d
            src -= axes[i].n * axes[i].s
            position[i] = 0
            i -= 1
        if i < 0:
            return


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
    # Equal to the item, and each byte equal to the one an item later.
    return memcmp(src, item, itemsize) == 0 and memcmp(src + itemsize, src, (count - 1) * itemsize) == 0


def swap_unit(dtype):
    """How many bytes of an item byte swapping reverses as one: the `swap_unit` of the C functions."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iufmM" and dtype.itemsize in (1, 2, 4, 8, 16):
        return dtype.itemsize if dtype.itemsize > 1 else 0
    if dtype.kind == "c" and dtype.itemsize in (8, 16, 32):
        return dtype.itemsize // 2
    if dtype.kind == "U":
        return 4
    if dtype.kind in "bS":
        return 0
    raise TypeError(f"items of {dtype} have no byte order that a swap could change")


cdef int check_array(array, name) except -1:
    if array.dtype.hasobject:
        raise TypeError(f"{name} holds Python objects")
    if array.ndim > ZV_MAX_NDIM:
        raise ValueError(f"{name} has {array.ndim} axes; at most {ZV_MAX_NDIM} are supported")
    return 0


def copy(cnp.ndarray dst not None, cnp.ndarray src not None, bint swap=False):
    """Copy `src` into `dst`, two arrays of one shape and of items of one kind and size, whatever their strides.

    Byte orders in the dtypes play no part: bytes are moved as they are, or, with `swap`, in the other order.
    """
    check_array(dst, "dst")
    check_array(src, "src")
    if dst.dtype != src.dtype and dst.dtype != src.dtype.newbyteorder():
        raise TypeError(f"dst has items of {dst.dtype}, src of {src.dtype}")
    cdef int ndim = dst.ndim
    if ndim != src.ndim or (<object>dst).shape != (<object>src).shape:
        raise ValueError(f"dst has the shape {(<object>dst).shape}, src {(<object>src).shape}")
    if not dst.flags.writeable:
        raise ValueError("dst is read-only")
    cdef int unit = swap_unit(dst.dtype) if swap else 0
    if np.may_share_memory(dst, src):
        src = src.copy()
    cdef Py_ssize_t itemsize = cnp.PyArray_ITEMSIZE(dst)
    with nogil:
        copy_block(
            <char *>cnp.PyArray_DATA(dst), <const Py_ssize_t *>cnp.PyArray_STRIDES(dst),
            <const char *>cnp.PyArray_DATA(src), <const Py_ssize_t *>cnp.PyArray_STRIDES(src),
            <const Py_ssize_t *>cnp.PyArray_DIMS(dst), ndim, itemsize, unit,
        )


def fill(cnp.ndarray dst not None, value):
    """Set every item of `dst` to `value`, converted to its dtype as numpy does."""
    check_array(dst, "dst")
    if not dst.flags.writeable:
        raise ValueError("dst is read-only")
    cdef cnp.ndarray item = np.empty((), dst.dtype)
    item[...] = value
    cdef Py_ssize_t itemsize = cnp.PyArray_ITEMSIZE(dst)
    cdef int ndim = dst.ndim
    with nogil:
        fill_block(
            <char *>cnp.PyArray_DATA(dst), <const Py_ssize_t *>cnp.PyArray_STRIDES(dst),
            <const Py_ssize_t *>cnp.PyArray_DIMS(dst), ndim, itemsize, <const char *>cnp.PyArray_DATA(item),
        )


def holds_only(cnp.ndarray array not None, value):
    """Whether every item of a contiguous array is, byte for byte, `value`: 0.0 is not -0.0, and NaN is itself."""
    check_array(array, "array")
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ValueError("array is not contiguous")
    cdef cnp.ndarray item = np.empty((), array.dtype)
    item[...] = value
    cdef Py_ssize_t count = array.size
    cdef Py_ssize_t itemsize = cnp.PyArray_ITEMSIZE(array)
    cdef bint answer
    with nogil:
        answer = is_filled(
            <const char *>cnp.PyArray_DATA(array), count, itemsize, <const char *>cnp.PyArray_DATA(item)
        )
    return answer
