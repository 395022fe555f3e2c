"""From what went wrong in a thread to the exception that tells of it."""

import os

from cpython.ref cimport Py_XDECREF, PyObject

from zvcore.codecs.abi cimport ZV_SIZE_UNKNOWN, zv_codec
from zvcore.codecs.chain cimport CodecChain
from zvcore.codecs.native cimport status_error

from zvcore.errors import CorruptDataError, ZvcoreError


cdef object failure_error(const Failure *failure, list chains):
    cdef int kind = failure.kind
    cdef CodecChain chain
    cdef object codec = None
    cdef object error
    cdef const zv_codec *table = NULL
    if failure.stage >= 0 and failure.chain < len(chains):
        chain = chains[failure.chain]
        codec = chain.codecs[failure.stage].name
        table = chain.stages.stage[failure.stage].table
    if kind == PYTHON_FAILURE:
        error = <object> failure.exception
        Py_XDECREF(<PyObject *> failure.exception)
        if isinstance(error, ZvcoreError) or not isinstance(error, Exception) or isinstance(error, MemoryError):
            return error
        wrapped = CorruptDataError(f"{type(error).__name__}: {error}", codec=codec)
        wrapped.__cause__ = error
        return wrapped
    if kind == CODEC_FAILURE:
        return status_error(table, failure.status, failure.lib_code, failure.message, True, ZV_SIZE_UNKNOWN, 0)
    text = failure.message.decode(errors="replace")
    if kind == SIZE_FAILURE:
        if failure.found == ZV_SIZE_UNKNOWN:
            return CorruptDataError("the decoded data is too long", codec=codec,
                                    expected=f"at most {failure.expected} bytes", found="more")
        return CorruptDataError("the decoded data has the wrong size", codec=codec,
                                expected=f"{failure.expected} bytes", found=f"{failure.found}")
    if kind == RANGE_FAILURE:
        return CorruptDataError("the byte range reaches beyond the end of the object", offset=failure.offset,
                                length=failure.length, expected=f"at least {failure.offset + failure.length} bytes",
                                found=f"{failure.found}")
    if kind == FRAME_FAILURE:
        if failure.expected:
            return CorruptDataError(text, offset=failure.offset, expected=f"at most {failure.expected} bytes",
                                    found=f"{failure.found}")
        return CorruptDataError(text, offset=failure.offset)
    if kind == TOO_LARGE_FAILURE:
        return CorruptDataError("the stored object is larger than its chunk can be",
                                expected=f"at most {failure.expected} bytes", found=f"{failure.found}")
    if kind == SYSTEM_FAILURE:
        return OSError(failure.status, os.strerror(failure.status))
    if kind == MEMORY_FAILURE:
        return MemoryError("not enough memory for a chunk")
    return ZvcoreError(f"internal failure {kind}")
