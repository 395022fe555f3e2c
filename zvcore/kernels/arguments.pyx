"""How the kernels take integers from Python: any integer type, byte order and strides, and nothing that is no integer."""

cimport numpy as cnp

import operator

import numpy as np

cnp.import_array()


cdef cnp.ndarray integers(object values, str name, int ndim):
    """An array of `ndim` axes and of a native (u)int32 or (u)int64 type; shares memory with `values` where it can."""
    if isinstance(values, np.ndarray):
        array = values
    else:
        array = np.asarray(values)
        if array.size == 0:
            array = array.astype(np.int64)
        elif array.dtype.kind in "fO":
            # A list that mixes large and small integers, or whose integers are too large.
            array = _of_python_integers(values, name)
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} {'axis' if ndim == 1 else 'axes'}, not {array.ndim}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, not {array.dtype}")
    wanted = array.dtype.newbyteorder("=")
    if wanted.itemsize < 4:
        wanted = np.dtype(np.int32 if wanted.kind == "i" else np.uint32)
    return array.astype(wanted, copy=False)


cdef cnp.ndarray uint64_column(object values, str name):
    """An array of one axis and of native uint64, with any stride; a negative value is an error that names its row."""
    array = integers(values, name, 1)
    if array.dtype.kind == "i":
        if array.size and array.min() < 0:
            row = int((array < 0).argmax())
            raise ValueError(f"{name}[{row}] is {array[row]}, but must be between 0 and 2**64 - 1")
    return array.astype(np.uint64, copy=False)


cdef object _of_python_integers(object values, str name):
    array = np.array(values, dtype=object)
    try:
        return np.array([operator.index(value) for value in array.flat], dtype=np.uint64).reshape(array.shape)
    except TypeError:
        raise TypeError(f"{name} must be integers") from None
    except OverflowError:
        raise ValueError(f"{name} must be between 0 and 2**64 - 1") from None
