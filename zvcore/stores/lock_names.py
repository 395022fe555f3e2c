"""Names of files: where the lock of an object lies and what is noted about it, and what to say of names that are too
long.
"""

from __future__ import annotations

import errno
import hashlib
import os

from zvcore.errors import InvalidKeyError
from zvcore.stores.lock_files import ARE_BYTES

__all__ = ["LOCK", "LONGEST_NAME", "lock_file", "lock_path", "too_long"]

LONGEST_NAME = 255
# How the names of lock files and notes end.
LOCK = b".zvlock"


def lock_path(path: bytes) -> bytes:
    """Where a writer notes what it does to the object at this path. Its lock goes by this name as well."""
    folder, slash, name = path.rpartition(b"/")
    lock = b"." + name + LOCK
    if len(lock) > LONGEST_NAME:
        lock = b"." + hashlib.blake2b(name, digest_size=16).hexdigest().encode() + LOCK
    return folder + slash + lock


def lock_file(path: bytes) -> bytes:
    """The lock file of the lock that goes by this name: the one of its folder, named as that of an object without a
    name, where a part of a file can be locked.
    """
    folder, slash, _ = path.rpartition(b"/")
    return folder + slash + b"." + LOCK if ARE_BYTES else path


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
