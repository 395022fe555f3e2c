"""Open files kept for the next read, for the whole process.

Opening is what costs on network file systems, and shards are read piece by piece. A kept file is used again only if its
path still leads to it, so a replaced object is seen at once. It holds one descriptor; how many are kept is bounded by
`ZVCORE_OPEN_FILES` and by an eighth of what the process may open.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

from zvcore.stores.files import OpenFile

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HandlePool", "pool"]

T = TypeVar("T")


class HandlePool:
    """The least recently used files are closed first, once no thread reads from them any longer."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._kept: OrderedDict[bytes, OpenFile] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, path: bytes) -> OpenFile | None:
        """The file that is kept for this path; the path may lead elsewhere by now."""
        with self._lock:
            file = self._kept.get(path)
            if file is not None:
                self._kept.move_to_end(path)
        return file

    def open(self, path: bytes) -> OpenFile:
        """Open a file to read from it and keep it; FileNotFoundError if there is none."""
        file = self.open_once(path)
        if self.limit > 0:
            surplus = None
            with self._lock:
                replaced = self._kept.pop(path, None)
                self._kept[path] = file
                if len(self._kept) > self.limit:
                    surplus = self._kept.popitem(last=False)
            # Closing can take a while, so it does not happen under the lock.
            del replaced, surplus
        return file

    def open_once(self, path: bytes) -> OpenFile:
        """Open a file that is not to be kept."""
        return self.making_room(lambda: OpenFile(path))

    def making_room(self, use: Callable[[], T]) -> T:
        """What `use` gives, which needs a descriptor or two: if there is none left, those of kept files are closed."""
        try:
            return use()
        except OSError as error:
            if not self.makes_room(error):
                raise
        return use()

    def makes_room(self, error: OSError) -> bool:
        """Close kept files if that is what the error asks for: they are needed less than what could not be opened."""
        if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._kept:
            return False
        self.clear()
        return True

    def drop(self, path: bytes, file: OpenFile | None = None) -> None:
        """Keep this path's file no longer; with `file`, only if it is that one."""
        with self._lock:
            kept = self._kept.get(path)
            if kept is not None and (file is None or kept is file):
                del self._kept[path]
        del kept

    def drop_below(self, folder: bytes) -> None:
        """Keep no file below this folder, which ends with a slash."""
        with self._lock:
            dropped = [self._kept.pop(path) for path in [*self._kept] if path.startswith(folder)]
        del dropped

    def clear(self) -> None:
        with self._lock:
            kept = self._kept
            self._kept = OrderedDict()
        del kept

    def after_fork(self) -> None:
        """Another thread may have held the lock in the parent, in the middle of a change."""
        self._lock = threading.Lock()
        self._kept = OrderedDict()


def default_limit() -> int:
    text = os.environ.get("ZVCORE_OPEN_FILES", "")
    if text:
        if not text.isascii() or not text.isdigit():
            raise ValueError(f"ZVCORE_OPEN_FILES is a number of files, not {text!r}")
        wanted = int(text)
    else:
        wanted = 256
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if allowed == resource.RLIM_INFINITY else min(wanted, allowed // 8)


pool = HandlePool(default_limit())
os.register_at_fork(after_in_child=pool.after_fork)
