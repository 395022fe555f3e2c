"""Names of files: where the lock of an object lies, and what to say of names that are too long."""

from __future__ import annotations

import hashlib
import os

from zvcore.errors import InvalidKeyError

__all__ = ["LONGEST_NAME", "lock_path", "too_long"]

LONGEST_NAME = 255


def lock_path(path: bytes) -> bytes:
    """Where the lock of the object at this path lies."""
    folder, name = os.path.split(path)
    lock = b"." + name + b".zvlock"
    if len(lock) > LONGEST_NAME:
        lock = b"." + hashlib.blake2b(name, digest_size=16).hexdigest().encode() + b".zvlock"
    return os.path.join(folder, lock)


def too_long(path: bytes) -> InvalidKeyError:
    """The error for a path that the file system cannot have."""
    longest = max(path.split(b"/"), key=len)
    if len(longest) > LONGEST_NAME:
        what = "a name in it is longer than file systems can have"
        return InvalidKeyError(
            what, key=os.fsdecode(path), expected=f"at most {LONGEST_NAME} bytes", found=len(longest)
        )
    what = "the path is longer than the file system can have"
    return InvalidKeyError(what, key=os.fsdecode(path), found=f"{len(path)} bytes")
