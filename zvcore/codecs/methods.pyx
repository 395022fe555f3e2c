"""Runs codecs that only have Python methods, with the checks that those with a C table have."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memmove

from zvcore.codecs.buffers cimport get_output
from zvcore.codecs.table cimport decode_limit

from zvcore.codecs.buffers import readable_bytes
from zvcore.codecs.failures import too_long, wrong_size
from zvcore.errors import CorruptDataError, ZvcoreError


def decode_through(function, name, data, out, max_size):
    """Decode by a Python function of (data, max_size), with the checks that decoding through a table has."""
    cdef Py_buffer dst
    cdef Py_buffer result
    view = readable_bytes(data)
    if out is None:
        limit = decode_limit(max_size)
        decoded = called(function, name, view, limit)
        if not isinstance(decoded, bytes):
            decoded = readable_bytes(decoded)
        if len(decoded) > limit:
            raise too_long(name, limit, len(decoded))
        return decoded
    get_output(out, &dst)
    try:
        decoded = readable_bytes(called(function, name, view, dst.len))
        if decoded.nbytes != dst.len:
            raise wrong_size(name, dst.len, decoded.nbytes)
        PyObject_GetBuffer(decoded, &result, PyBUF_SIMPLE)
        if result.len:
            memmove(dst.buf, result.buf, result.len)
        PyBuffer_Release(&result)
        return out
    finally:
        PyBuffer_Release(&dst)


def decode_into(function, name, data, out):
    """Decode by a Python function of (data, out), which fills all of `out`."""
    called(function, name, data, out)


cdef object called(function, name, view, limit):
    try:
        return function(view, limit)
    except ZvcoreError as error:
        raise error.located(codec=name)
    except (MemoryError, NotImplementedError):
        raise
    except Exception as error:
        # Whatever a library raises over stored bytes is a fault of these bytes; the cause tells if it is not.
        raise CorruptDataError(f"not a valid stream ({type(error).__name__}: {error})", codec=name) from error
