"""The temporary file of an archive that is being written: those of processes that were killed go with the next one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import io

__all__ = ["temporary_file"]

_END = ".zvtmp"


def temporary_file(place: str, name: str) -> tuple[str, io.FileIO]:
    """(path, open file) for what an archive of this name will be. As long as it is open, it is locked.

    Where files cannot be locked, nobody knows whether a process still writes one, and none is removed.
    """
    # The name itself may be as long as names can be.
    begin = f".{zlib.crc32(os.fsencode(name)):08x}"
    _remove_abandoned(place, begin)
    while True:
        path = os.path.join(place, f"{begin}{secrets.token_hex(8)}{_END}")
        file: io.FileIO = open(path, "x+b", buffering=0)  # noqa: SIM115 - until it is finished
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.lexists(path):
            return path, file
        file.close()  # another process took it for abandoned before it was locked


def _remove_abandoned(place: str, begin: str) -> None:
    length = len(begin) + 16 + len(_END)
    for name in os.listdir(place):
        if len(name) != length or not (name.startswith(begin) and name.endswith(_END)):
            continue
        path = os.path.join(place, name)
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(descriptor)
