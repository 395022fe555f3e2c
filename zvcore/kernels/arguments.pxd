"""How the kernels take integers from Python; see arguments.pyx."""

cimport numpy as cnp

cdef cnp.ndarray integers(object values, str name, int ndim)
cdef cnp.ndarray uint64_column(object values, str name)
cdef cnp.ndarray uint64_row(object values, str name)
