"""The members of a group: the folders in it that have a document."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.stores import Store

__all__ = ["are_members", "is_member", "members_in"]

# Of how many folders that is asked at once, where it means to wait for a network.
_AT_ONCE = 64


def members_in(store: Store, *marks: str) -> Iterator[str]:
    """The folders in which lies a document of one of these names, in their order."""
    folders = store.list_dir()[0]
    for first in range(0, len(folders), _AT_ONCE):
        some = folders[first : first + _AT_ONCE]
        yield from itertools.compress(some, are_members(store, some, *marks))


def are_members(store: Store, names: Sequence[str], *marks: str) -> list[bool]:
    """Of each of these folders whether it has such a document."""
    return store.each(lambda name: is_member(store, name, *marks), names)


def is_member(store: Store, name: str, *marks: str) -> bool:
    return any(store.exists(f"{name}/{mark}") for mark in marks)
