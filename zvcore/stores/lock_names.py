"""Where the lock of an object that is a file lies."""

from __future__ import annotations

import hashlib
import os

__all__ = ["lock_path"]

_LONGEST_NAME = 255


def lock_path(path: bytes) -> bytes:
    """Where the lock of the object at this path lies."""
    folder, name = os.path.split(path)
    lock = b"." + name + b".zvlock"
    if len(lock) > _LONGEST_NAME:
        lock = b"." + hashlib.blake2b(name, digest_size=16).hexdigest().encode() + b".zvlock"
    return os.path.join(folder, lock)
