"""Locks on objects that are files: between threads, and between processes that do not know of each other.

The lock of `a/b` is a byte of the file `a/..zvlock`, chosen by a hash of its name: the file is made when needed and
removed by the last who is at it, so that changing many small chunks of a folder makes one file, and not one for each.
Where bytes cannot be locked for an open file (only Linux does that), it is `flock` on a file of its own, `a/.b.zvlock`.
That is also where a writer notes what it is about to do to `a/b` (`partial_writes.py`). A process that dies lets go of
its locks; the next one that takes them repairs what is noted there.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from zvcore.errors import ConflictError, UnsupportedError
from zvcore.logs import Log
from zvcore.stores import lock_files
from zvcore.stores.lock_names import LOCK, lock_file, lock_path, too_long
from zvcore.stores.open_files import pool
from zvcore.stores.partial_writes import mend_left, noted_by_us
from zvcore.stores.presence import name_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["FileLocks", "held_locks", "holds", "remove_stale_lock"]

_log = Log("stores")

# Which locks this process holds, and which thread took them: path of the note -> (thread, descriptor of the lock file).
held_locks: dict[bytes, tuple[int, int]] = {}
# The descriptors of every lock file that is open, whether its locks are held or waited for; -1 for none yet.
_descriptors: dict[int, array[int]] = {}


def _close_after_fork() -> None:
    # A child shares its parent's locks through the inherited descriptors, and would keep them past the parent's death.
    left = {one for many in _descriptors.values() for one in many if one >= 0}
    _descriptors.clear()
    held_locks.clear()
    noted_by_us.clear()
    for descriptor in left:
        # What another thread opened while the process was copied may stand in the memory and not be open here.
        with suppress(OSError):
            os.close(descriptor)


os.register_at_fork(after_in_child=_close_after_fork)


def holds(path: bytes) -> bool:
    """Whether this thread holds the lock of the object at this path."""
    held = held_locks.get(lock_path(path))
    return held is not None and held[0] == threading.get_ident()


class FileLocks:
    """The locks of objects, exclusive between all that take them. Not to be taken twice by one thread.

    Those of several are taken in the order in which they are given, which all must keep so that no two wait for each
    other. `make_folder` makes an object's folder where it is missing, as durable as the store is.
    """

    def __init__(
        self, paths: list[bytes], keys: list[str], timeout: float | None, make_folder: Callable[[bytes], None]
    ) -> None:
        """`paths` are those of the notes."""
        self._paths = paths
        self._keys = keys
        self._timeout = timeout
        self._make_folder = make_folder
        files = [lock_file(path) for path in paths]
        self._files = [*dict.fromkeys(files)]
        number = {file: number for number, file in enumerate(self._files)}
        self._of_file = array("i", [number[file] for file in files])
        self._descriptors = array("i", [-1]) * len(self._files)

    def __enter__(self) -> None:
        mine = threading.get_ident()
        for path, key in zip(self._paths, self._keys, strict=True):
            if (held := held_locks.get(path)) is not None and held[0] == mine:
                raise RuntimeError(f"{key}: this thread holds the lock already")
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        number = 0
        try:
            _descriptors[id(self)] = self._descriptors
            while number < len(self._paths):
                # Those that nobody holds, up to the first that takes more than that.
                number = lock_files.take(
                    self._paths, self._files, self._of_file, self._descriptors, number, held_locks, mine
                )
                if number < len(self._paths):
                    self._wait(number, deadline)
                    number += 1
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if _descriptors.get(id(self)) is not self._descriptors:
            return  # a forked child leaves its parent's block
        try:
            if noted_by_us:
                for path in noted_by_us.intersection(self._paths):
                    _remove_note(path)
        finally:
            # One call, so that an interrupt finds all of them held or none.
            try:
                lock_files.let_go(self._paths, self._files, self._of_file, self._descriptors, held_locks)
            finally:
                _descriptors.pop(id(self), None)

    def _wait(self, number: int, deadline: float | None) -> None:
        """Take one lock, whatever that needs."""
        path, file = self._paths[number], self._of_file[number]
        try:
            while self._descriptors[file] < 0:
                self._open(file, number, deadline)
            self._acquire(
                lambda wait: lock_files.lock(self._descriptors[file], path, wait), self._keys[number], file, deadline
            )
            if lock_files.is_noted(path):
                mend_left(path)
            held_locks[path] = (threading.get_ident(), self._descriptors[file])
        except BaseException as error:
            name_file(error, path)
            raise

    def _open(self, file: int, number: int, deadline: float | None) -> None:
        """Open a lock file so that nobody removes it, unless somebody has removed it meanwhile."""
        path = self._files[file]
        for left in range(10, -1, -1):
            try:
                self._descriptors[file] = pool.making_room(lambda: lock_files.open_file(path))
                break
            except FileNotFoundError:
                if not left:
                    raise
                self._make_folder(os.path.dirname(path))
            except PermissionError:
                # Who has just made it may not yet have said that others may have it too.
                if not left:
                    raise
                time.sleep(0.001)
            except OSError as error:
                raise too_long(path) if error.errno == errno.ENAMETOOLONG else error
        descriptor = self._descriptors[file]
        self._acquire(lambda wait: lock_files.enter(descriptor, wait), self._keys[number], file, deadline)
        if not lock_files.is_current(path, descriptor):
            # Whoever was at it before us removed it: others may already be at a new one.
            self._descriptors[file] = -1
            lock_files.leave(path, descriptor)

    def _acquire(self, take: Callable[[bool], bool], key: str, file: int, deadline: float | None) -> None:
        """Wait until something is ours: it is taken by a function that is told whether it may wait itself."""
        try:
            if take(False):
                return
            if deadline is not None:
                self._try_until(deadline, take, key)
                return
            _log.info("waiting for the lock of %s, which someone else holds", key)
            began = time.monotonic()
            take(True)
            _log.info("took the lock of %s after %.3f s", key, time.monotonic() - began)
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                path = self._files[file]
                os.unlink(path)  # no process can hold it
                text = f"the file system of {os.fsdecode(path)} has no file locks: {error.strerror}"
                if lock_files.ARE_BYTES:
                    text += " (ZVCORE_LOCKS=flock locks whole files, not bytes)"
                raise UnsupportedError(text, key=key) from error
            raise

    def _try_until(self, deadline: float, take: Callable[[bool], bool], key: str) -> None:
        pause = 0.0005
        while not take(False):
            left = deadline - time.monotonic()
            if left <= 0:
                raise ConflictError(f"someone else has held the lock for all of {self._timeout} s", key=key)
            time.sleep(min(pause, left))
            pause = min(pause * 2, 0.05)


def _remove_note(path: bytes) -> None:
    """Remove what we noted about an object whose lock we hold: that is done."""
    noted_by_us.discard(path)
    if lock_files.ARE_BYTES:  # else it goes with the lock
        with suppress(FileNotFoundError):
            os.unlink(path)


def remove_stale_lock(path: bytes) -> None:
    """Remove the lock file or the note at this path if no process is at it; a change that is noted there is ended."""
    folder, name = os.path.split(path)
    if name == b"." + LOCK:
        # By the lock of what cannot be an object.
        path = os.path.join(folder, b"." + name)
    if path not in held_locks:
        with suppress(OSError, ConflictError, UnsupportedError):
            with FileLocks([path], [os.fsdecode(path)], 0, lambda _: None):
                pass
