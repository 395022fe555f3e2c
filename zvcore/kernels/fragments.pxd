"""One fragment index's bytes, for the modules that look into it; see fragments.pyx."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from zvcore.kernels.unaligned cimport load_u64


cdef extern from "zv_bits.h" nogil:
    int zv_popcount(uint64_t bits)


cdef enum:
    HEADER = 16
    MAGIC = 0x5A564647
    VERSION = 1

cdef enum Fault:
    FINE = 0
    ABSENT
    TOO_SHORT
    BAD_MAGIC
    BAD_VERSION
    BAD_FLAGS
    TOO_MANY_RANGES
    CUT_BITMAP
    CUT_RANGES
    CUT_OFFSETS
    CUT_ROWS
    WRONG_POPCOUNT
    UNORDERED
    TRAILING

cdef struct Parts:
    int64_t pieces      # F
    int64_t ranges      # R
    int64_t table       # where the ranges begin
    int64_t offsets     # where the offsets of the lists begin
    int64_t rows        # where the listed rows begin
    int64_t listed      # how many rows are listed
    int64_t end         # where the index ends

cdef Fault measure(const uint8_t *p, int64_t size, Parts *out) noexcept nogil
cdef object fault_error(Fault fault, const uint8_t *p, int64_t size, Parts *at)


cdef inline uint64_t bits_at(const uint8_t *p, int64_t pieces, int64_t word) noexcept nogil:
    """One word of 64 bits of the bitmap; bits beyond the last piece are 0, whatever is stored there."""
    cdef uint64_t bits = load_u64(p + HEADER + 8 * word)
    return bits if pieces - 64 * word >= 64 else bits & ((<uint64_t> 1 << (pieces - 64 * word)) - 1)
