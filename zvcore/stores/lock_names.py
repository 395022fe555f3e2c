"""Names of files: where the lock of an object lies, and what to say of names that are too long."""

from __future__ import annotations

import errno
import hashlib
import os

from zvcore.errors import InvalidKeyError

__all__ = ["LOCK", "LONGEST_NAME", "lock_path", "too_long"]

LONGEST_NAME = 255
# How the name of a file that is a lock ends.
LOCK = b".zvlock"


def lock_path(path: bytes) -> bytes:
    """Where the lock of the object at this path lies."""
    folder, slash, name = path.rpartition(b"/")
    lock = b"." + name + LOCK
    if len(lock) > LONGEST_NAME:
        lock = b"." + hashlib.blake2b(name, digest_size=16).hexdigest().encode() + LOCK
    return folder + slash + lock


class NameTooLongError(InvalidKeyError, OSError):
    """As the file system says it, too: `errno` is ENAMETOOLONG."""


def too_long(path: bytes) -> InvalidKeyError:
    """The error for a path that the file system cannot have."""
    key, longest = os.fsdecode(path), max(map(len, path.split(b"/")))
    if longest > LONGEST_NAME:
        what = "a name in it is longer than file systems can have"
        error = NameTooLongError(what, key=key, expected=f"at most {LONGEST_NAME} bytes", found=longest)
    else:
        what = "the path is longer than the file system can have"
        error = NameTooLongError(what, key=key, found=f"{len(path)} bytes")
    error.errno = errno.ENAMETOOLONG
    return error
