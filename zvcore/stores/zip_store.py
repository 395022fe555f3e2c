"""The objects in a zip archive: `x.zip`, `x.ozx`, and folders in them, `x.zip/inside` or `x.zip|zip:inside`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from zvcore.errors import ConflictError, CorruptDataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.stores.again import changed
from zvcore.stores.base import Stamp, Store, as_parts, check_ranges, check_span, prefix_path
from zvcore.stores.files import encode_key
from zvcore.stores.opening import archive_in, open_beside
from zvcore.stores.single_file import SingleFileStore
from zvcore.stores.zip_archive import archive_at
from zvcore.stores.zip_directory import STORED, Entry

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer

    from zvcore.stores.zip_archive import Ranges

__all__ = ["ZipStore", "open_zip"]

_Found = TypeVar("_Found")


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
    if mode != "w" and not folder.exists(beside.file) and not store.begun:
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
        self.largest = folder.largest

    def __reduce__(self) -> tuple[Any, ...]:
        if self.begun:
            raise TypeError(f"{self.root} is being written by this process; close it first")
        return (_again, (self._archive.folder, self._archive.name, self.read_only, self._prefix))

    @property
    def begun(self) -> bool:
        """Whether something was written that others do not see yet."""
        return self._archive.is_begun

    def _full(self, key: str) -> str:
        encode_key(key)
        return self._prefix + key

    # --- reading

    def get(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> bytes | memoryview | None:
        check_span(start, length)

        def span(size: int) -> Ranges:
            begin = max(0, size + start) if start < 0 else min(start, size)
            return [(begin, (size if length is None else min(size, begin + length)) - begin)]

        found = self._read(key, None if start == 0 and length is None else span, stamp)
        return None if found is None else found[0]

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Stamp | None = None
    ) -> builtins.list[memoryview] | None:
        def checked(size: int) -> Ranges:
            check_ranges(key, ranges, size)
            return ranges

        return self._read(key, checked, stamp)

    def _read(
        self, key: str, ranges: Callable[[int], Ranges] | None, stamp: Stamp | None
    ) -> builtins.list[memoryview] | None:
        """`ranges` are said when the object's size is known, which may be another each time; None: all of it."""
        return self._twice(key, stamp, lambda full: self._archive.read(full, ranges))

    def _twice(self, key: str, stamp: Stamp | None, read: Callable[[str], _Found]) -> _Found:
        """What `read` makes of the object's whole name, once more where the archive has become another one."""
        full = self._full(key)
        for last in (False, True):
            if stamp is not None and stamp != self._archive.stamp(full):
                raise changed(key, stamp)
            try:
                return read(full)
            except (ConflictError, CorruptDataError):
                # The file may be another one by now.
                if last:
                    raise
                self._archive.look_again()
        raise AssertionError

    def is_packed(self, key: str) -> bool:
        """Whether somebody has compressed an object, so that all of it is unpacked whatever part is read."""
        found = self._archive.find(self._full(key))
        return isinstance(found, Entry) and found.method != STORED

    def size(self, key: str) -> int | None:
        return self._archive.size(self._full(key))

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
        for key in self.list():
            try:
                self.check(key)
            except ZvcoreError as error:
                yield error

    def check(self, key: str) -> None:
        """Look at the checksum of an object, which no read of a part does."""
        self._twice(key, None, self._archive.check)


def _again(folder: Store, name: str, read_only: bool, prefix: str) -> ZipStore:
    store = ZipStore(folder, name, read_only)
    return store.child(prefix.rstrip("/")) if prefix else store
