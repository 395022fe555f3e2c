"""Selecting some of the objects of a store by their keys, or by the keys of the folders that hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.stores.base import not_passing_over

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.stores.base import Refused, Store

__all__ = ["keys_of", "within"]


def within(only: Sequence[str], name: str) -> list[str]:
    """Those of the keys that lie in a folder, as they are called there; "" is the folder itself."""
    if not name:
        return list(only)
    return [key.removeprefix(name).removeprefix("/") for key in only if key == name or key.startswith(f"{name}/")]


def keys_of(store: Store, only: Sequence[str] | None, refused: Refused = not_passing_over) -> Iterator[str]:
    """The objects that are meant: all, or these and those in these folders. `refused` as in `Store.list_readable`."""
    if only is None:
        yield from store.list_readable(refused)
        return
    for key in only:
        if store.exists(key):
            yield key
        else:
            yield from store.list_readable(refused, key)
