"""Looking up the pieces of one fragment index, one by one; see fragments.pyx for its bytes."""

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

from zvcore.errors import CorruptDataError
from zvcore.kernels.fragments cimport FINE, HEADER, Fault, Parts, bits_at, fault_error, measure, zv_popcount
from zvcore.kernels.unaligned cimport load_i64, load_u32, load_u64

cnp.import_array()


cdef extern from "numpy/arrayobject.h":
    cnp.ndarray PyArray_NewFromDescr(PyTypeObject *kind, cnp.dtype descr, int ndim, const cnp.npy_intp *shape,
                                     const cnp.npy_intp *strides, void *data, int flags, PyObject *owner)


cdef extern from "Python.h":
    Py_ssize_t PyNumber_AsSsize_t(object value, object error) except? -1


cdef enum:
    # More rows than any chunk has: their numbers alone would take two gigabytes.
    MAX_ROWS = 1 << 28

cdef int64_t FARTHEST = <int64_t> 1 << 62
cdef cnp.dtype _LITTLE = np.dtype("<i8")


cdef inline cnp.ndarray new_rows(int64_t count):
    cdef cnp.npy_intp length = count
    return cnp.PyArray_SimpleNew(1, &length, cnp.NPY_INT64)


cdef class Pieces:
    """One index, checked, whose pieces are looked up one by one. Mistakes of the caller raise IndexError.

    ranges_at, offsets_at, rows_at    where in the index the three tables begin
    listed                            how many rows are listed
    """

    cdef bytes data
    cdef const uint8_t *p
    cdef Parts parts
    # How many ranges come before each 64 pieces; NULL when all pieces are ranges, or none is.
    cdef uint32_t *before

    def __cinit__(self, bytes data not None, *_):
        cdef Fault fault
        self.data = data
        self.p = <const uint8_t *> PyBytes_AS_STRING(data)
        fault = measure(self.p, PyBytes_GET_SIZE(data), &self.parts)
        if fault != FINE:
            raise fault_error(fault, self.p, PyBytes_GET_SIZE(data), &self.parts)
        if 0 < self.parts.ranges < self.parts.pieces:
            self.count_ranges()

    def __dealloc__(self):
        free(self.before)

    cdef int count_ranges(self) except -1:
        cdef int64_t words = (self.parts.pieces + 63) // 64, i
        cdef uint32_t ranges = 0
        self.before = <uint32_t *> malloc(words * sizeof(uint32_t))
        if self.before == NULL:
            raise MemoryError
        for i in range(words):
            self.before[i] = ranges
            ranges += zv_popcount(bits_at(self.p, self.parts.pieces, i))
        return 0

    @property
    def num_fragments(self):
        return self.parts.pieces

    @property
    def num_range_fragments(self):
        return self.parts.ranges

    @property
    def ranges_at(self):
        return self.parts.table

    @property
    def offsets_at(self):
        return self.parts.offsets

    @property
    def rows_at(self):
        return self.parts.rows

    @property
    def listed(self):
        return self.parts.listed

    def __len__(self):
        return self.parts.pieces

    cdef int64_t piece_of(self, object fragment) except -1:
        cdef Py_ssize_t piece = PyNumber_AsSsize_t(fragment, IndexError)
        if not 0 <= piece < self.parts.pieces:
            raise IndexError(f"Fragment index {fragment} out of range [0, {self.parts.pieces})")
        return piece

    cdef inline bint listed_piece(self, int64_t piece) noexcept nogil:
        return not (self.p[HEADER + (piece >> 3)] >> (piece & 7)) & 1

    cdef inline int64_t ranges_before(self, int64_t piece) noexcept nogil:
        if self.before == NULL:
            return piece if self.parts.ranges else 0
        return self.before[piece >> 6] + zv_popcount(
            load_u64(self.p + HEADER + 8 * (piece >> 6)) & ((<uint64_t> 1 << (piece & 63)) - 1)
        )

    cdef inline const uint8_t *range_of(self, int64_t piece) noexcept nogil:
        return self.p + self.parts.table + 16 * self.ranges_before(piece)

    cdef inline const uint8_t *rows_of(self, int64_t piece, int64_t *count) noexcept nogil:
        """Where a piece that lists its rows has them."""
        cdef const uint8_t *offset = self.p + self.parts.offsets + 4 * (piece - self.ranges_before(piece))
        cdef int64_t first = load_u32(offset)
        count[0] = load_u32(offset + 4) - first
        return self.p + self.parts.rows + 8 * first

    cdef inline int64_t length_of(self, int64_t piece, int64_t *start) except -1:
        """How many rows a piece has, and where its run of them begins. A run that no chunk can have is refused."""
        cdef const uint8_t *entry
        cdef int64_t count
        if self.listed_piece(piece):
            self.rows_of(piece, &count)
            return count
        entry = self.range_of(piece)
        start[0] = load_i64(entry)
        count = load_i64(entry + 8)
        # Sixteen bytes may claim any range: memory is taken only for what a chunk could hold.
        if count > MAX_ROWS or start[0] > FARTHEST or start[0] < -FARTHEST:
            raise CorruptDataError(f"fragment {piece} is a range of {count} rows from row {start[0]}")
        return max(count, 0)

    cdef inline void put_rows(self, int64_t piece, int64_t start, int64_t count, int64_t *out) noexcept nogil:
        cdef int64_t i
        cdef const uint8_t *rows
        if self.listed_piece(piece):
            rows = self.rows_of(piece, &count)
            for i in range(count):
                out[i] = load_i64(rows + 8 * i)
        else:
            for i in range(count):
                out[i] = start + i

    def is_range(self, fragment):
        return not self.listed_piece(self.piece_of(fragment))

    def range(self, fragment):
        """(start, count) of a fragment that is a range."""
        cdef int64_t piece = self.piece_of(fragment)
        cdef const uint8_t *entry
        if self.listed_piece(piece):
            raise CorruptDataError(f"Fragment {piece} is explicit, not a range; use .indices(f) or .indices_view(f)")
        entry = self.range_of(piece)
        return load_i64(entry), load_i64(entry + 8)

    def indices(self, fragment):
        """The row numbers of a fragment."""
        cdef int64_t piece = self.piece_of(fragment), start = 0, count = self.length_of(piece, &start)
        cdef cnp.ndarray rows = new_rows(count)
        self.put_rows(piece, start, count, <int64_t *> cnp.PyArray_DATA(rows))
        return rows

    def indices_view(self, fragment):
        """The row numbers of a fragment that lists them, without a copy; read-only and perhaps unaligned."""
        cdef int64_t piece = self.piece_of(fragment), count
        cdef cnp.npy_intp length
        cdef const uint8_t *rows
        if not self.listed_piece(piece):
            raise CorruptDataError(
                f"Fragment {piece} is a range; .indices_view requires an explicit fragment.  "
                "Use .indices(f) to materialise."
            )
        rows = self.rows_of(piece, &count)
        length = count
        Py_INCREF(_LITTLE)
        view = PyArray_NewFromDescr(<PyTypeObject *> cnp.ndarray, _LITTLE, 1, &length, NULL, <void *> rows, 0, NULL)
        cnp.set_array_base(view, self.data)
        return view

    def gather(self, fragments):
        """(rows, offsets) of several fragments: those of `fragments[i]` are rows[offsets[i]:offsets[i + 1]]."""
        cdef const int64_t[::1] wanted = np.ascontiguousarray(fragments, np.int64)
        cdef Py_ssize_t n = wanted.shape[0], i
        cdef int64_t start = 0, total = 0
        offsets = np.empty(n + 1, np.int64)
        cdef int64_t[::1] ends = offsets
        ends[0] = 0
        for i in range(n):
            if not 0 <= wanted[i] < self.parts.pieces:
                raise IndexError(f"Fragment index {wanted[i]} out of range [0, {self.parts.pieces})")
        for i in range(n):
            total += self.length_of(wanted[i], &start)
            ends[i + 1] = total
        cdef cnp.ndarray rows = new_rows(total)
        cdef int64_t *out = <int64_t *> cnp.PyArray_DATA(rows)
        for i in range(n):
            self.length_of(wanted[i], &start)
            self.put_rows(wanted[i], start, ends[i + 1] - ends[i], out + ends[i])
        return rows, offsets
