"""The arrays of a stored manifest, of which a set of meshes has as many as segments.

    f32 chunk_shape[3], f32 grid_origin[3], u32 n, f32 scale[n], f32 vertex_offset[n][3], u32 k[n]
    for each level: u32 positions[3][k], u32 sizes[k]
"""

cimport numpy as cnp
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint8_t, uint32_t

from zvcore.errors import CorruptDataError

from zvcore.kernels.unaligned cimport load_u32

cnp.import_array()

cdef enum:
    HEAD = 7        # words before those of the levels
    LEVEL = 5       # words of each level before its fragments


cdef cnp.ndarray part(cnp.ndarray words, Py_ssize_t at, int ndim, cnp.npy_intp *shape, int type):
    """An array of some of the words."""
    cdef cnp.ndarray found = cnp.PyArray_SimpleNewFromData(
        ndim, shape, type, <char *> cnp.PyArray_DATA(words) + 4 * at
    )
    Py_INCREF(words)
    cnp.PyArray_SetBaseObject(found, words)
    return found


def split_manifest(const uint8_t[::1] data not None, level):
    """(chunk_shape, grid_origin, levels): parts of one copy. Of each level is made what `level` returns for its scale,
    vertex_offset, positions and sizes. CorruptDataError when it is no manifest.
    """
    cdef Py_ssize_t length = data.shape[0]
    if length < 4 * HEAD:
        raise CorruptDataError("the manifest is cut off", expected="at least 28 bytes", found=length)
    cdef const uint8_t *p = &data[0]
    cdef Py_ssize_t count = load_u32(p + 24)
    cdef Py_ssize_t at = HEAD + LEVEL * count
    if length < 4 * at:
        raise CorruptDataError(
            f"a manifest of {count} levels is cut off", expected=f"at least {4 * at} bytes", found=length
        )
    cdef Py_ssize_t number, fragments, end = at
    cdef object total
    for number in range(count):
        end += 4 * <Py_ssize_t> load_u32(p + 4 * (HEAD + 4 * count + number))
        if 4 * end > length:
            break
    if 4 * end != length:
        total = 0
        for number in range(count):
            total += <object> load_u32(p + 4 * (HEAD + 4 * count + number))
        raise CorruptDataError(
            f"a manifest of {count} levels with {total} fragments has another size",
            expected=f"{4 * at + 16 * total} bytes", found=length,
        )
    cdef cnp.npy_intp size = end
    cdef cnp.ndarray words = cnp.PyArray_EMPTY(1, &size, cnp.NPY_UINT32, 0)
    cdef uint32_t *to = <uint32_t *> cnp.PyArray_DATA(words)
    for number in range(end):
        to[number] = load_u32(p + 4 * number)
    cdef const float *floats = <const float *> to
    cdef list levels = []
    cdef cnp.npy_intp three = 3
    cdef cnp.npy_intp[2] columns
    for number in range(count):
        fragments = to[HEAD + 4 * count + number]
        columns[0], columns[1] = 3, fragments
        levels.append(level(
            floats[HEAD + number], part(words, HEAD + count + 3 * number, 1, &three, cnp.NPY_FLOAT32),
            cnp.PyArray_Transpose(part(words, at, 2, columns, cnp.NPY_UINT32), NULL),
            part(words, at + 3 * fragments, 1, &columns[1], cnp.NPY_UINT32),
        ))
        at += 4 * fragments
    chunk_shape = part(words, 0, 1, &three, cnp.NPY_FLOAT32)
    return chunk_shape, part(words, 3, 1, &three, cnp.NPY_FLOAT32), levels
