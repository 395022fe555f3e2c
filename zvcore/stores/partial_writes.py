"""Changes of a file in place that a writer may not live to finish.

While a file grows or is overwritten, it is briefly neither in its old state nor in its new one, and remains so if the
writer dies then. So writers, who hold its lock, note beside it what they are about to do (`lock_path`). The next
process that takes the lock undoes a partial append and completes a partial overwrite; readers, which never wait, see
the file as if that had been done already.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zvcore.kernels.crc32c import crc32c
from zvcore.logs import Log
from zvcore.stores.lock_names import lock_file, lock_path
from zvcore.stores.writing import write_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from zvcore.stores.growing import Growth

__all__ = ["Note", "Unfinished", "mend_left", "noted", "noted_by_us", "unfinished", "unfinished_of"]

_log = Log("stores")

_MAGIC = b"zvnote2\n"
# Magic, inode, size before, size after, offset; how much is appended, how much of that at the end, and its checksum;
# lengths of the name, of what was there and of what will be.
_HEAD = struct.Struct("<8sQQQQQQIHQQ")
_PIECE = 1 << 20
# So much of what lies before appended bytes tells whether the file is still the one that the note is about.
_WITNESS = 4096
_LONGEST_NAME = 255
# A pipe or a device where a file should be must not keep us waiting.
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_WRITING = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW

# Where this process has left notes, which go before it lets go of the locks.
noted_by_us: set[bytes] = set()


@dataclass(frozen=True)
class Unfinished:
    """What is to be seen of a file whose change was not finished: `size` bytes of it, with `new` at `offset`."""

    size: int
    offset: int
    new: bytes

    @property
    def told(self) -> str:
        return "completed" if self.new else "taken back"

    def within(self, start: int, stop: int) -> bytes | None:
        """The bytes of this range if they are all among the new ones."""
        if self.new and self.offset <= start <= stop <= self.offset + len(self.new):
            return self.new[start - self.offset : stop - self.offset]
        return None


@dataclass(frozen=True)
class Note:
    """A note: bytes that lay at `offset`, followed by an append up to `after` (`new` is empty) or replaced by `new`.

    What is appended are `body` bytes behind the old ones and `tail` at the new end; `check` is the checksum of both.
    """

    name: bytes
    inode: int
    before: int
    after: int
    offset: int
    old: bytes
    new: bytes
    body: int = 0
    tail: int = 0
    check: int = 0

    @classmethod
    def of_growth(cls, path: bytes, growth: Growth) -> Note:
        """About a file that will grow."""
        at = max(0, growth.before - _WITNESS)
        found, old = _look(path, at, growth.before - at)
        name = os.path.basename(path)
        parts = growth.body, growth.tail, growth.check()
        return cls(name, found.st_ino, growth.before, growth.after, at, old, b"", *parts)

    @classmethod
    def of_patch(cls, path: bytes, offset: int, parts: Sequence[Buffer]) -> Note:
        """About a file in which the parts will replace what lies at `offset`."""
        new = b"".join(parts)
        found, old = _look(path, offset, len(new))
        return cls(os.path.basename(path), found.st_ino, found.st_size, found.st_size, offset, old, new)

    def pack(self) -> bytes:
        sizes = len(self.name), len(self.old), len(self.new)
        appended = self.body, self.tail, self.check
        head = _HEAD.pack(_MAGIC, self.inode, self.before, self.after, self.offset, *appended, *sizes)
        body = head + self.name + self.old + self.new
        return body + zlib.crc32(body).to_bytes(4, "little")

    @classmethod
    def parse(cls, raw: bytes) -> Note | None:
        """None if it is not a note, or was not written completely: then nothing was changed yet."""
        if len(raw) < _HEAD.size + 4 or raw[:8] != _MAGIC or zlib.crc32(raw[:-4]) != int.from_bytes(raw[-4:], "little"):
            return None
        _, inode, before, after, offset, body, tail, check, name, old, new = _HEAD.unpack_from(raw)
        if len(raw) != _HEAD.size + name + old + new + 4:
            return None
        at = _HEAD.size
        names, olds = raw[at : at + name], raw[at + name : at + name + old]
        return cls(names, inode, before, after, offset, olds, raw[at + name + old : -4], body, tail, check)

    def state(self, descriptor: int) -> Unfinished | None:
        """What is unfinished about the open file; None if it is done, or not the file that the note is about."""
        found = os.fstat(descriptor)
        if found.st_ino != self.inode:
            return None
        there = os.pread(descriptor, len(self.old), self.offset)
        if not self.new:
            begun = self.before < found.st_size <= self.after and there == self.old and self._is_witnessed()
            if not begun or (found.st_size == self.after and self._is_complete(descriptor)):
                return None
            return Unfinished(self.before, self.before, b"")
        if found.st_size != self.before or there == self.new:
            return None
        if len(there) != len(self.new):
            return None
        now, old, new = (np.frombuffer(part, np.uint8) for part in (there, self.old, self.new))
        begun = bool(((now == old) | (now == new)).all())
        return Unfinished(self.before, self.offset, self.new) if begun else None

    def _is_witnessed(self) -> bool:
        """Whether the noted bytes are those that the append came behind. The file may be cut where they end."""
        at = max(0, self.before - _WITNESS)
        return bool(self.old) and self.offset == at and len(self.old) == self.before - at

    def _is_complete(self, descriptor: int) -> bool:
        """Whether all that was to be appended is there. After a power cut, the length alone may be."""
        check = 0
        for start, stop in ((self.before, self.before + self.body), (self.after - self.tail, self.after)):
            for at in range(start, stop, _PIECE):
                check = crc32c(os.pread(descriptor, min(_PIECE, stop - at), at), check)
        return check == self.check


def _look(path: bytes, offset: int, size: int) -> tuple[os.stat_result, bytes]:
    """What is known of a file, and some of its bytes."""
    file = os.open(path, _READING)
    try:
        return os.fstat(file), _read(file, size, offset)
    finally:
        os.close(file)


@contextmanager
def noted(path: bytes, note: Note, sync: bool) -> Iterator[None]:
    """A block that does what the note says, under the file's lock."""
    place, packed = lock_path(path), note.pack()
    noted_by_us.add(place)
    file = os.open(place, _WRITING | os.O_CREAT, 0o666)
    try:
        # The last note under this lock means nothing any more once its change is done.
        if os.fstat(file).st_size > len(packed):
            os.ftruncate(file, 0)
        write_all(file, 0, packed, path)
        if sync:
            os.fsync(file)
            folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    finally:
        os.close(file)
    try:
        yield
    except BaseException:
        # What failed may have written some of it.
        with suppress(OSError):
            _mend(path, note)
        raise


