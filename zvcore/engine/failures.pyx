"""From what went wrong in a thread to the exception that tells of it."""

import errno
import os

from cpython.ref cimport Py_XDECREF, PyObject

from zvcore.codecs.chain cimport CodecChain

from zvcore.errors import CorruptDataError, OutOfMemoryError, StoreError, ZvcoreError


# What `load` says of a name that something else has than a file.
cdef dict NO_FILE = {
    errno.EISDIR: "a folder lies where the object should be",
    errno.ENOLINK: "the object is a link that leads to nothing",
    errno.ENXIO: "what lies where the object should be is neither a file nor a folder",
}


cdef object failure_error(const Failure *failure, tuple chains):
    cdef int kind = failure.kind
    cdef object error
    if kind == CODEC_FAILURE:
        error = (<CodecChain?> chains[failure.chain]).error(&failure.codec)
        Py_XDECREF(<PyObject *> failure.exception)
        return error
    text = failure.message.decode(errors="replace")
    if kind == RANGE_FAILURE:
        return CorruptDataError("the byte range reaches beyond the end of the object", offset=failure.offset,
                                length=failure.length, expected=f"at least {failure.offset + failure.length} bytes",
                                found=f"{failure.found}")
    if kind == CHECKSUM_FAILURE:
        return CorruptDataError("the stored bytes have another checksum than is said of them", codec="crc32",
                                expected=f"{failure.expected:08x}", found=f"{failure.found:08x}")
    if kind == FRAME_FAILURE:
        if failure.expected:
            return CorruptDataError(text, offset=failure.offset, expected=f"at most {failure.expected} bytes",
                                    found=f"{failure.found}")
        return CorruptDataError(text, offset=failure.offset)
    if kind == TOO_LARGE_FAILURE:
        return CorruptDataError("the stored object is larger than its chunk can be",
                                expected=f"at most {failure.expected} bytes", found=f"{failure.found}")
    if kind == SYSTEM_FAILURE:
        if failure.status in NO_FILE:
            return StoreError(NO_FILE[failure.status])
        return OSError(failure.status, os.strerror(failure.status))
    if kind == MEMORY_FAILURE:
        return OutOfMemoryError("not enough memory for a chunk",
                                expected=f"room for {failure.expected} bytes" if failure.expected else None)
    return ZvcoreError(f"internal failure {kind}")
