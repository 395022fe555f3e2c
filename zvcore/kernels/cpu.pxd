"""What the kernels ask before they take a vector path; see cpu.pyx."""

from libc.stdint cimport uint32_t


cdef extern from "zv_cpu.h" nogil:
    const bint ZV_X86
    const bint ZV_ARM
    const uint32_t ZV_CPU_SSE42
    const uint32_t ZV_CPU_AVX2
    const uint32_t ZV_CPU_BMI2
    const uint32_t ZV_CPU_AVX512
    const uint32_t ZV_CPU_VPCLMUL
    const uint32_t ZV_CPU_CRC
    const uint32_t ZV_CPU_PMULL

# The ZV_CPU_ bits that may be used now: those of this machine, less what ZVCORE_SIMD or `force_path` took away.
cdef uint32_t features
