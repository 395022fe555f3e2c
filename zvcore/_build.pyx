"""What this installation was compiled with."""

import cython


cdef extern from *:
    """
    #if defined(__clang__) || defined(__GNUC__)
    #define ZVCORE_COMPILER __VERSION__
    #else
    #define ZVCORE_COMPILER "unknown compiler"
    #endif
    #ifdef __clang__
    #define ZVCORE_COMPILER_NAME ""
    #else
    #define ZVCORE_COMPILER_NAME "GCC "
    #endif
    """
    const char *ZVCORE_COMPILER
    const char *ZVCORE_COMPILER_NAME
    const char *ZVCORE_BUILD_KIND
    const char *ZVCORE_BUILD_NUMPY
    const char *ZVCORE_BUILD_LIBRARIES

kind = ZVCORE_BUILD_KIND.decode()
compiler = ZVCORE_COMPILER_NAME.decode() + ZVCORE_COMPILER.decode()
cython_version = cython.__version__
numpy_version = ZVCORE_BUILD_NUMPY.decode()
# C library -> the version whose headers were used.
libraries = dict(item.split("=") for item in ZVCORE_BUILD_LIBRARIES.decode().split(",") if item)
