"""A part of any store, for reading: only objects whose names are allowed, and never too much of one at once."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from zvcore.errors import InvalidKeyError, UnsupportedError
from zvcore.stores.files import encode_key
from zvcore.stores.read_only import ReadOnlyStore

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from zvcore.stores.base import Facts, Snapshot, Stamp, Store

__all__ = ["FencedStore"]

T = TypeVar("T")
R = TypeVar("R")

# How many objects are fetched ahead of a caller that takes one after the other.
_OBJECTS_AHEAD = 32


class FencedStore(ReadOnlyStore):
    """What another store holds, as far as `allowed` says of each name on the way to it; what lies above, it has not.

    For data that somebody else made: keys that its documents name lead to nothing else. `ConfinedStore` is this for
    folders, where links are to be followed with care.
    """

    def __init__(self, store: Store, allowed: Callable[[bytes], bool], largest: int | None = None) -> None:
        """`largest`: no read may ask for more bytes at once."""
        self._store = store
        self._allowed = allowed
        self.largest = largest
        self.root = store.root
        self.of_files, self.remote, self.blind = store.of_files, store.remote, store.blind

    def _check(self, key: str) -> None:
        if key and not all(map(self._allowed, encode_key(key).split(b"/"))):
            raise InvalidKeyError("this name may not be read here", key=key)

    def _refuse_if_too_large(self, key: str, wanted: int) -> None:
        if self.largest is not None and wanted > self.largest:
            raise UnsupportedError(
                "too much to be read at once", key=key, expected=f"at most {self.largest} bytes", found=wanted
            )

    def _bounded(self, key: str, start: int, length: int | None) -> int | None:
        """How many bytes to ask for: one more than may be read, where it is not known how many there are."""
        if self.largest is None or (length is not None and length <= self.largest):
            return length
        if start >= 0:
            return self.largest + 1
        if -start > self.largest:
            self._refuse_if_too_large(key, min(-start, self._store.size(key) or 0))
        return length

    # --- reading

    def get(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> bytes | memoryview | None:
        self._check(key)
        data = self._store.get(key, start, self._bounded(key, start, length), stamp=stamp)
        if data is not None:
            self._refuse_if_too_large(key, len(data))
        return data

    def get_ranges(
        self, key: str, ranges: Sequence[tuple[int, int]], *, stamp: Stamp | None = None
    ) -> builtins.list[memoryview] | None:
        self._check(key)
        self._refuse_if_too_large(key, sum(length for _, length in ranges))
        return self._store.get_ranges(key, ranges, stamp=stamp)

    def get_many(self, keys: Iterable[str]) -> Iterator[bytes | memoryview | None]:
        names = [*keys]
        for first in range(0, len(names), _OBJECTS_AHEAD):
            yield from self.each(self.get, names[first : first + _OBJECTS_AHEAD])

    def get_ranges_many(
        self, requests: Sequence[tuple[str, Sequence[tuple[int, int]], Stamp | None]]
    ) -> builtins.list[builtins.list[memoryview] | None]:
        for key, ranges, _ in requests:
            self._check(key)
            self._refuse_if_too_large(key, sum(length for _, length in ranges))
        return self._store.get_ranges_many(requests)

    def snapshot(
        self, key: str, start: int = 0, length: int | None = None, *, stamp: Stamp | None = None
    ) -> Snapshot | None:
        self._check(key)
        found = self._store.snapshot(key, start, self._bounded(key, start, length), stamp=stamp)
        if found is not None:
            self._refuse_if_too_large(key, len(found.data))
        return found

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> builtins.list[R]:
        return self._store.each(function, items)

    def parts_ahead(self) -> int:
        return self._store.parts_ahead()

    def small_parts_pay(self) -> bool:
        return self._store.small_parts_pay()

    def size(self, key: str) -> int | None:
        self._check(key)
        return self._store.size(key)

    def stamp(self, key: str) -> Stamp | None:
        self._check(key)
        return self._store.stamp(key)

    def md5(self, key: str) -> str | None:
        self._check(key)
        return self._store.md5(key)

    def facts(self, keys: Iterable[str]) -> builtins.list[Facts | None]:
        names = list(keys)
        for key in names:
            self._check(key)
        return self._store.facts(names)

    def settled(self, stamp: Stamp) -> bool:
        return self._store.settled(stamp)

    def list(self, prefix: str = "") -> Iterator[str]:
        self._check(prefix)
        return (key for key in self._store.list(prefix) if all(map(self._allowed, encode_key(key).split(b"/"))))

    def list_dir(self, prefix: str = "") -> tuple[builtins.list[str], builtins.list[str]]:
        self._check(prefix)
        folders, objects = self._store.list_dir(prefix)
        return self._those_allowed(folders), self._those_allowed(objects)

    def some_objects(self, prefix: str, most: int) -> builtins.list[str]:
        self._check(prefix)
        return self._those_allowed(self._store.some_objects(prefix, most))

    def _those_allowed(self, names: builtins.list[str]) -> builtins.list[str]:
        return [name for name in names if self._allowed(encode_key(name))]

    def looking_at(
        self, keys: Sequence[str], otherwise: Sequence[str] = (), around: Sequence[str] = ()
    ) -> AbstractContextManager[None]:
        seen, others = self._those_allowed([*keys]), self._those_allowed([*otherwise])
        return self._store.looking_at(seen, others) if seen or others else nullcontext()

    # --- the store itself

    def object_id(self, key: str) -> Hashable:
        return self._store.object_id(key)

    def child(self, prefix: str) -> FencedStore:
        self._check(prefix)
        return FencedStore(self._store.child(prefix), self._allowed, self.largest)

    def close(self) -> None:
        self._store.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return (FencedStore, (self._store, self._allowed, self.largest))
