"""`items()` and `values()` of a set of objects by id, which are read several at once."""

from __future__ import annotations

from collections.abc import ItemsView, ValuesView
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ItemsAhead", "ValuesAhead"]

T = TypeVar("T")

# They are in memory together, and one of them may be large.
_AT_ONCE = 16


class _Set(Protocol[T]):
    def __iter__(self) -> Iterator[int]: ...
    def __getitem__(self, id: int) -> T: ...
    def get_many(self, ids: list[int]) -> dict[int, T]: ...


class ItemsAhead(ItemsView[int, T]):
    """(id, object) of each."""

    _mapping: _Set[T]

    def __iter__(self) -> Iterator[tuple[int, T]]:
        return _pairs(self._mapping)


class ValuesAhead(ValuesView[T]):
    """Each object."""

    _mapping: _Set[T]

    def __iter__(self) -> Iterator[T]:
        return (value for _, value in _pairs(self._mapping))


def _pairs(objects: _Set[T]) -> Iterator[tuple[int, T]]:
    ids = list(objects)
    for first in range(0, len(ids), _AT_ONCE):
        some = ids[first : first + _AT_ONCE]
        found = objects.get_many(some)
        for id in some:
            # One that was removed meanwhile is the error that it is for whoever asks for it alone.
            yield id, found[id] if id in found else objects[id]