def unfinished(path: bytes) -> Unfinished | None:
    """What is unfinished about the file at a path, whether its writer is at it or dead."""
    try:
        # Whatever lies there instead of a note, a pipe or a link to a device, shall not keep a reader waiting.
        note = os.open(lock_path(path), _READING | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        file = os.open(path, _READING)
        try:
            return unfinished_of(os.path.basename(path), note, file)
        finally:
            os.close(file)
    except OSError:
        return None
    finally:
        os.close(note)


def unfinished_of(name: bytes, note_file: int, file: int) -> Unfinished | None:
    """What the open note says of the open file of this name."""
    if _noted_name(note_file) != name:
        return None
    note = _read_note(note_file, os.fstat(file))
    return None if note is None else note.state(file)


def mend_left(place: bytes) -> None:
    """Finish or take back what is noted here by a writer that died; we hold the object's lock. The note goes."""
    try:
        file = os.open(place, _WRITING)
    except FileNotFoundError:
        return
    try:
        if os.fstat(file).st_size:
            _mend_noted(place, file)
        os.ftruncate(file, 0)
        if lock_file(place) != place:
            os.unlink(place)
    finally:
        os.close(file)


def _mend_noted(place: bytes, file: int) -> None:
    name = _noted_name(file)
    if name is None:
        return
    path = os.path.join(os.path.dirname(place), name)
    # A note is about its own object: what it says of others was not written by a writer of ours.
    if lock_path(path) == place:
        with suppress(FileNotFoundError, NotADirectoryError):
            note = _read_note(file, os.stat(path, follow_symlinks=False))
            if note is not None:
                _mend(path, note)


def _noted_name(note_file: int) -> bytes | None:
    """The name of the file that a note is about; None if it is no note."""
    if not stat.S_ISREG(os.fstat(note_file).st_mode):
        return None
    start = os.pread(note_file, _HEAD.size + _LONGEST_NAME, 0)
    if len(start) < _HEAD.size or start[:8] != _MAGIC:
        return None
    length = _HEAD.unpack_from(start)[8]
    name = start[_HEAD.size : _HEAD.size + length]
    return name if len(name) == length > 0 and b"/" not in name and b"\0" not in name else None


def _read_note(note_file: int, file: os.stat_result) -> Note | None:
    """The note about a file; nothing is read of one that is longer than a note about such a file can be."""
    head = os.pread(note_file, _HEAD.size, 0)
    if len(head) < _HEAD.size or not stat.S_ISREG(file.st_mode):
        return None
    before, after, offset, body, tail, _, name, old, new = _HEAD.unpack(head)[2:]
    size = _HEAD.size + name + old + new + 4
    # What is noted lies within the file; an offset of 2**63 is none that can be read from.
    if offset + max(old, new) > file.st_size or body + tail > after - before or size != os.fstat(note_file).st_size:
        return None
    return Note.parse(_read(note_file, size))


def _read(descriptor: int, size: int, offset: int = 0) -> bytes:
    """Bytes of a file: one call does not give more than 2 GiB."""
    parts = []
    done = 0
    while done < size and (part := os.pread(descriptor, min(size - done, 1 << 30), offset + done)):
        parts.append(part)
        done += len(part)
    return b"".join(parts)


def _mend(path: bytes, note: Note) -> None:
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
        _log.info("repairing %s: the write that did not end is %s", os.fsdecode(path), state.told)
        if state.new:
            write_all(descriptor, state.offset, state.new)
        else:
            os.ftruncate(descriptor, state.size)
        # Versions are distinguished by times in nanoseconds, which the kernel alone does not always give.
        os.utime(descriptor)
        # The note, which goes now, may not be gone before this is done, whatever the machine does.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
