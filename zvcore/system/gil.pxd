"""Letting other threads of Python run while a loop does without it, where the loop is long enough.

Where several threads want the GIL, giving it away and getting it back costs a wait and a change of threads, tens of
microseconds: more than a loop over a few chunks takes. `with nogil` is for what may wait (files, locks, connections)
and for work whose size is known to be large.
"""

from cpython.pystate cimport PyThreadState


cdef extern from "Python.h":
    PyThreadState *PyEval_SaveThread() noexcept
    void PyEval_RestoreThread(PyThreadState *state) noexcept


cdef enum:
    LONG_LOOP = 1 << 12         # steps of some nanoseconds each


cdef inline PyThreadState *let_go(Py_ssize_t steps) noexcept:
    """Give the GIL away if there are many steps. Until `take_back` there may be nothing that needs it."""
    return PyEval_SaveThread() if steps >= LONG_LOOP else NULL


cdef inline void take_back(PyThreadState *state) noexcept:
    if state != NULL:
        PyEval_RestoreThread(state)
