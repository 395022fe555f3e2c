"""A store over some objects of a folder: those that a pattern names."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING, Any

from zvcore.errors import InvalidKeyError
from zvcore.stores.base import Stamp, Store, prefix_path
from zvcore.stores.read_only import ReadOnlyStore

if TYPE_CHECKING:
    import builtins
    from collections.abc import Hashable, Iterator, Sequence

__all__ = ["MatchingStore"]

_FACTS = ("of_files", "largest", "remote", "blind")


class MatchingStore(ReadOnlyStore):
    """The objects directly in the `folder` whose names match the `pattern`, to be read."""

    def __init__(self, folder: Store, pattern: str) -> None:
        self.folder = folder
        self.pattern: str = pattern
        self.root = f"{folder.root.rstrip('/')}/{pattern}"
        self._matches = re.compile(translate(pattern)).match
        for fact in _FACTS:
            setattr(self, fact, getattr(folder, fact))

    def __reduce__(self) -> tuple[Any, ...]:
        return (MatchingStore, (self.folder, self.pattern))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MatchingStore) and (self.folder, self.pattern) == (other.folder, other.pattern)

    def __hash__(self) -> int:
        return hash((self.folder, self.pattern))

    def _has(self, key: str) -> bool:
        return "/" not in key and self._matches(key) is not None

    # --- reading

    def get(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> bytes | memoryview | None:
        return self.folder.get(key, start, length, stamp=stamp) if self._has(key) else None

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Stamp | None = None
    ) -> builtins.list[memoryview] | None:
        return self.folder.get_ranges(key, ranges, stamp=stamp) if self._has(key) else None

    def size(self, key: str) -> int | None:
        return self.folder.size(key) if self._has(key) else None

    def stamp(self, key: str) -> Stamp | None:
        return self.folder.stamp(key) if self._has(key) else None

    def list(self, prefix: str = "") -> Iterator[str]:
        return iter([] if prefix_path(prefix) else self.list_dir()[1])

    def list_dir(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]:
        if prefix_path(prefix):
            return [], []
        return [], [name for name in self.folder.list_dir()[1] if self._has(name)]

    # --- the store itself

    def object_id(self, key: str) -> Hashable:
        return self.folder.object_id(key)

    def child(self, prefix: str) -> Store:
        if not prefix_path(prefix):
            return self
        raise InvalidKeyError(f"{self.root} is a pattern: nothing lies in it", key=prefix)

    def close(self) -> None:
        self.folder.close()
