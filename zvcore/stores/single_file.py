"""A store over one file: for formats whose datasets are single files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.errors import InvalidKeyError
from zvcore.stores.base import Snapshot, Stamp, Store, prefix_path
from zvcore.stores.files import encode_key
from zvcore.stores.writing import ANYTHING, Anything, ObjectWriter

if TYPE_CHECKING:
    import builtins
    from collections.abc import Hashable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer

    from zvcore.errors import ZvcoreError
    from zvcore.stores.partial_writes import Unfinished

__all__ = ["SingleFileStore"]

# What is true of the store around the file is true of this one.
_FACTS = (
    "of_files", "largest", "read_only", "remote", "blind", "can_lock", "supports_patch", "fsync", "durability",
)  # fmt: skip


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

    def within(self, path: str) -> SingleFileStore:
        """The same file, of which this path within it is meant."""
        return SingleFileStore(self.folder, self.file, path)

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
        return None if there is None else self.folder.get(there, start, length, stamp=stamp)

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Stamp | None = None
    ) -> builtins.list[memoryview] | None:
        there = self._there(key)
        return None if there is None else self.folder.get_ranges(there, ranges, stamp=stamp)

    def snapshot(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> Snapshot | None:
        there = self._there(key)
        return None if there is None else self.folder.snapshot(there, start, length, stamp=stamp)

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
