"""Writing an object piece by piece, in any order, that readers see only when it is whole."""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import tempfile
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final, Self, cast

from zvcore.stores.durability import DURABILITIES
from zvcore.stores.file_copies import copy_part
from zvcore.stores.file_writes import finish
from zvcore.stores.late_writes import gives_space, start
from zvcore.stores.lock_names import LONGEST_NAME, too_long
from zvcore.stores.open_files import pool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from typing_extensions import Buffer

    from zvcore.stores.base import Stamp, Store
    from zvcore.stores.files import OpenFile

__all__ = ["ANYTHING", "Anything", "FileWriter", "ObjectWriter", "SpooledWriter", "as_parts", "name_of", "write_all"]


class Anything:
    """Stands for a stamp that does not matter."""


ANYTHING: Final = Anything()


def as_parts(data: Buffer | Sequence[Buffer]) -> tuple[Buffer, ...]:
    """What a write was given, as the buffers to write one after the other."""
    return tuple(data) if isinstance(data, list | tuple) else (cast("Buffer", data),)


def joined(parts: Sequence[Buffer]) -> bytes:
    """One object of these parts, which nobody changes afterwards: whoever takes it may keep it as it is."""
    if len(parts) == 1 and isinstance(parts[0], bytes):
        return parts[0]
    views = [memoryview(part) for part in parts]
    return b"".join([view if view.c_contiguous else view.tobytes() for view in views])


class ObjectWriter(ABC):
    """A context manager: leaving it stores what was written, leaving it by an exception or after `discard` nothing.

    Bytes that are never written are zero.

    copies_files  whether `copy_from` works: what is written is a file of this machine
    """

    copies_files: bool = False

    @abstractmethod
    def write_at(self, offset: int, data: Buffer) -> None:
        """Write these bytes at this place."""

    @abstractmethod
    def _commit(self) -> None: ...

    @abstractmethod
    def _abandon(self) -> None:
        """Let go of everything; called in any case, after `_commit` if that was called."""

    def __init__(self) -> None:
        self._discarded = False

    def discard(self) -> None:
        """Store nothing on leaving."""
        self._discarded = True

    def file(self) -> BinaryIO:
        """A file that has what is written, for those who write to nothing else. It is closed before the writer is left.

        Of objects that are files of this machine alone.
        """
        raise TypeError(f"{type(self).__name__}: no file has what is written")

    def copy_from(self, file: OpenFile, at: int, size: int) -> int:
        """Write so many bytes of a file at the place where they lie in it: how many, fewer where it ends before."""
        raise TypeError(f"{type(self).__name__}: what is written is no file")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._discarded:
                self._commit()
        finally:
            self._abandon()


def write_all(descriptor: int, offset: int, data: Buffer, path: bytes | None = None) -> int:
    """Write a buffer into a file, whatever one call to the system takes of it: how many bytes.

    path  what errors call the file, by default the name that it was opened by
    """
    view = memoryview(data).cast("B")
    done = 0
    try:
        while done < len(view):
            done += _with_space(partial(os.pwrite, descriptor, view[done : done + (1 << 30)], offset + done))
    except OSError as error:
        # Of what is open the system says no name, and whoever has to make room must know where.
        error.filename = name_of(descriptor) if path is None else os.fsdecode(path)
        raise
    return done


def _with_space(work: Callable[[], int]) -> int:
    """What `work` gives. On a full disk it gets the space of old versions that only wait for the disk."""
    try:
        return work()
    except OSError as error:
        if not gives_space(error.errno or 0):
            raise
    return work()


def name_of(descriptor: int) -> str:
    """The name by which a file was opened, as far as the system tells."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return "a temporary file"


class SpooledWriter(ObjectWriter):
    """For stores that take objects as a whole: the pieces are gathered in a temporary file without a name."""

    def __init__(self, store: Store, key: str, unchanged: Stamp | Anything | None) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._unchanged = unchanged
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed on leaving

    def write_at(self, offset: int, data: Buffer) -> None:
        write_all(self._file.fileno(), offset, data)

    def _commit(self) -> None:
        data: mmap.mmap | bytes = b""
        if os.fstat(self._file.fileno()).st_size:
            data = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            if isinstance(self._unchanged, Anything):
                self._store.put(self._key, data)
            else:
                self._store.put_if_unchanged(self._key, data, self._unchanged)
        finally:
            if isinstance(data, mmap.mmap):
                # What an error on its way up still looks at goes when that does.
                with contextlib.suppress(BufferError):
                    data.close()

    def _abandon(self) -> None:
        self._file.close()


class FileWriter(ObjectWriter):
    """Writes a new file beside the old one, which takes the old one's name in the end. Its folder is there already."""

    copies_files = True

    def __init__(self, path: bytes, durability: int) -> None:
        super().__init__()
        if len(os.path.basename(path)) > LONGEST_NAME:
            # Before it is written, and not when it gets its name.
            raise too_long(path)
        if DURABILITIES[durability] == "late":
            start()
        self._path = path
        self._durability = durability
        self._temporary = os.path.join(os.path.dirname(path), f".{secrets.token_hex(8)}.zvtmp".encode())
        how = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._descriptor = _with_space(partial(os.open, self._temporary, how, 0o666))

    def write_at(self, offset: int, data: Buffer) -> None:
        write_all(self._descriptor, offset, data, self._path)

    def copy_from(self, file: OpenFile, at: int, size: int) -> int:
        try:
            return _with_space(partial(copy_part, file, self._descriptor, at, size))
        except OSError as error:
            error.filename = error.filename or os.fsdecode(self._path)
            raise

    def file(self) -> BinaryIO:
        return os.fdopen(os.dup(self._descriptor), "r+b")

    def _commit(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        temporary, self._temporary = self._temporary, b""
        try:
            finish(descriptor, temporary, self._path, self._durability)
        finally:
            pool.drop(self._path)

    def _abandon(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._temporary:
            os.unlink(self._temporary)
            self._temporary = b""
