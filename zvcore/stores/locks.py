"""Locks on objects that are files: between threads, and between processes that do not know of each other.

The lock of `a/b` is `flock` on the file `a/.b.zvlock`, made when needed and removed after use. A process that dies lets
go of its locks; the next process takes over its lock file, and repairs what is noted there (`partial_writes.py`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING

from zvcore.errors import ConflictError, UnsupportedError
from zvcore.logs import Log
from zvcore.stores import lock_files
from zvcore.stores.lock_names import lock_path, too_long
from zvcore.stores.open_files import pool
from zvcore.stores.partial_writes import mend
from zvcore.stores.presence import name_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["FileLock", "FileLocks", "held_locks", "holds", "lock_path", "remove_stale_lock"]

_log = Log("stores")

# Which locks this process holds, and which thread took them: path of the lock file -> (thread, descriptor).
held_locks: dict[bytes, tuple[int, int]] = {}
# Every descriptor of a lock file, held or waited for. Those of many objects stand in arrays, with -1 for none yet.
_descriptors: set[int] = set()
_many: dict[int, array[int]] = {}


def _close_after_fork() -> None:
    # A child shares its parent's locks through the inherited descriptors, and would keep them past the parent's death.
    left = {*_descriptors, *(one for many in _many.values() for one in many if one >= 0)}
    _descriptors.clear()
    _many.clear()
    held_locks.clear()
    for descriptor in left:
        # What another thread opened while the process was copied may stand in the memory and not be open here.
        with suppress(OSError):
            os.close(descriptor)


def _let_go(descriptor: int) -> None:
    """Give up a lock that is held, waited for, or of a file that is gone."""
    # Closing alone would not do if a child process has inherited the descriptor: it might wait for its own lock.
    with suppress(OSError):  # where there are no locks, there is nothing to give up
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    _descriptors.discard(descriptor)
    os.close(descriptor)


os.register_at_fork(after_in_child=_close_after_fork)


def holds(path: bytes) -> bool:
    """Whether this thread holds the lock of the object at this path."""
    held = held_locks.get(lock_path(path))
    return held is not None and held[0] == threading.get_ident()


class FileLock:
    """Exclusive between all that take the lock of the same object. Not to be taken twice by one thread.

    `make_folder` makes the object's folder where it is missing, as durable as the store is.
    """

    def __init__(self, path: bytes, key: str, timeout: float | None, make_folder: Callable[[bytes], None]) -> None:
        self._path = lock_path(path)
        self._key = key
        self._timeout = timeout
        self._make_folder = make_folder
        self.descriptor = -1

    def __enter__(self) -> None:
        if (held := held_locks.get(self._path)) is not None and held[0] == threading.get_ident():
            raise RuntimeError(f"{self._key}: this thread holds the lock already")
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        while True:
            descriptor = self._open()
            try:
                self._acquire(descriptor, deadline)
                # The holder before us removed the file: others may already have locked a new one.
                if self._is_current(descriptor):
                    mend(self._path, descriptor)
                    held_locks[self._path] = (threading.get_ident(), descriptor)
                    self.descriptor = descriptor
                    return
            except BaseException as error:
                _let_go(descriptor)
                name_file(error, self._path)
                raise
            _let_go(descriptor)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        descriptor, self.descriptor = self.descriptor, -1
        if held_locks.get(self._path, (0, -1))[1] != descriptor:
            return  # a forked child leaves its parent's block
        # Before the file goes: from then on another thread may enter itself.
        del held_locks[self._path]
        try:
            if self._is_current(descriptor):
                os.unlink(self._path)
        except FileNotFoundError:
            pass
        finally:
            _let_go(descriptor)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        for _ in range(10):
            try:
                descriptor = pool.making_room(lambda: os.open(self._path, flags, 0o666))
                break
            except FileNotFoundError:
                self._make_folder(os.path.dirname(self._path))
            except OSError as error:
                raise too_long(self._path) if error.errno == errno.ENAMETOOLONG else error
        else:
            descriptor = os.open(self._path, flags, 0o666)
        _descriptors.add(descriptor)
        return descriptor

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path, follow_symlinks=False))
        except FileNotFoundError:
            return False

    def _wait(self, descriptor: int) -> None:
        if not _log.tells:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log.info("waiting for the lock of %s, which someone else holds", self._key)
            began = time.monotonic()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _log.info("took the lock of %s after %.3f s", self._key, time.monotonic() - began)

    def _acquire(self, descriptor: int, deadline: float | None) -> None:
        try:
            if deadline is None:
                self._wait(descriptor)
                return
            pause = 0.0005
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        text = f"someone else has held the lock for all of {self._timeout} s"
                        raise ConflictError(text, key=self._key) from None
                    time.sleep(min(pause, left))
                    pause = min(pause * 2, 0.05)
                else:
                    return
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                os.unlink(self._path)  # no process can hold it
                text = f"the file system of {os.fsdecode(self._path)} has no file locks: {error.strerror}"
                raise UnsupportedError(text, key=self._key) from error
            raise


class FileLocks:
    """The locks of several objects, taken in this order, which all must keep so that no two wait for each other."""

    def __init__(self, paths: list[bytes], keys: list[str], make_folder: Callable[[bytes], None]) -> None:
        self._objects = paths
        self._keys = keys
        self._make_folder = make_folder
        self._paths = [lock_path(path) for path in paths]
        self._descriptors = array("i", [-1]) * len(paths)

    def __enter__(self) -> None:
        mine = threading.get_ident()
        for path, key in zip(self._paths, self._keys, strict=True):
            if (held := held_locks.get(path)) is not None and held[0] == mine:
                raise RuntimeError(f"{key}: this thread holds the lock already")
        number = 0
        try:
            _many[id(self)] = self._descriptors
            while number < len(self._paths):
                # Those that nobody holds, up to the first that takes more than that.
                number = lock_files.take(self._paths, self._descriptors, number, held_locks, mine)
                if number < len(self._paths):
                    self._wait(number)
                    number += 1
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def _wait(self, number: int) -> None:
        one = FileLock(self._objects[number], self._keys[number], None, self._make_folder)
        try:
            one.__enter__()
        finally:
            # An interrupt may come when it has been taken.
            self._descriptors[number] = one.descriptor
            _descriptors.discard(one.descriptor)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # One call, so that an interrupt finds all of them held or none.
        try:
            lock_files.let_go(self._paths, self._descriptors, held_locks)
        finally:
            _many.pop(id(self), None)


def remove_stale_lock(path: bytes) -> bool:
    """Remove the lock file at this path if no process holds it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False)):
            return False
        mend(path, descriptor)
        os.unlink(path)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
