"""Stores of zarr-python as stores of ours, for the codec pipeline."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import zarr.abc.store as zarr_abc
import zarr.storage
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import _get_loop

from zvcore.errors import ConflictError, CorruptDataError, UnsupportedError
from zvcore.stores import LocalStore, Snapshot, Store
from zvcore.stores.given_stores import SIGNING, of_known_address, of_obstore, of_references
from zvcore.stores.ranges import coalesce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import BufferPrototype

__all__ = ["Manner", "as_store"]

# How many requests are under way at once.
_AT_ONCE = 32
# What is fetched although nobody wants it rather than asking twice, and the most that is asked for at once: as
# zarr-python's own `get_ranges`, where it has one, does it.
_GAP = 1 << 20
_LARGEST_SPAN = 16 << 20
_COALESCING = (
    ("max_gap_bytes", "sharding_coalesce_max_gap_bytes"),
    ("max_coalesced_bytes", "sharding_coalesce_max_bytes"),
)
_LARGEST_OBJECT = 1 << 62
# What obstore calls its stores of services over a network, which are asked over connections of our own.
_FAR_AWAY = (*SIGNING, "HTTPStore")

# Locks of objects in stores that only this process can lock, by store and key, while somebody holds or awaits them.
_locks: WeakValueDictionary[tuple[int, str], threading.Lock] = WeakValueDictionary()
_making = threading.Lock()


def _after_fork() -> None:
    # Threads that held them do not come along.
    global _locks, _making
    _locks = WeakValueDictionary()
    _making = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


class Manner(NamedTuple):
    """How an array wants its store to be asked.

    prototype   of the buffers that the store is asked for and given
    coalescing  keyword arguments of the store's `get_ranges`, where it has one
    """

    prototype: BufferPrototype
    coalescing: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, spec: ArraySpec) -> Manner:
        limits = [(name, getattr(spec.config, setting, None)) for name, setting in _COALESCING]
        return cls(spec.prototype, tuple((name, limit) for name, limit in limits if limit is not None))


def as_store(store: Any, manner: Manner | None = None) -> Store:
    """Our store for one of zarr-python's."""
    if type(store) is zarr.storage.LocalStore:
        return LocalStore(Path(store.root), read_only=store.read_only)
    if type(store) is zarr.storage.MemoryStore:
        return ZarrMemory(store, manner)
    if type(store) is zarr.storage.ObjectStore and type(store.store).__name__ in _FAR_AWAY:
        # Web servers are only read, whatever the store says of itself.
        return of_obstore(store.store, store.read_only or type(store.store).__name__ == "HTTPStore")
    if type(store) is zarr.storage.FsspecStore:
        is_web = str(store.path).startswith("http")
        found = of_known_address(store.fs, store.path, store.read_only or is_web)
        if found is None and store.read_only:
            found = of_references(store.fs, store.path)
        return found or Bridged(store, manner)
    return Bridged(store, manner)


class _Same:
    """A stamp that equals only itself, and keeps alive what it stands for."""

    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.held is self.held

    def __hash__(self) -> int:
        return id(self.held)


class _Foreign(Store):
    """What the two kinds have in common. Objects are put as a whole; locks hold within this process."""

    can_lock = True

    def __init__(self, zarr_store: Any, manner: Manner | None = None, prefix: str = "") -> None:
        self._store = zarr_store
        self.manner = manner or Manner(default_buffer_prototype())
        self._prefix = prefix
        self.read_only = zarr_store.read_only
        self.root = f"{zarr_store}/{prefix}".rstrip("/")

    def _key(self, key: str) -> str:
        return f"{self._prefix}/{key}" if self._prefix else key

    def child(self, prefix: str) -> Store:
        return type(self)(self._store, self.manner, self._key(prefix))

    def object_id(self, key: str) -> Any:
        return (_Same(self._store), self._key(key))

    def lock(self, key: str, timeout: float | None = None) -> AbstractContextManager[Any]:
        place = id(self._store), self._key(key)
        with _making:
            lock = _locks.get(place)
            if lock is None:
                lock = _locks[place] = threading.Lock()
            return lock

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Any = None) -> list[memoryview] | None:
        raw = self.get(key, stamp=stamp)
        return None if raw is None else [_part(memoryview(raw), offset, length, key) for offset, length in ranges]

    def put_if_unchanged(self, key: str, data: Any, stamp: Any) -> None:
        if self.stamp(key) != stamp:
            raise ConflictError("the object was changed by someone else", key=key)
        self.put(key, data)

    def list(self, prefix: str = "") -> Iterator[str]:
        raise UnsupportedError("zarr-python lists its own stores", key=prefix)

    def list_dir(self, prefix: str = "") -> Any:
        raise UnsupportedError("zarr-python lists its own stores", key=prefix)

    def delete_prefix(self, prefix: str) -> int:
        raise UnsupportedError("zarr-python empties its own stores", key=prefix)


def _beyond(key: str, offset: int, length: int, size: int | None) -> CorruptDataError:
    text = "the byte range reaches beyond the end of the object"
    return CorruptDataError(text, key=key, offset=offset, length=length, found=size)


def _part(raw: memoryview, offset: int, length: int, key: str) -> memoryview:
    if offset > len(raw) or length > len(raw) - offset:
        raise _beyond(key, offset, length, len(raw))
    return raw[offset : offset + length]


def _slice(raw: memoryview, start: int, length: int | None) -> memoryview:
    if start < 0:
        return raw[max(0, len(raw) + start) :]
    return raw[start:] if length is None else raw[start : start + length]


def _joined(data: Any) -> bytes:
    return b"".join(data) if isinstance(data, (list, tuple)) else bytes(data)


