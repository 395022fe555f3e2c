"""The objects in a zip archive: `x.zip`, `x.ozx`, and folders in them, `x.zip/inside` or `x.zip|zip:inside`."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from zvcore.errors import ConflictError, CorruptDataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.stores.again import changed
from zvcore.stores.base import Snapshot, Stamp, Store, check_ranges, check_span, prefix_path
from zvcore.stores.clients import within
from zvcore.stores.files import encode_key
from zvcore.stores.opening import archive_in, open_beside
from zvcore.stores.single_file import SingleFileStore
from zvcore.stores.writing import as_parts
from zvcore.stores.zip_archive import Request, archive_at
from zvcore.stores.zip_directory import STORED, Entry

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer

    from zvcore.stores.files import Watched
    from zvcore.stores.within import Within
    from zvcore.stores.zip_reading import Ranges

__all__ = ["ZipStore", "open_zip"]

T = TypeVar("T")
R = TypeVar("R")

# How many bytes of whole objects are read together.
_AT_ONCE = 64 << 20


def open_zip(address: str, mode: str, options: dict[str, Any]) -> Store:
    """The store over an archive, in whatever store the archive lies; mode "w" begins one that is not there."""

    found = archive_in(address)
    if found is None:
        raise ValueError(f"{address} is the address of no archive: its name ends with .zip or .ozx")
    beside = open_beside(found[0], "r" if mode == "r" else "w", options)
    if not isinstance(beside, SingleFileStore):
        raise NotFoundError("there is nothing here", key=found[0])
    folder = beside.folder
    store = ZipStore(folder, beside.file, read_only=mode == "r")
    if mode != "w" and not store.was_there() and not folder.exists(beside.file) and not store.begun:
        raise NotFoundError("there is no archive here", key=address)
    if mode != "r" and folder.local_root is None:
        raise UnsupportedError("archives are written on disks of this machine only", key=found[0])
    return store.child(found[1]) if found[1] else store


class ZipStore(Store):
    """The objects of one archive.

    Others see what was written when `finish` or `close` is called, or when the last store, array or group over the
    archive is gone: then a new file takes the place of the old one. All stores over an archive in a process write
    together; of two processes, the one that finishes later gets a `ConflictError`.

    Objects are stored as they are, so that parts of them can be read. What others have compressed is unpacked as a
    whole. Checksums are looked at when an object is read as a whole.
    """

    can_lock = True

    def __init__(self, folder: Store, name: str, read_only: bool = True) -> None:
        self._archive = archive_at(folder, name)
        self._prefix = ""
        self.read_only = read_only
        self.root = self._archive.root
        self.remote = folder.remote
        self.in_one_file = folder.local_root is not None
        self.largest = folder.largest

    def __reduce__(self) -> tuple[Any, ...]:
        if self.begun:
            raise TypeError(f"{self.root} is being written by this process; close it first")
        return (_again, (self._archive.folder, self._archive.name, self.read_only, self._prefix))

    @property
    def begun(self) -> bool:
        """Whether something was written that others do not see yet."""
        return self._archive.is_begun

    def was_there(self) -> bool:
        """Whether the archive was there when it was last looked at, which every opening does of one that is known."""
        return self._archive.was_there()

    def durable(self, fsync: bool | None, durability: str | None = None) -> Store:
        # All stores over an archive write together: into one file, which is as durable as any of them wants it.
        if fsync and not self.read_only:
            self._archive.sync_writes()
        return super().durable(fsync, durability)

    def _full(self, key: str) -> str:
        encode_key(key)
        return self._prefix + key

    # --- reading

    def get(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> bytes | memoryview | None:
        check_span(start, length)
        if start == 0 and length is None and stamp is None:
            return self._twice(partial(self._archive.whole, self._full(key)))

        def span(size: int) -> Ranges:
            begin, end = within(size, start, None if length is None else start + length)
            return [(begin, end - begin)]

        whole = start == 0 and length is None
        found = self._read([(key, None if whole else span, stamp)])[0]
        return None if found is None else found[0]

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Stamp | None = None
    ) -> builtins.list[memoryview] | None:
        return self.get_ranges_many([(key, ranges, stamp)])[0]

    def get_many(self, keys: Iterable[str]) -> Iterator[bytes | memoryview | None]:
        wanted = list(keys)
        if len(wanted) == 1:
            yield self.get(wanted[0])
            return
        for some in self._batches(wanted):
            for found in self._read([(key, None, None) for key in some]):
                yield None if found is None else found[0]

    def _batches(self, keys: builtins.list[str]) -> Iterator[builtins.list[str]]:
        """The keys, of objects that are not too much to be read together."""
        batch: builtins.list[str] = []
        nbytes = 0
        for key, size in zip(keys, self.sizes(keys), strict=True):
            nbytes += size or 0
            if batch and nbytes > _AT_ONCE:
                yield batch
                batch, nbytes = [], size or 0
            batch.append(key)
        if batch:
            yield batch

    def get_ranges_many(
        self, requests: Sequence[tuple[str, Sequence[tuple[int, int]], Stamp | None]]
    ) -> builtins.list[builtins.list[memoryview] | None]:
        def checked(key: str, ranges: Ranges) -> Callable[[int], Ranges]:
            def within(size: int) -> Ranges:
                check_ranges(key, ranges, size)
                return ranges

            return within

        return self._read([(key, checked(key, ranges), stamp) for key, ranges, stamp in requests])

    def watched(self, key: str) -> Watched | None:
        return self._archive.watched()

    def watched_stamp(self, stamp: Stamp | None) -> bytes | None:
        # That of the archive, with which its objects stay what they are.
        return super().watched_stamp(stamp[0] if isinstance(stamp, tuple) else None)

    def in_file(self, keys: Sequence[str], stamps: Sequence[Stamp | None] | None) -> Within | None:
        return self._archive.in_file([self._full(key) for key in keys], stamps)

    def is_in_file(self, stamp: Stamp | None) -> bool:
        return self._archive.is_in_file(stamp)

    def snapshot(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> Snapshot | None:
        if stamp is not None:
            return super().snapshot(key, start, length, stamp=stamp)
        for asking in (False, True):
            # What is read tells whether the archive is still the one that was looked at.
            now = self._archive.stamp(self._full(key), asking)
            if now is not None:
                try:
                    return super().snapshot(key, start, length, stamp=now)
                except ConflictError:
                    break
        return super().snapshot(key, start, length)

    def _read(
        self, wanted: Sequence[tuple[str, Callable[[int], Ranges] | None, Stamp | None]]
    ) -> builtins.list[builtins.list[memoryview] | None]:
        """(key, ranges, stamp) of each; `ranges` are said when the object's size is known, see `Request`."""
        requests = [Request(self._full(key), ranges) for key, ranges, _ in wanted]

        def read() -> builtins.list[builtins.list[memoryview] | None]:
            stamped = [(key, full, stamp) for (key, _, stamp), (full, _) in zip(wanted, requests, strict=True)]
            gone = [
                (key, stamp) for key, full, stamp in stamped if stamp is not None and not self._is_still(full, stamp)
            ]
            if len(gone) > 1:
                raise ConflictError(f"{self._archive.root} was replaced by someone else in the meantime")
            for key, stamp in gone:
                raise changed(key, stamp)
            return self._archive.read(requests)

        return self._twice(read)

    def _is_still(self, full: str, stamp: Stamp) -> bool:
        return stamp == self._archive.stamp(full, asking=False) or stamp == self._archive.stamp(full)

    def _twice(self, read: Callable[[], T]) -> T:
        """What `read` gives, once more where the archive has become another one."""
        try:
            return read()
        except (ConflictError, CorruptDataError):
            self._archive.look_again()
            return read()

    def is_packed(self, key: str) -> bool:
        """Whether somebody has compressed an object, so that all of it is unpacked whatever part is read."""
        found = self._archive.find(self._full(key))
        return isinstance(found, Entry) and found.method != STORED

    def size(self, key: str) -> int | None:
        return self.sizes([key])[0]

    def sizes(self, keys: Iterable[str]) -> builtins.list[int | None]:
        self._archive.look_if_near()
        return [self._archive.size(self._full(key)) for key in keys]

    def stamp(self, key: str) -> Stamp | None:
        return self._archive.stamp(self._full(key))

    def list(self, prefix: str = "") -> Iterator[str]:
        prefix = prefix_path(prefix)
        skip = len(self._prefix)
        return (name[skip:] for name in self._archive.below(self._prefix + (prefix + "/" if prefix else "")))

    def list_dir(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]:
        prefix = prefix_path(prefix)
        above = self._prefix + (prefix + "/" if prefix else "")
        folders: dict[str, None] = {}
        objects = []
        for key in self._archive.below(above):
            name, slash, _ = key[len(above) :].partition("/")
            if slash:
                folders[name] = None
            else:
                objects.append(name)
        return sorted(folders), objects

    # --- writing

    def put(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        self._refuse_if_read_only(key)
        self._archive.put(self._full(key), as_parts(data))

    def put_if_unchanged(self, key: str, data: Buffer | Sequence[Buffer], stamp: Stamp | None) -> None:
        self._refuse_if_read_only(key)
        with self._archive.guard:
            if self.stamp(key) != stamp:
                raise changed(key, stamp)
            self._archive.put(self._full(key), as_parts(data))

    def delete(self, key: str) -> bool:
        self._refuse_if_read_only(key)
        return self._archive.delete(self._full(key))

    def delete_prefix(self, prefix: str) -> int:
        self._refuse_if_read_only(prefix)
        with self._archive.guard:
            return sum(self.delete(key) for key in [*self.list(prefix)])

    def lock(self, key: str, timeout: float | None = None) -> AbstractContextManager[None]:
        self._refuse_if_read_only(key)
        return self._locked(self._full(key), -1 if timeout is None else timeout)

    @contextmanager
    def _locked(self, key: str, timeout: float) -> Iterator[None]:
        lock = self._archive.lock_of(key)
        if not lock.acquire(timeout=timeout):
            raise ConflictError(f"someone else has held the lock for all of {timeout} s", key=key)
        try:
            yield
        finally:
            lock.release()

    # --- the store itself

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> builtins.list[R]:
        return self._archive.folder.each(function, items)

    def parts_ahead(self) -> int:
        return self._archive.folder.parts_ahead()

    def small_parts_pay(self) -> bool:
        return self._archive.folder.small_parts_pay()

    def object_id(self, key: str) -> Hashable:
        return (self._archive.folder.object_id(self._archive.name), self._full(key))

    def child(self, prefix: str) -> ZipStore:
        prefix = prefix_path(prefix)
        view = object.__new__(ZipStore)
        view.__dict__.update(self.__dict__)
        if prefix:
            view._prefix = f"{self._prefix}{prefix}/"
            view.root = f"{self.root}/{prefix}"
        return view

    def finish(self) -> None:
        """Make a new archive take the place of the old one, if something was written."""
        self._archive.finish()

    def close(self) -> None:
        self.finish()

    def __enter__(self) -> ZipStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def damaged(self) -> Iterator[ZvcoreError]:
        """Objects whose bytes are not those that the archive's checksums are of."""
        for some in self._batches([*self.list()]):
            # Of a large one a piece at a time is read.
            if len(some) > 1 and self._are_sound(some):
                continue
            for key in some:
                try:
                    self.check(key)
                except ZvcoreError as error:
                    yield error

    def _are_sound(self, keys: builtins.list[str]) -> bool:
        try:
            self._read([(key, None, None) for key in keys])
        except ZvcoreError:
            return False
        return True

    def check(self, key: str) -> None:
        """Look at the checksum of an object, which no read of a part does."""
        self._twice(lambda: self._archive.check(self._full(key)))


def _again(folder: Store, name: str, read_only: bool, prefix: str) -> ZipStore:
    store = ZipStore(folder, name, read_only)
    return store.child(prefix.rstrip("/")) if prefix else store
