"""Names of chunks for other Cython modules; see keys.pyx."""

from libc.stdint cimport int64_t, uint8_t

# How the keys of `n` rows of `k` numbers lie in a pool, if their literals have `fixed` bytes together: sets where each
# key ends (its NUL) and returns the size of the pool. n * (fixed + 20 * k + 1) must not exceed an int64.
cdef int64_t measure_keys(const int64_t *columns, Py_ssize_t n, Py_ssize_t k, int64_t fixed,
                          int64_t *ends) noexcept nogil

# Writes them into a pool of that size. `literals` holds the k + 1 literals one after the other, literal j being
# `lengths[j]` bytes long; 8 more bytes after the last one must be readable.
cdef void render_keys(const int64_t *columns, Py_ssize_t n, Py_ssize_t k, const uint8_t *literals,
                      const Py_ssize_t *lengths, uint8_t *pool, int64_t size) noexcept nogil

# (pool, ends); see keys.pyi
cpdef tuple format_keys(columns, literals)