class ZarrMemory(_Foreign):
    """A `zarr.storage.MemoryStore`, whose buffers are read where they lie."""

    def _buffer(self, key: str) -> Any:
        return self._store._store_dict.get(self._key(key))

    def get(self, key: str, start: int = 0, length: int | None = None, *, stamp: Any = None) -> memoryview | None:
        buffer = self._buffer(key)
        if stamp is not None and (buffer is None or stamp != _Same(buffer)):
            raise ConflictError("the object was changed by someone else", key=key)
        return None if buffer is None else _slice(memoryview(buffer.as_numpy_array()).cast("B"), start, length)

    def size(self, key: str) -> int | None:
        buffer = self._buffer(key)
        return None if buffer is None else len(buffer)

    def stamp(self, key: str) -> Any:
        buffer = self._buffer(key)
        return None if buffer is None else _Same(buffer)

    def put(self, key: str, data: Any) -> None:
        self._store._store_dict[self._key(key)] = self.manner.prototype.buffer.from_bytes(_joined(data))

    def delete(self, key: str) -> bool:
        return self._store._store_dict.pop(self._key(key), None) is not None


class Bridged(_Foreign):
    """Any other store of zarr-python, through its own asynchronous methods. Called from threads, never from its
    loop.

    Such a store may read a whole object to say how large it is, so it is not asked.
    """

    blind = True

    def _wait(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, _get_loop()).result()

    def get(self, key: str, start: int = 0, length: int | None = None, *, stamp: Any = None) -> memoryview | None:
        wanted: Any = None
        if start < 0:
            wanted = zarr_abc.SuffixByteRequest(-start)
        elif length is not None:
            wanted = zarr_abc.RangeByteRequest(start, start + length)
        elif start:
            wanted = zarr_abc.OffsetByteRequest(start)
        buffer = self._wait(self._store.get(self._key(key), self.manner.prototype, wanted))
        return None if buffer is None else memoryview(buffer.as_numpy_array()).cast("B")

    def get_many(self, keys: Any) -> Iterator[memoryview | None]:
        async def gather() -> list[Any]:
            limit = asyncio.Semaphore(_AT_ONCE)

            async def one(key: str) -> Any:
                async with limit:
                    return await self._store.get(self._key(key), self.manner.prototype)

            return await asyncio.gather(*(one(key) for key in keys))

        for buffer in self._wait(gather()):
            yield None if buffer is None else memoryview(buffer.as_numpy_array()).cast("B")

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Any = None) -> list[memoryview] | None:
        return self.get_ranges_many([(key, ranges, stamp)])[0]

    def get_ranges_many(
        self, requests: Sequence[tuple[str, Sequence[tuple[int, int]], Any]]
    ) -> list[list[memoryview] | None]:
        async def gather() -> list[list[memoryview] | None]:
            limit = asyncio.Semaphore(_AT_ONCE)

            async def one(key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview] | None:
                async with limit:
                    return await self._ranges(key, ranges)

            return await asyncio.gather(*(one(key, ranges) for key, ranges, _ in requests))

        found: list[list[memoryview] | None] = self._wait(gather())
        return found

    async def _ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[memoryview] | None:
        path, prototype = self._key(key), self.manner.prototype
        parts: list[Any] = [None] * len(ranges)
        for start, length in ranges:
            if start + length >= _LARGEST_OBJECT:
                raise _beyond(key, start, length, None)
        if hasattr(self._store, "get_ranges"):
            limits = dict(self.manner.coalescing)
            wanted = [zarr_abc.RangeByteRequest(start, start + length) for start, length in ranges]
            try:
                async for group in self._store.get_ranges(path, wanted, prototype=prototype, **limits):
                    for number, part in group:
                        parts[number] = None if part is None else memoryview(part.as_numpy_array()).cast("B")
            except BaseExceptionGroup as errors:
                _, others = errors.split(FileNotFoundError)
                if others is not None:
                    raise others.exceptions[0] from errors
                return None
        else:
            for start, stop, members in coalesce(key, ranges, _LARGEST_OBJECT, _GAP, _LARGEST_SPAN):
                buffer = await self._store.get(path, prototype, zarr_abc.RangeByteRequest(start, stop))
                if buffer is None:
                    return None
                span = memoryview(buffer.as_numpy_array()).cast("B")
                for number in members:
                    offset, length = ranges[number]
                    parts[number] = span[offset - start : offset - start + length]
        for part, (start, length) in zip(parts, ranges, strict=True):
            if part is None or len(part) != length:
                raise _beyond(key, start, length, None if part is None else start + len(part))
        return parts

    def each(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        if len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(min(len(items), _AT_ONCE)) as pool:
            return list(pool.map(function, items))

    def size(self, key: str) -> int | None:
        try:
            return int(self._wait(self._store.getsize(self._key(key))))
        except FileNotFoundError:
            return None

    def stamp(self, key: str) -> Any:
        # Nothing tells versions apart: each look is a version of its own.
        return None if self.size(key) is None else _Same(object())

    def snapshot(self, key: str, start: int = 0, length: int | None = None, *, stamp: Any = None) -> Snapshot | None:
        if start or length is not None or stamp is not None:
            return super().snapshot(key, start, length, stamp=stamp)
        # Asking for its size might read it once more.
        raw = self.get(key)
        return None if raw is None else Snapshot(raw, len(raw), _Same(object()))

    def settled(self, stamp: Any) -> bool:
        return False

    def put(self, key: str, data: Any) -> None:
        buffer = self.manner.prototype.buffer.from_bytes(_joined(data))
        self._wait(self._store.set(self._key(key), buffer))

    def put_if_unchanged(self, key: str, data: Any, stamp: Any) -> None:
        self.put(key, data)

    def delete(self, key: str) -> bool:
        self._wait(self._store.delete(self._key(key)))
        return True
