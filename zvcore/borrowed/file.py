"""Files for libraries that read them: by their path, or through the store that they lie in."""

from __future__ import annotations

import importlib
import io
import os
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from zvcore.errors import CorruptDataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.stores.locks import held_locks
from zvcore.stores.single_file import SingleFileStore, facts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer

    from zvcore.stores import Store
    from zvcore.stores.files import OpenFile

__all__ = ["StoredFile", "library", "readable", "reading", "stream", "told_by"]

# How much is asked of a store at a time.
_BUFFER = 1 << 18
# Of a file that lies far away: what a library asks for at a time, and how many bytes are kept in case they are wanted
# again. Libraries walk through the directories of a file more than once.
_FAR_BUFFER = 1 << 13
_KEPT = 32 << 20


class StoredFile(io.RawIOBase):
    """An object of a store as a file that is read; `size` is how many bytes it has."""

    def __init__(self, store: Store, key: str) -> None:
        far = store.parts_ahead() > 0
        # Blocks that are kept are of one version, which was there before it was asked how long it is. A file of this
        # machine may be replaced while a library has it open.
        facts = facts_of(store, key)
        if facts is None:
            raise NotFoundError("there is no file here", key=store.root)
        self._stamp = facts.stamp if far else None
        self._store, self._key, self.size, self._at = store, key, facts.size, 0
        self.name = key
        self._far = _FarAway(self._stored, facts.size) if far else None
        self._held: OpenFile | None = None

    @property
    def buffer_size(self) -> int:
        """How much a buffer before it should hold."""
        return _BUFFER if self._far is None else _FAR_BUFFER

    def expect(self, places: Sequence[int], slack: int) -> None:
        """What begins at about these places is fetched at once, if that saves anything."""
        if self._far is not None:
            self._far.expect(places, slack, lambda ranges: self._store.get_ranges(self._key, ranges, stamp=self._stamp))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within this, a file of this machine stays open, and is not looked for each time: for many short reads."""
        store = self._store
        if isinstance(store, SingleFileStore) and store.folder.local_root is not None and not held_locks:
            self._held = store.folder.kept_file(self._key)
        try:
            yield
        finally:
            self._held = None

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
            target[:count] = (self._stored if self._far is None else self._far.read)(self._at, count)
            self._at += count
        return count

    def _stored(self, at: int, count: int) -> bytes | memoryview:
        held = self._held
        if held is not None:
            data: bytes | memoryview | None = held.read(at, count)
        else:
            data = self._store.get(self._key, at, count, stamp=self._stamp)
        if data is None or len(data) != count:
            raise CorruptDataError("the file became shorter", key=self._key, offset=at, expected=count)
        return data


class _FarAway:
    """Blocks of a file for each of whose requests one waits: they are kept, and those behind them fetched with them
    where reads follow each other.
    """

    BLOCK = 1 << 13
    # What is longer is neither kept nor fetched ahead of time.
    _LONG = 1 << 16
    # How much behind what is wanted is fetched with it.
    _NEAREST, _FURTHEST = 1 << 14, 1 << 18

    def __init__(self, stored: Callable[[int, int], bytes | memoryview], size: int) -> None:
        self._stored, self._size = stored, size
        self._blocks: OrderedDict[int, memoryview] = OrderedDict()
        # Where the last request ended, and how much of it was ahead of what was wanted.
        self._end, self._ahead = -self.BLOCK, self._NEAREST
        self._fetched = 0

    def read(self, at: int, count: int) -> bytes | memoryview:
        if count > self._LONG:
            return self._stored(at, count)
        wanted = range(at // self.BLOCK, (at + count - 1) // self.BLOCK + 1)
        missing = [block for block in wanted if block not in self._blocks]
        if missing:
            begin = missing[0] * self.BLOCK
            follows = 0 <= begin - self._end <= self.BLOCK
            least = min(max(self._NEAREST, self._fetched // 4 // self.BLOCK * self.BLOCK), self._FURTHEST)
            self._ahead = max(least, min(2 * self._ahead, self._FURTHEST) if follows else 0)
            self._end = min((missing[-1] + 1) * self.BLOCK + self._ahead, self._size)
            self._keep(begin, self._stored(begin, self._end - begin))
        found = b"".join(map(self._used, wanted))
        begin = at - wanted[0] * self.BLOCK
        return found[begin : begin + count]

    def expect(self, places: Sequence[int], slack: int, ranges_of: Callable[[Sequence[tuple[int, int]]], Any]) -> None:
        ranges = []
        for place in places:
            begin = max(0, place - slack) // self.BLOCK * self.BLOCK
            end = min((place + slack) // self.BLOCK * self.BLOCK + 2 * self.BLOCK, self._size)
            if begin < end and place // self.BLOCK not in self._blocks:
                ranges.append((begin, end - begin))
        found = (ranges_of(ranges) if ranges else None) or ()
        # None of them where the file is gone, which whoever reads it is told.
        for (begin, _), data in zip(ranges, found, strict=False):
            self._keep(begin, data)

    def _keep(self, begin: int, data: bytes | memoryview) -> None:
        self._fetched += len(data)
        view = memoryview(data)
        for start in range(0, len(view), self.BLOCK):
            # Copies: of what was fetched for a few bytes the rest is not held.
            self._blocks[(begin + start) // self.BLOCK] = memoryview(bytes(view[start : start + self.BLOCK]))
        while len(self._blocks) * self.BLOCK > _KEPT:
            self._blocks.popitem(last=False)

    def _used(self, block: int) -> memoryview:
        self._blocks.move_to_end(block)
        return self._blocks[block]


class Buffered(io.BufferedReader):
    """Room for what is read is made before: no more of it than there is to read, whatever a file claims."""

    raw: StoredFile

    def __init__(self, file: StoredFile, most: int = _BUFFER) -> None:
        super().__init__(file, min(most, file.buffer_size))

    def expect(self, places: Sequence[int], slack: int = 0) -> None:
        """What begins at these places of the file, or so many bytes off, is likely to be read next."""
        self.raw.expect(places, slack)

    def held(self) -> AbstractContextManager[None]:
        return self.raw.held()

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _BUFFER:
            size = min(size, max(0, self.raw.size - self.tell()))
        return super().read(size)


def readable(store: Store) -> str | io.BufferedReader:
    """What a library opens: the path of a file on this machine, else a file over the store."""
    assert store.file is not None
    if isinstance(store, SingleFileStore) and store.folder.local_root is not None:
        return os.path.join(os.fsdecode(store.folder.local_root), store.file)
    return stream(store)


def stream(store: Store, buffer: int = _BUFFER) -> Buffered:
    """A file over the store, for libraries that would leave a file of their own open; `buffer`: how many bytes are read
    at least, at most.
    """
    assert store.file is not None
    return Buffered(StoredFile(store, store.file), buffer)


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
