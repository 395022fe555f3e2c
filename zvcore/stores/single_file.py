"""A store over one file: for formats whose datasets are single files."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from zvcore.errors import ConflictError, CorruptDataError, InvalidKeyError
from zvcore.stores.base import Snapshot, Stamp, Store, prefix_path
from zvcore.stores.files import encode_key
from zvcore.stores.writing import ANYTHING, Anything, ObjectWriter

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer

    from zvcore.errors import ZvcoreError
    from zvcore.stores.files import OpenFile
    from zvcore.stores.one_place import LookedAt
    from zvcore.stores.partial_writes import Unfinished

__all__ = ["Opened", "SingleFileStore", "another_by_now", "facts_of"]

T = TypeVar("T")

# What is true of the store around the file is true of this one.
_FACTS = (
    "of_files", "largest", "read_only", "remote", "blind", "can_lock", "supports_patch", "fsync", "durability",
)  # fmt: skip


class Opened(NamedTuple):
    """How long a file was when it was opened, and its stamp."""

    size: int
    stamp: Stamp


def another_by_now(key: str) -> CorruptDataError:
    """The error of those who know of a file what another version of it has said."""
    return CorruptDataError("the file is another one by now; open it again", key=key)


def facts_of(store: Store, key: str) -> Opened | None:
    """The size and the stamp of an object: those of the version that was opened, where no other one is read."""
    if isinstance(store, SingleFileStore) and store.opened is not None and key == store.file:
        return store.opened
    size, stamp = store.size(key), store.stamp(key)
    return None if size is None or stamp is None else Opened(size, stamp)


class SingleFileStore(Store):
    """One object of the store around it, and no other: its only key is the file's name.

    The folder may hold what it likes beside the file. What zvcore notes about the dataset (keys that begin with
    `.zvcore-`) lies beside the file too, with the file's name behind, and is not listed. Where formats name what lies
    in their files, `inside` is which of it is meant, "" all of it.
    """

    def __init__(self, folder: Store, name: str, inside: str = "") -> None:
        encode_key(name)
        if "/" in name:
            raise InvalidKeyError("this is no name of a file", key=name)
        self.folder = folder
        self.file: str = name
        self.inside = inside.strip("/")
        # What was looked at when it was found, for the first who wants to know more.
        self._ahead: LookedAt | None = None
        # The version that what is known of the file was read from: no other one is read.
        self.opened: Opened | None = None
        self.root = f"{folder.root.rstrip('/')}/{name}{f':/{self.inside}' if self.inside else ''}"
        for fact in _FACTS:
            setattr(self, fact, getattr(folder, fact))

    def __reduce__(self) -> tuple[Any, ...]:
        return (SingleFileStore, (self.folder, self.file, self.inside))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleFileStore) and self._place() == other._place()

    def _place(self) -> tuple[Store, str, str]:
        return self.folder, self.file, self.inside

    def __hash__(self) -> int:
        return hash(self._place())

    def durable(self, fsync: bool | None, durability: str | None = None) -> SingleFileStore:
        folder = self.folder.durable(fsync, durability)
        return self if folder is self.folder else SingleFileStore(folder, self.file, self.inside)

    def as_it_is(self) -> SingleFileStore:
        """The same file, of which no other version than this one is read, nor by what is `within` it."""
        made = object.__new__(SingleFileStore)
        made.__dict__.update(self.__dict__, opened=facts_of(self.folder, self.file))
        return made

    def is_there(self, around: Sequence[str]) -> bool:
        """Whether the file is. Far away, what tells of it and what lies `around` is fetched with that, for the call of
        `looking_at` that follows at once.
        """
        self._ahead = self._looked_at(around)
        return self.folder.exists(self.file) if self._ahead is None else self._ahead.has_file()

    def _looked_at(self, around: Sequence[str]) -> LookedAt | None:
        if not self.remote:
            return None
        return self.folder.look_at_file(self.file, [name for key in around if (name := self._there(key)) is not None])

    def looking_at(
        self, keys: Sequence[str], otherwise: Sequence[str] = (), around: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        ahead, self._ahead = self._ahead or self._looked_at(around), None
        return nullcontext() if ahead is None else ahead.used()

    def within(self, path: str) -> SingleFileStore:
        """The same file, of which this path within it is meant."""
        made = SingleFileStore(self.folder, self.file, path)
        made.opened = self.opened
        return made

    def _there(self, key: str) -> str | None:
        """What the store around calls an object of this one; None for what this one cannot have."""
        if key == self.file:
            return key
        encode_key(key)
        return f"{key}.{self.file}" if key.startswith(".zvcore-") and "/" not in key else None

    def _target(self, key: str) -> str:
        """`_there`, for writing."""
        self._refuse_if_read_only(key)
        there = self._there(key)
        if there is None:
            raise InvalidKeyError(f"{self.root} is a file, and holds no other objects", key=key, expected=self.file)
        return there

    # --- reading

    def get(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> bytes | memoryview | None:
        there = self._there(key)
        if there is None:
            return None
        return self._of_one_version(key, stamp, lambda version: self.folder.get(there, start, length, stamp=version))

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Stamp | None = None
    ) -> builtins.list[memoryview] | None:
        there = self._there(key)
        if there is None:
            return None
        return self._of_one_version(key, stamp, lambda version: self.folder.get_ranges(there, ranges, stamp=version))

    def snapshot(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> Snapshot | None:
        there = self._there(key)
        if there is None:
            return None
        return self._of_one_version(
            key, stamp, lambda version: self.folder.snapshot(there, start, length, stamp=version)
        )

    def _of_one_version(self, key: str, stamp: Stamp | None, read: Callable[[Stamp | None], T]) -> T:
        """What `read` gives of a version: of that which was opened, where nobody asks for one."""
        if self.opened is None or stamp is not None or key != self.file:
            return read(stamp)
        try:
            return read(self.opened.stamp)
        except ConflictError:
            raise another_by_now(key) from None

    def opened_file(self, key: str) -> OpenFile | None:
        there = self._there(key)
        return None if there is None or self.opened is not None else self.folder.opened_file(there)

    def parts_ahead(self) -> int:
        return self.folder.parts_ahead()

    def small_parts_pay(self) -> bool:
        return self.folder.small_parts_pay()

    def size(self, key: str) -> int | None:
        there = self._there(key)
        return None if there is None else self.folder.size(there)

    def stamp(self, key: str) -> Stamp | None:
        there = self._there(key)
        return None if there is None else self.folder.stamp(there)

    def settled(self, stamp: Stamp) -> bool:
        return self.folder.settled(stamp)

    def unfinished(self, key: str) -> Unfinished | None:
        there = self._there(key)
        return None if there is None else self.folder.unfinished(there)

    def list(self, prefix: str = "") -> Iterator[str]:
        return iter([] if prefix_path(prefix) else self.list_dir()[1])

    def list_dir(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]:
        here = not prefix_path(prefix) and self.folder.exists(self.file)
        return [], [self.file] if here else []

    def explained(self, error: ZvcoreError) -> ZvcoreError:
        return self.folder.explained(error) if error.key == self.file else error

    # --- writing

    def put_back(self, key: str | None = None) -> builtins.list[str]:
        return self.folder.put_back(self.file) if key in (None, self.file) else []

    def put(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        self.folder.put(self._target(key), data)

    def put_if_unchanged(self, key: str, data: Buffer | Sequence[Buffer], stamp: Stamp | None) -> None:
        self.folder.put_if_unchanged(self._target(key), data, stamp)

    def writer(self, key: str, unchanged: Stamp | Anything | None = ANYTHING) -> ObjectWriter:
        return self.folder.writer(self._target(key), unchanged)

    def append(self, key: str, parts: Buffer | Sequence[Buffer], at: int, *, ending: bool = False) -> None:
        self.folder.append(self._target(key), parts, at, ending=ending)

    def patch(self, key: str, offset: int, data: Buffer | Sequence[Buffer], *, crash_safe: bool = False) -> None:
        self.folder.patch(self._target(key), offset, data, crash_safe=crash_safe)

    def delete(self, key: str) -> bool:
        self._refuse_if_read_only(key)
        there = self._there(key)
        return False if there is None else self.folder.delete(there)

    def delete_prefix(self, prefix: str) -> int:
        self._refuse_if_read_only(prefix)
        return 0 if prefix_path(prefix) else int(self.folder.delete(self.file))

    def lock(self, key: str, timeout: float | None = None) -> AbstractContextManager[None]:
        return self.folder.lock(self._target(key), timeout)

    # --- the store itself

    def object_id(self, key: str) -> Hashable:
        there = self._there(key)
        return (self.root, key) if there is None else self.folder.object_id(there)

    def child(self, prefix: str) -> Store:
        if not prefix_path(prefix):
            return self
        raise InvalidKeyError(f"{self.root} is a file: nothing lies in it", key=prefix)

    def close(self) -> None:
        self.folder.close()
