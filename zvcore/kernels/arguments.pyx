"""How the kernels take integers from Python: integers of any type, byte order and strides, and nothing else."""

cimport numpy as cnp

import operator

import numpy as np

cnp.import_array()


cdef cnp.ndarray integers(object values, str name, int ndim):
    """An array of `ndim` axes and of a native (u)int32 or (u)int64 type; shares memory with `values` where it can."""
    cdef cnp.ndarray array = values if isinstance(values, np.ndarray) else _array_of(values, name)
    if cnp.PyArray_NDIM(array) != ndim:
        raise ValueError(f"{name} must have {ndim} {'axis' if ndim == 1 else 'axes'}, not {cnp.PyArray_NDIM(array)}")
    if not cnp.PyArray_ISINTEGER(array):
        raise TypeError(f"{name} must be integers, not {array.dtype}")
    if cnp.PyArray_ITEMSIZE(array) < 4:
        return array.astype(np.int32 if cnp.PyArray_ISSIGNED(array) else np.uint32)
    if not cnp.PyArray_ISNOTSWAPPED(array):
        return array.astype(array.dtype.newbyteorder("="))
    return array


cdef cnp.ndarray uint64_column(object values, str name):
    """An array of one axis and of native uint64, with any stride; a negative value is an error that names its row."""
    cdef cnp.ndarray array = integers(values, name, 1)
    if cnp.PyArray_ISSIGNED(array) and cnp.PyArray_SIZE(array) and array.min() < 0:
        row = int((array < 0).argmax())
        raise ValueError(f"{name}[{row}] is {array[row]}, but must be between 0 and 2**64 - 1")
    if cnp.PyArray_ISUNSIGNED(array) and cnp.PyArray_ITEMSIZE(array) == 8:
        return array
    return array.astype(np.uint64)


cdef cnp.ndarray uint64_row(object values, str name):
    """As `uint64_column`, but aligned and in one piece."""
    cdef cnp.ndarray array = uint64_column(values, name)
    if cnp.PyArray_ISCARRAY_RO(array):
        return array
    return np.require(array, requirements=["C_CONTIGUOUS", "ALIGNED"])


cdef cnp.ndarray _array_of(object values, str name):
    array = np.asarray(values)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "fO":
        return array
    # A list that mixes large and small integers, or whose integers are too large.
    array = np.array(values, dtype=object)
    try:
        return np.array([operator.index(value) for value in array.flat], dtype=np.uint64).reshape(array.shape)
    except TypeError:
        raise TypeError(f"{name} must be integers") from None
    except OverflowError:
        raise ValueError(f"{name} must be between 0 and 2**64 - 1") from None
