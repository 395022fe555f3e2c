"""Changes of a file in place that a writer may not live to finish.

A file that grows or is overwritten is for moments neither what it was nor what it will be, and stays so if the writer
dies then. So writers note in their lock file what they are about to do. Whoever takes the lock next takes back what was
appended in part and finishes what was overwritten in part; readers, who wait for nobody, see the file so meanwhile.
"""

from __future__ import annotations

import errno
import os
import struct
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zvcore.stores.writing import write_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

__all__ = ["Unfinished", "mend", "noted", "unfinished"]

_MAGIC = b"zvnote1\n"
# Magic, inode, size before, size after, offset; lengths of the name, of what was there and of what will be.
_HEAD = struct.Struct("<8sQQQQHQQ")
# So much of what lies before appended bytes tells whether the file is still the one that the note is about.
_WITNESS = 4096
# No note is longer, whatever a lock file holds.
_LONGEST = 1 << 30


@dataclass(frozen=True)
class Unfinished:
    """What is to be seen of a file whose change was not finished: `size` bytes of it, with `new` at `offset`."""

    size: int
    offset: int
    new: bytes

    def within(self, start: int, stop: int) -> bytes | None:
        """The bytes of this range if they are all among the new ones."""
        if self.new and self.offset <= start <= stop <= self.offset + len(self.new):
            return self.new[start - self.offset : stop - self.offset]
        return None


@dataclass(frozen=True)
class _Note:
    """A note: bytes that lay at `offset`, followed by an append up to `after` (`new` is empty) or replaced by `new`."""

    name: bytes
    inode: int
    before: int
    after: int
    offset: int
    old: bytes
    new: bytes

    def pack(self) -> bytes:
        sizes = len(self.name), len(self.old), len(self.new)
        head = _HEAD.pack(_MAGIC, self.inode, self.before, self.after, self.offset, *sizes)
        body = head + self.name + self.old + self.new
        return body + zlib.crc32(body).to_bytes(4, "little")

    @classmethod
    def parse(cls, raw: bytes) -> _Note | None:
        """None for what is no note, or was not written to its end: then nothing was changed yet."""
        if len(raw) < _HEAD.size + 4 or raw[:8] != _MAGIC or zlib.crc32(raw[:-4]) != int.from_bytes(raw[-4:], "little"):
            return None
        _, inode, before, after, offset, name, old, new = _HEAD.unpack_from(raw)
        if len(raw) != _HEAD.size + name + old + new + 4:
            return None
        at = _HEAD.size
        names, olds = raw[at : at + name], raw[at + name : at + name + old]
        return cls(names, inode, before, after, offset, olds, raw[at + name + old : -4])

    def state(self, descriptor: int) -> Unfinished | None:
        """What is unfinished about the open file; None if it is done, or not the file that the note is about."""
        found = os.fstat(descriptor)
        if found.st_ino != self.inode:
            return None
        there = os.pread(descriptor, len(self.old), self.offset)
        if not self.new:
            begun = self.before < found.st_size < self.after and there == self.old
            return Unfinished(self.before, self.before, b"") if begun else None
        if found.st_size != self.before or there == self.new:
            return None
        if len(there) != len(self.new):
            return None
        now, old, new = (np.frombuffer(part, np.uint8) for part in (there, self.old, self.new))
        begun = bool(((now == old) | (now == new)).all())
        return Unfinished(self.before, self.offset, self.new) if begun else None


@contextmanager
def noted(path: bytes, lock: int, offset: int, parts: Sequence[Buffer], appending: bool, sync: bool) -> Iterator[None]:
    """A block that appends the parts, or writes them at `offset`, under the lock whose descriptor this is."""
    size = sum(memoryview(part).nbytes for part in parts)
    with open(path, "rb", buffering=0) as file:
        found = os.fstat(file.fileno())
        at = max(0, offset - _WITNESS) if appending else offset
        old = os.pread(file.fileno(), (offset if appending else offset + size) - at, at)
    after = offset + size if appending else found.st_size
    new = b"" if appending else b"".join(parts)
    note = _Note(os.path.basename(path), found.st_ino, found.st_size, after, at, old, new)
    packed = note.pack()
    # The last note under this lock means nothing any more once its change is done.
    if os.fstat(lock).st_size > len(packed):
        os.ftruncate(lock, 0)
    write_all(lock, 0, packed)
    if sync:
        os.fsync(lock)
        folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    try:
        yield
    except BaseException:
        # What failed may have written some of it.
        with suppress(OSError):
            _mend(path, note)
        raise


def unfinished(path: bytes, lock_file: bytes) -> Unfinished | None:
    """What is unfinished about the file at a path, whether its writer is at it or dead."""
    try:
        with open(lock_file, "rb") as lock, open(path, "rb") as file:
            note = _Note.parse(lock.read(_LONGEST))
            return None if note is None or note.name != os.path.basename(path) else note.state(file.fileno())
    except OSError:
        return None


def mend(lock_file: bytes, lock: int) -> None:
    """Finish or take back what the lock file, which is locked by us, says of a writer that died."""
    size = os.fstat(lock).st_size
    if not size:
        return
    note = _Note.parse(os.pread(lock, min(size, _LONGEST), 0))
    if note is not None:
        _mend(os.path.join(os.path.dirname(lock_file), os.path.basename(note.name)), note)
    os.ftruncate(lock, 0)


def _mend(path: bytes, note: _Note) -> None:
    try:
        # A symbolic link could lead to what is not the store's.
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if error.errno == errno.ELOOP:
            return
        raise
    try:
        state = note.state(descriptor)
        if state is None:
            return
        if state.new:
            write_all(descriptor, state.offset, state.new)
        else:
            os.ftruncate(descriptor, state.size)
        # Versions are told apart by times of nanoseconds, which the kernel alone does not always give.
        os.utime(descriptor)
    finally:
        os.close(descriptor)
