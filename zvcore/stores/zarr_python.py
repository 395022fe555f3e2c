"""Stores of zarr-python 3 as stores of zvcore, Icechunk's among them."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from zvcore.errors import ConflictError, InvalidKeyError, ZvcoreError
from zvcore.stores.again import BEING_REPLACED, again, changed
from zvcore.stores.base import Snapshot, Stamp, Store, check_span, prefix_path
from zvcore.stores.clients import failure, within
from zvcore.stores.files import encode_key
from zvcore.stores.gathering import gathered
from zvcore.stores.given_stores import of_fsspec, of_obstore
from zvcore.stores.local import LocalStore
from zvcore.stores.ranges import coalesce
from zvcore.stores.request_threads import LIMIT, side_by_side
from zvcore.stores.writing import Anything, as_parts, joined
from zvcore.stores.zarr_python_places import Version, place_of

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer
    from zarr.abc.store import ByteRequest
    from zarr.abc.store import Store as Given

    from zvcore.stores.base import Span
    from zvcore.stores.zarr_python_places import Known, Place

__all__ = ["ZarrPythonStore", "of_zarr_python"]

T = TypeVar("T")
R = TypeVar("R")

_GAP = 64 << 10
_LARGEST_SPAN = 8 << 20
_AT_ONCE = 64
# How many objects are asked for before the next ones are.
_OBJECTS_AHEAD = 128
# How many parts of a large read are under way while one is decoded.
_PARTS_AHEAD = 4
# What zvcore notes while it works. Stores that take only what Zarr has cannot hold it.
_NOTE = ".zvcore-"
# The names that objects of Zarr v3 have in Icechunk, where chunks lie in folders whatever an array says.
_OF_ZARR = re.compile(r"(?:^|/)(?:zarr\.json|c(?:/\d+)*)$")


def of_zarr_python(given: Any, read_only: bool) -> Store:
    """The store over one of zarr-python; folders, obstore's and fsspec's and our own are taken for what they are."""
    for one in type(given).__mro__:
        name = f"{one.__module__.partition('.')[0]}.{one.__name__}"
        if name == "zarr.LocalStore":
            return LocalStore(given.root, read_only=read_only or given.read_only)
        if name == "zarr.ObjectStore":
            return of_obstore(given.store, read_only or given.read_only)
        if name == "zarr.FsspecStore":
            return of_fsspec(given.fs, given.path, read_only or given.read_only)
        if name == "zvcore.AsyncStore":
            found: Store = given.objects
            return found
    return ZarrPythonStore(given, read_only=read_only or given.read_only)


class ZarrPythonStore(Store):
    """What a store of zarr-python holds. Requests run in zarr-python's own loop, many at once.

    Such stores tell no versions. Writers in this process that go through zvcore notice each other; a session of
    Icechunk has no others, and what happens elsewhere it learns of when it is committed.
    """

    remote = True
    can_lock = True

    def __init__(self, given: Given, prefix: str = "", *, read_only: bool = False, place: Place | None = None) -> None:
        self.given = given
        self.prefix = f"{prefix}/" if prefix else ""
        self.read_only = read_only
        self._place = place_of(given) if place is None else place
        self._place.snapshot = _snapshot_of(given)
        self.root = f"<{type(given).__module__.partition('.')[0]} {type(given).__name__} {id(self._place):x}>"
        self.root += f"/{prefix}" if prefix else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (self.given, self.prefix.rstrip("/"), self.read_only))

    def _path(self, key: str) -> str:
        encode_key(key)
        return self.prefix + key

    def _run(self, key: str, work: Coroutine[Any, Any, T]) -> T:
        try:
            return sync(work)
        except ZvcoreError:
            raise
        except Exception as error:
            raise failure(error, key) from error

    def _gather(self, keys: Sequence[str], work: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> builtins.list[T]:
        """What each of these gives, many at once, by one call into the loop. An error says which key."""
        if len(work) == 1:
            return [self._run(keys[0], work[0]())]

        found: builtins.list[T] = []
        answers = sync(gathered(lambda begin: begin(), work, _AT_ONCE, errors=True))
        for key, one in zip(keys, answers, strict=True):
            if isinstance(one, ZvcoreError):
                raise one
            if isinstance(one, Exception):
                raise failure(one, key) from one
            if isinstance(one, BaseException):
                raise one
            found.append(one)
        return found

    def parts_ahead(self) -> int:
        return _PARTS_AHEAD

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> builtins.list[R]:
        return side_by_side(function, items, LIMIT)

    # --- reading

    async def _fetch(self, path: str, asked: ByteRequest | None) -> bytes | memoryview | None:
        noted = self._place.notes.get(path)
        if noted is not None:
            start, length = _span_of(asked, len(noted))
            return noted[start : start + length]
        if self._refuses(path):
            return None
        try:
            found = await self.given.get(path, default_buffer_prototype(), asked)
        except Exception as error:
            if _means_absent(error):
                return None
            raise
        return None if found is None else _bytes_of(found)

    def get(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> bytes | memoryview | None:
        check_span(start, length)
        path = self._path(key)
        if stamp is None and start == 0 and length is None:
            return known[path] if path in (known := self._place.known()) else self._run(key, self._fetch(path, None))
        found = self.snapshot(key, start, length, stamp=stamp)
        return None if found is None else found.data

    def get_many(self, keys: Iterable[str]) -> Iterator[bytes | memoryview | None]:
        names = [*keys]
        for first in range(0, len(names), _OBJECTS_AHEAD):
            some = names[first : first + _OBJECTS_AHEAD]
            yield from self._gather(some, [partial(self._fetch, self._path(key), None) for key in some])

    def snapshot(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> Snapshot | None:
        check_span(start, length)
        if stamp is None:
            return self.snapshots([key], [(start, length)])[0]
        return self._run(key, self._snapshot(key, start, length, stamp))

    def snapshots(self, keys: Sequence[str], spans: Sequence[Span] | None = None) -> builtins.list[Snapshot | None]:
        wanted = [(0, None)] * len(keys) if spans is None else spans
        found: builtins.list[Snapshot | None] = []
        for attempt in again(keys[0] if len(keys) == 1 else self.root, BEING_REPLACED):
            with attempt:
                found = self._gather(
                    keys, [partial(self._snapshot, key, *span, None) for key, span in zip(keys, wanted, strict=True)]
                )
        return found

    async def _snapshot(self, key: str, start: int, length: int | None, stamp: Stamp | None) -> Snapshot | None:
        path = self._path(key)
        if stamp is None and start == 0 and length is None:
            # Whoever changes it meanwhile makes its version another one than this.
            changes, data = self._place.changes(path), await self._fetch(path, None)
            return None if data is None else Snapshot(data, len(data), self._place.version(changes, len(data)))
        version = await self._version(path)
        if stamp is not None and version != stamp:
            raise changed(key, stamp)
        if version is None:
            return None
        first, last = within(version.size, start, None if length is None else start + length)
        data = await self._part(path, (first, last))
        if data is None or len(data) != last - first or self._place.changes(path) != version.changes:
            raise changed(key, version)
        return Snapshot(data, version.size, version)

    async def aget(self, key: str, start: int = 0, length: int | None = None) -> bytes | memoryview | None:
        check_span(start, length)
        path = self._path(key)
        if length == 0:
            return await super().aget(key, start, length)
        asked: ByteRequest | None = SuffixByteRequest(-start) if start < 0 else OffsetByteRequest(start)
        if length is not None:
            asked = RangeByteRequest(start, start + length)
        elif start == 0:
            asked = None
        try:
            return await self._fetch(path, asked)
        except Exception as error:
            raise failure(error, key) from error

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Stamp | None = None
    ) -> builtins.list[memoryview] | None:
        return self.get_ranges_many([(key, ranges, stamp)])[0]

    def get_ranges_many(
        self, requests: Sequence[tuple[str, Sequence[tuple[int, int]], Stamp | None]]
    ) -> builtins.list[builtins.list[memoryview] | None]:
        return self._gather([key for key, _, _ in requests], [partial(self._ranges, *request) for request in requests])

    async def _ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], stamp: Stamp | None
    ) -> builtins.list[memoryview] | None:
        path = self._path(key)
        version = stamp if isinstance(stamp, Version) else await self._version(path)
        if version is None and stamp is None:
            return None
        if version is None or (stamp is not None and version != stamp):
            raise changed(key, stamp)
        spans = coalesce(key, ranges, version.size, _GAP, _LARGEST_SPAN)
        found = await gathered(partial(self._part, path), [(start, stop) for start, stop, _ in spans], _AT_ONCE)
        # What never changes need not be looked at again.
        if (version.snapshot is None or version.snapshot != self._place.snapshot) and (
            await self._version(path) != version
        ):
            raise changed(key, version)
        result = [memoryview(b"")] * len(ranges)
        for (start, stop, inside), data in zip(spans, found, strict=True):
            if data is None or len(data) != stop - start:
                raise changed(key, version)
            for index in inside:
                offset, length = ranges[index]
                result[index] = memoryview(data)[offset - start : offset - start + length]
        return result

    async def _part(self, path: str, span: tuple[int, int]) -> bytes | memoryview | None:
        start, stop = span
        return b"" if start == stop else await self._fetch(path, RangeByteRequest(start, stop))

    async def _version(self, path: str) -> Version | None:
        changes = self._place.changes(path)
        size = await self._size(path)
        return None if size is None else self._place.version(changes, size)

    async def _size(self, path: str) -> int | None:
        if path in self._place.notes:
            return len(self._place.notes[path])
        if self._refuses(path):
            return None
        try:
            size = await self.given.getsize(path)
            # Icechunk says of chunks that there are not that they have no bytes.
            return size if size or await self.given.exists(path) else None
        except FileNotFoundError:
            return None
        except Exception as error:
            if _means_absent(error):
                return None
            raise

    def size(self, key: str) -> int | None:
        path = self._path(key)
        if path in (known := self._place.known()):
            data = known[path]
            return None if data is None else len(data)
        return self._run(key, self._size(path))

    def sizes(self, keys: Iterable[str]) -> builtins.list[int | None]:
        names = [*keys]
        return self._gather(names, [partial(self._size, self._path(key)) for key in names])

    def stamp(self, key: str) -> Stamp | None:
        path = self._path(key)
        if path in (known := self._place.known()):
            data = known[path]
            return None if data is None else self._place.version(self._place.changes(path), len(data))
        return self._run(key, self._version(path))

    def stamps(self, keys: Sequence[str]) -> builtins.list[Stamp | None]:
        return [*self._gather(keys, [partial(self._version, self._path(key)) for key in keys])]

    def settled(self, stamp: Stamp) -> bool:
        return isinstance(stamp, Version) and stamp.snapshot is not None

    def list(self, prefix: str = "") -> Iterator[str]:
        folder = self._folder(prefix)

        async def found() -> builtins.list[str]:
            return [path async for path in self.given.list_prefix(folder)]

        paths = {*self._run(prefix, found()), *self._place.notes}
        return iter(sorted(_keys(path[len(self.prefix) :] for path in paths if path.startswith(folder))))

    def list_dir(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]:
        folder = self._folder(prefix)

        async def found() -> builtins.list[tuple[str, bool]]:
            # Of what it lists, it does not say what are objects. There may be both of one name.
            async def look(name: str) -> tuple[str, bool]:
                may_be = _takes_any_key(self.given) or _OF_ZARR.search(folder + name)
                return name, bool(may_be and await self._size(folder + name) is not None)

            names = {name.rstrip("/").rpartition("/")[2] async for name in self.given.list_dir(folder.rstrip("/"))}
            return await gathered(look, [*_keys(names)], _AT_ONCE)

        named = self._run(prefix, found())
        noted = [path[len(folder) :] for path in self._place.notes if path.startswith(folder)]
        folders = {name for name, is_object in named if not is_object} | {a for a, _, b in _split(noted) if b}
        objects = {name for name, is_object in named if is_object} | {a for a, _, b in _split(noted) if not b}
        return sorted(folders), sorted(objects)

    # --- several documents at once

    @contextmanager
    def looking_at(
        self, keys: Sequence[str], otherwise: Sequence[str] = (), around: Sequence[str] = ()
    ) -> Iterator[None]:
        with self._place.looking() as known:
            if known is not None:
                folders = [self.prefix, *(cast("ZarrPythonStore", one).prefix for one in self.above())]
                self._look([*map(self._path, keys), *(folder + key for folder in folders for key in around)], known)
                if keys and not any(known.get(self._path(key)) for key in keys):
                    self._look([*map(self._path, otherwise)], known)
            yield

    def _look(self, paths: Sequence[str], known: Known) -> None:
        """Ask for these objects at once. What fails is asked for again by who needs it."""

        async def one(path: str) -> None:
            with suppress(Exception):
                changes = self._place.changes(path)
                data = await self._fetch(path, None)
                if self._place.changes(path) == changes:
                    known[path] = data

        self._gather(paths, [partial(one, path) for path in paths])

    def _refuses(self, path: str) -> bool:
        """Whether the store is sure to hold no such document. Names with numbers in them may be of chunks."""
        return not (_takes_any_key(self.given) or _OF_ZARR.search(path) or any(map(str.isdigit, _name_of(path))))

    def _folder(self, prefix: str) -> str:
        prefix = prefix_path(prefix)
        return f"{self.prefix}{prefix}/" if prefix else self.prefix

    # --- writing

    def put(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        self._refuse_if_read_only(key)
        self._run(key, self._store(self._path(key), joined(as_parts(data))))

    async def _store(self, path: str, data: bytes) -> None:
        if _is_note(path) and not _takes_any_key(self.given):
            self._place.notes[path] = data
        else:
            await self.given.set(path, default_buffer_prototype().buffer.from_bytes(data))
        self._place.is_changed(path)

    def put_if_unchanged(self, key: str, data: Buffer | Sequence[Buffer], stamp: Stamp | None) -> None:
        if not self.put_each([(key, data, stamp)])[0]:
            raise changed(key, stamp)

    def put_each(
        self, wanted: Sequence[tuple[str, Buffer | Sequence[Buffer], Stamp | Anything | None]]
    ) -> builtins.list[bool]:
        for key, _, _ in wanted:
            self._refuse_if_read_only(key)

        async def put(path: str, data: Buffer | Sequence[Buffer], condition: Stamp | Anything | None) -> bool:
            if not isinstance(condition, Anything) and await self._version(path) != condition:
                return False
            await self._store(path, joined(as_parts(data)))
            return True

        work = {self._path(key): partial(put, self._path(key), data, condition) for key, data, condition in wanted}
        if len(work) < len(wanted):  # of the same object more than once: one after the other
            return super().put_each(wanted)
        conditional = {self._path(key) for key, _, condition in wanted if not isinstance(condition, Anything)}
        with ExitStack() as held:
            for path in sorted(conditional):
                held.enter_context(self._place.lock_of(f"{path}\0"))
            return self._gather([key for key, _, _ in wanted], [*work.values()])

    def delete(self, key: str) -> bool:
        self._refuse_if_read_only(key)
        path = self._path(key)
        if self._place.notes.pop(path, None) is not None:
            self._place.is_changed(path)
            return True
        if self.size(key) is None:
            return False
        self._run(key, self.given.delete(path))
        self._place.is_changed(path)
        return True

    def delete_prefix(self, prefix: str) -> int:
        self._refuse_if_read_only(prefix)
        keys = [*self.list(prefix)]
        # What describes an array or a group last: Icechunk finds chunks through it.
        keys.sort(key=lambda key: (key.endswith("zarr.json"), -key.count("/")))
        return sum(map(self.delete, keys))

    # --- the store itself

    def lock(self, key: str, timeout: float | None = None) -> AbstractContextManager[None]:
        self._refuse_if_read_only(key)
        return self._held(self._path(key), key, timeout)

    @contextmanager
    def _held(self, path: str, key: str, timeout: float | None) -> Iterator[None]:
        lock = self._place.lock_of(path)
        if not lock.acquire(timeout=-1 if timeout is None else timeout):
            raise ConflictError(f"someone else has held the lock for all of {timeout} s", key=key)
        try:
            yield
        finally:
            lock.release()

    def object_id(self, key: str) -> Hashable:
        return (self._place.name, self._path(key))

    def child(self, prefix: str) -> Store:
        folder = self._folder(prefix).rstrip("/")
        return ZarrPythonStore(self.given, folder, read_only=self.read_only, place=self._place)

    def above(self) -> Iterator[Store]:
        parts = self.prefix.rstrip("/").split("/") if self.prefix else []
        while parts:
            parts.pop()
            yield ZarrPythonStore(self.given, "/".join(parts), read_only=self.read_only, place=self._place)


def _rebuild(given: Given, prefix: str, read_only: bool) -> ZarrPythonStore:
    return ZarrPythonStore(given, prefix, read_only=read_only)


def _takes_any_key(given: Given) -> bool:
    return type(given).__module__.partition(".")[0] != "icechunk"


def _snapshot_of(given: Any) -> str | None:
    """What names the state of a store that never changes; None for all others."""
    session = getattr(given, "session", None)
    snapshot = getattr(session, "snapshot_id", None)
    return str(snapshot) if given.read_only and snapshot is not None else None


def _means_absent(error: Exception) -> bool:
    """Icechunk refuses keys that Zarr does not have: there is nothing of that name."""
    return isinstance(error, KeyError) or "invalid zarr key" in str(error)


def _bytes_of(found: Any) -> bytes | memoryview:
    """What a buffer of zarr-python has, without a copy."""
    values = found.as_numpy_array()
    return memoryview(values).cast("B").toreadonly() if values.nbytes else b""


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]


def _is_note(key: str) -> bool:
    return _name_of(key).startswith(_NOTE)


def _keys(paths: Iterable[str]) -> Iterator[str]:
    """Those that are keys; others may have stored what is none."""
    for path in paths:
        try:
            encode_key(path)
        except InvalidKeyError:
            continue
        yield path


def _split(paths: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    return (path.partition("/") for path in paths)


def _span_of(asked: ByteRequest | None, size: int) -> tuple[int, int]:
    match asked:
        case RangeByteRequest():
            return asked.start, max(0, asked.end - asked.start)
        case OffsetByteRequest():
            return asked.offset, size
        case SuffixByteRequest():
            return max(0, size - asked.suffix), size
    return 0, size
