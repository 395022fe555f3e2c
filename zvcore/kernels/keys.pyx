"""Names of chunks, a million at a time, in one block of memory.

A key is a row of numbers between literals, as in `c/3/17/0`. No Python object is made for a key; each one is a C string
within the pool, so that threads can pass it on as it is.
"""

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr

from zvcore.kernels.arguments cimport integers
from zvcore.system.gil cimport let_go, take_back

cnp.import_array()


cdef extern from "zv_keys.h" nogil:
    const int ZV_LONGEST_NUMBER
    const int ZV_OVERSHOOT
    int64_t zv_measure_keys(const int64_t *columns, Py_ssize_t n, Py_ssize_t k, int64_t fixed, int64_t *ends)
    void zv_render_keys(const int64_t *columns, Py_ssize_t n, Py_ssize_t k, const uint8_t *literals,
                        const Py_ssize_t *lengths, uint8_t *pool, int64_t size)


cdef int64_t measure_keys(const int64_t *columns, Py_ssize_t n, Py_ssize_t k, int64_t fixed,
                          int64_t *ends) noexcept nogil:
    return zv_measure_keys(columns, n, k, fixed, ends)


cdef void render_keys(const int64_t *columns, Py_ssize_t n, Py_ssize_t k, const uint8_t *literals,
                      const Py_ssize_t *lengths, uint8_t *pool, int64_t size) noexcept nogil:
    zv_render_keys(columns, n, k, literals, lengths, pool, size)


cdef bytes literal_bytes(object literal):
    if isinstance(literal, str):
        # As Python decodes names of files that are not UTF-8.
        literal = literal.encode("utf-8", "surrogateescape")
    elif not isinstance(literal, bytes):
        raise TypeError(f"literals must be str or bytes, not {literal!r}")
    if memchr(PyBytes_AS_STRING(literal), 0, PyBytes_GET_SIZE(literal)) != NULL:
        raise ValueError("a key cannot contain a NUL character")
    return literal


cdef cnp.ndarray int64_table(object columns):
    """C-ordered, aligned int64[n, k]."""
    cdef cnp.ndarray table = integers(columns, "columns", 2)
    if cnp.PyArray_ISUNSIGNED(table) and cnp.PyArray_SIZE(table) and table.max() > INT64_MAX:
        raise ValueError(f"columns holds {table.max()}, but at most 2**63 - 1 can be rendered")
    return cnp.PyArray_FROM_OTF(table, cnp.NPY_INT64, cnp.NPY_ARRAY_IN_ARRAY | cnp.NPY_ARRAY_FORCECAST)


cpdef tuple format_keys(columns, literals):
    """Render n keys `literals[0] + str(columns[i, 0]) + literals[1] + ... + literals[k]`.

    `columns` is an array [n, k] of integers; literals are str or bytes without NUL. Returns (pool, ends): the keys as
    bytes with a NUL after each, and where each one ends (its NUL).
    """
    cdef cnp.ndarray table = int64_table(columns)
    cdef Py_ssize_t n = table.shape[0]
    cdef Py_ssize_t k = table.shape[1]
    cdef list parts = [literal_bytes(literal) for literal in literals]
    if len(parts) != k + 1:
        raise ValueError(f"there must be one literal more than there are columns, not {len(parts)} for {k}")
    cdef bytes joined = b"".join(parts) + bytes(ZV_OVERSHOOT)
    cdef int64_t fixed = PyBytes_GET_SIZE(joined) - ZV_OVERSHOOT
    # Neither can overflow: the literals and the columns of a row are in memory.
    cdef int64_t longest = fixed + ZV_LONGEST_NUMBER * k
    if n > INT64_MAX // (longest + 1):
        raise ValueError(f"{n} keys of up to {longest} bytes are too many")
    cdef cnp.npy_intp count = n
    cdef cnp.ndarray ends = cnp.PyArray_SimpleNew(1, &count, cnp.NPY_INT64)
    cdef const int64_t *values = <const int64_t *> cnp.PyArray_DATA(table)
    cdef int64_t *stops = <int64_t *> cnp.PyArray_DATA(ends)
    cdef int64_t size
    python = let_go(n * (k + 1))
    size = measure_keys(values, n, k, fixed, stops)
    take_back(python)
    cdef cnp.npy_intp nbytes = size
    cdef cnp.ndarray pool = cnp.PyArray_SimpleNew(1, &nbytes, cnp.NPY_UINT8)
    cdef Py_ssize_t *lengths = <Py_ssize_t *> malloc((k + 1) * sizeof(Py_ssize_t))
    if lengths == NULL:
        raise MemoryError
    for j in range(k + 1):
        lengths[j] = PyBytes_GET_SIZE(<bytes> parts[j])
    cdef const uint8_t *text = <const uint8_t *> PyBytes_AS_STRING(joined)
    cdef uint8_t *into = <uint8_t *> cnp.PyArray_DATA(pool)
    python = let_go(n * (k + 1))
    render_keys(values, n, k, text, lengths, into, size)
    take_back(python)
    free(lengths)
    return pool, ends
