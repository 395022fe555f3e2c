"""The members of a group: the folders in it that have a document."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, TypeVar

from zvcore.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from zvcore.stores import Store

__all__ = ["are_members", "is_member", "members_in", "opened_in"]

T = TypeVar("T")

# Of how many folders their documents are asked for at once, where it means to wait for a network: few at first, with
# which many are content.
_FIRST, _MOST = 4, 64
# The same where only their names are wanted.
_FIRST_NAMES, _MOST_NAMES = 64, 1024


def members_in(store: Store, *marks: str) -> Iterator[str]:
    """The folders in which lies a document of one of these names, in their order."""
    for some in _growing(store.list_dir()[0], _FIRST_NAMES, _MOST_NAMES):
        yield from itertools.compress(some, are_members(store, some, *marks))


def opened_in(store: Store, open: Callable[[str], T], *marks: str) -> Iterator[tuple[str, T]]:
    """(name, what `open` makes of it) for the folders of which it says no NotFoundError, in their order. The documents
    of these names are asked for in several at once.
    """
    for some in _growing(store.list_dir()[0], _FIRST, _MOST):
        opened: list[tuple[str, T]] = []
        wrong: Exception | None = None
        with store.looking_at([f"{name}/{mark}" for name in some for mark in marks]):
            for name in some:
                try:
                    opened.append((name, open(name)))
                except NotFoundError:
                    continue
                except Exception as error:  # whoever stops before that member never sees it
                    wrong = error
                    break
        # Not within: what the caller asks for meanwhile is another matter.
        yield from opened
        if wrong is not None:
            raise wrong


def _growing(names: Sequence[str], first: int, most: int) -> Iterator[Sequence[str]]:
    """Parts of these names, each longer than the one before it."""
    start, count = 0, first
    while start < len(names):
        yield names[start : start + count]
        start, count = start + count, min(4 * count, most)


def are_members(store: Store, names: Sequence[str], *marks: str) -> list[bool]:
    """Of each of these folders whether it has such a document."""
    found = [False] * len(names)
    for mark in marks:
        left = [place for place, there in enumerate(found) if not there]
        stamps = store.stamps([f"{names[place]}/{mark}" for place in left])
        for place, stamp in zip(left, stamps, strict=True):
            found[place] = stamp is not None
    return found


def is_member(store: Store, name: str, *marks: str) -> bool:
    return any(store.exists(f"{name}/{mark}") for mark in marks)
