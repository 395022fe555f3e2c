"""What lies around an array, where a description of images may tell of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.stores import Store

__all__ = ["surroundings"]

# How many folders above an array that was opened by itself are looked into.
_NEAR = 3


def surroundings(store: Store, member: tuple[Store, str] | None) -> Iterator[tuple[Store, str]]:
    """(the store at a folder above, what the array in `store` is called in it), the nearest first, where it is known.

    `member` is the store of the group by which it was opened, and its name there.
    """
    if member is not None:
        root, name = member
        parts = name.split("/")
        for depth in range(len(parts) - 1, -1, -1):
            yield root.child("/".join(parts[:depth])) if depth else root, "/".join(parts[depth:])
    elif store.local_root is not None:
        parts = store.root.rstrip("/").split("/")
        for depth in range(len(parts) - 1, max(1, len(parts) - 1 - _NEAR), -1):
            yield open_store("/".join(parts[:depth])), "/".join(parts[depth:])
