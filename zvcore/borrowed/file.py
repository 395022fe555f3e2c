"""Files for libraries that read them: by their path, or through the store that they lie in."""

from __future__ import annotations

import importlib
import io
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from zvcore.errors import CorruptDataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.stores.single_file import SingleFileStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from zvcore.stores import Store

__all__ = ["StoredFile", "library", "readable", "reading", "stream", "told_by"]

# How much is asked of a store at a time.
_BUFFER = 1 << 18


class StoredFile(io.RawIOBase):
    """An object of a store as a file that is read; `size` is how many bytes it has."""

    def __init__(self, store: Store, key: str) -> None:
        size = store.size(key)
        if size is None:
            raise NotFoundError("there is no file here", key=store.root)
        self._store, self._key, self.size, self._at = store, key, size, 0
        self.name = key

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise ValueError(f"no file has a byte {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Buffer) -> int:
        target = memoryview(buffer).cast("B")
        count = max(0, min(len(target), self.size - self._at))
        if count:
            data = self._store.get(self._key, self._at, count)
            if data is None or len(data) != count:
                raise CorruptDataError("the file became shorter", key=self._key, offset=self._at, expected=count)
            target[:count] = data
            self._at += count
        return count


class _Buffered(io.BufferedReader):
    """Room for what is read is made before: no more of it than there is to read, whatever a file claims."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _BUFFER:
            assert isinstance(self.raw, StoredFile)
            size = min(size, max(0, self.raw.size - self.tell()))
        return super().read(size)


def readable(store: Store) -> str | io.BufferedReader:
    """What a library opens: the path of a file on this machine, else a file over the store."""
    assert store.file is not None
    if isinstance(store, SingleFileStore) and store.folder.local_root is not None:
        return os.path.join(os.fsdecode(store.folder.local_root), store.file)
    return stream(store)


def stream(store: Store) -> io.BufferedReader:
    """A file over the store, for libraries that would leave a file of their own open."""
    assert store.file is not None
    return _Buffered(StoredFile(store, store.file), _BUFFER)


def library(name: str, extra: str, title: str) -> Any:
    """A library that reads a format, or the error that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnsupportedError(f"{title} is read by {name}, which is not here: pip install zvcore[{extra}]") from error


@contextmanager
def reading(key: str, title: str) -> Iterator[None]:
    """Whatever a library raises within this while it reads a stranger's file is an error of zvcore."""
    try:
        yield
    except ZvcoreError:
        raise
    except (MemoryError, RecursionError) as error:
        raise CorruptDataError(f"the file claims more than fits into memory as {title}", key=key) from error
    except Exception as error:
        raise told_by(error, key, title) from error


def told_by(error: Exception, key: str, title: str) -> ZvcoreError:
    """The error of zvcore that tells of one that a library has raised."""
    if isinstance(error, NotImplementedError):
        return UnsupportedError(f"{title}: {error}", key=key)
    what = " ".join(str(error).split())[:300]
    return CorruptDataError(f"this is no sound {title}: {type(error).__name__}: {what}", key=key)
