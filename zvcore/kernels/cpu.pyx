"""Which vector instructions the kernels use: what this machine has, and how to make them use less.

A path is a set of instructions by a short name, each including the ones before it: on x86-64 `portable`, `sse42`,
`avx2`, `avx512`; on aarch64 `portable`, `armv8`. The environment variable ZVCORE_SIMD names the highest path to take;
a machine without it takes the highest that it has.
"""

import os

from libc.stdint cimport uint32_t


cdef extern from "zv_cpu.h" nogil:
    uint32_t zv_cpu_detect()


cdef uint32_t found = zv_cpu_detect()

_BITS = {
    "sse4.2": ZV_CPU_SSE42,
    "avx2": ZV_CPU_AVX2,
    "bmi2": ZV_CPU_BMI2,
    "avx512": ZV_CPU_AVX512,
    "vpclmulqdq": ZV_CPU_VPCLMUL,
    "crc": ZV_CPU_CRC,
    "pmull": ZV_CPU_PMULL,
}

# name -> (what a machine must have for it, what it may use); for all architectures, in rising order
_PATHS = {
    "portable": (0, 0),
    "sse42": (ZV_CPU_SSE42, ZV_CPU_SSE42),
    "avx2": (ZV_CPU_AVX2, ZV_CPU_SSE42 | ZV_CPU_AVX2 | ZV_CPU_BMI2 | ZV_CPU_VPCLMUL),
    "avx512": (ZV_CPU_AVX512, ZV_CPU_SSE42 | ZV_CPU_AVX2 | ZV_CPU_BMI2 | ZV_CPU_VPCLMUL | ZV_CPU_AVX512),
    "armv8": (ZV_CPU_CRC, ZV_CPU_CRC | ZV_CPU_PMULL),
}

_path = "portable"


def available_paths() -> tuple[str, ...]:
    """The paths that this machine can take, slowest first."""
    return tuple(name for name, (needed, _) in _PATHS.items() if found & needed == needed)


def simd_path() -> str:
    """The path that the kernels take now."""
    return _path


def cpu_features() -> tuple[str, ...]:
    """The instruction sets that the kernels use now."""
    return tuple(name for name, bit in _BITS.items() if features & bit)


def force_path(name: str | None = None) -> None:
    """Make all kernels of this process take one path; None restores the best one. For tests and comparisons."""
    global features, _path
    available = available_paths()
    if name is None:
        name = available[len(available) - 1]
    if name not in available:
        raise ValueError(f"this machine cannot take the path {name!r}; it has {', '.join(available)}")
    features = found & _PATHS[name][1]
    _path = name


def _highest_allowed(limit: str) -> str:
    """The best path of this machine that is not above `limit`."""
    best = "portable"
    if limit not in _PATHS:
        raise ValueError(f"ZVCORE_SIMD is {limit!r}, but must be one of {', '.join(_PATHS)}")
    for name in _PATHS:
        if name in available_paths():
            best = name
        if name == limit:
            break
    return best


force_path(_highest_allowed(os.environ["ZVCORE_SIMD"]) if os.environ.get("ZVCORE_SIMD") else None)
