"""The memory that users hand in and get back: any buffer for its bytes, and strings that are filled in place."""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_CheckExact
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libc.string cimport strchr

from zvcore.errors import OutOfMemoryError

cdef extern from "Python.h":
    # With bare pointers: a string that is being filled must have exactly one owner.
    int _PyBytes_Resize(PyObject **string, Py_ssize_t size) except -1
    PyObject *PyBytes_FromStringAndSize(const char *text, Py_ssize_t size) except NULL
    char *PyBytes_Text "PyBytes_AS_STRING"(PyObject *string) noexcept nogil
    Py_ssize_t PyBytes_GET_SIZE(PyObject *string)
    void Py_DECREF(PyObject *object)
    const Py_ssize_t PY_SSIZE_T_MAX


# numpy, once somebody encodes or decodes: to look at a codec takes no more than the codec.
cdef object np = None


cdef int need_numpy() except -1:
    global np
    if np is None:
        import numpy

        np = numpy
    return 0


def readable_bytes(data):
    """A memoryview of the bytes of any buffer, in C order, copied only when they do not lie so."""
    need_numpy()
    if isinstance(data, np.ndarray):
        refuse_objects(data.dtype.hasobject)
        # Through uint8: some dtypes (datetime64, bfloat16) have no buffer format of their own.
        return memoryview(np.ascontiguousarray(data).reshape(-1).view(np.uint8))
    view = memoryview(data)
    if view.format == "B" and view.ndim == 1 and view.c_contiguous:
        return view
    refuse_objects("O" in view.format)
    if not view.c_contiguous or view.nbytes == 0:
        return memoryview(view.tobytes())
    # Not by cast(), which knows no structures.
    return memoryview(np.frombuffer(view, np.uint8))


cdef int refuse_objects(bint found) except -1:
    # Their bytes are addresses: to store them is senseless, to fill them in would crash.
    if found:
        raise TypeError("Python objects have no bytes to encode or decode into")
    return 0


cdef int get_input(object data, Py_buffer *view) except -1:
    if PyBytes_CheckExact(data):
        return PyObject_GetBuffer(data, view, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(data, view, PyBUF_ND | PyBUF_FORMAT)
    except (BufferError, ValueError):
        return PyObject_GetBuffer(readable_bytes(data), view, PyBUF_SIMPLE)
    if view.format != NULL and strchr(view.format, b"O") != NULL:
        PyBuffer_Release(view)
        return PyObject_GetBuffer(readable_bytes(data), view, PyBUF_SIMPLE)
    return 0


cdef int get_output(object out, Py_buffer *view) except -1:
    need_numpy()
    if isinstance(out, np.ndarray):
        refuse_objects(out.dtype.hasobject)
        if out.flags.c_contiguous and out.flags.writeable:
            # Through uint8: some dtypes have no buffer format of their own. A view of 0-d and empty arrays, too.
            out = out.reshape(-1).view(np.uint8)
    try:
        PyObject_GetBuffer(out, view, PyBUF_ND | PyBUF_FORMAT | PyBUF_WRITABLE)
    except (BufferError, ValueError) as error:
        raise ValueError(f"out must be a writable C-contiguous buffer: {error}") from None
    if view.format != NULL and strchr(view.format, b"O") != NULL:
        PyBuffer_Release(view)
        refuse_objects(True)
    return 0


cdef PyObject *new_bytes(uint64_t size) except NULL:
    if size > <uint64_t> PY_SSIZE_T_MAX - 64:
        raise OutOfMemoryError(f"no memory for {size} bytes")
    return PyBytes_FromStringAndSize(NULL, <Py_ssize_t> size)


cdef char *text_of(PyObject *string) noexcept nogil:
    return PyBytes_Text(string)


cdef object finished(PyObject *string, uint64_t size):
    """The string at its final size; the caller's reference goes over to the result."""
    if <uint64_t> PyBytes_GET_SIZE(string) != size:
        _PyBytes_Resize(&string, <Py_ssize_t> size)
    result = <object> string
    Py_DECREF(string)
    return result
