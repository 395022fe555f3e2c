"""Removing what lies at a destination, before something else is made there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.converting.note import KEY
from zvcore.errors import ConflictError
from zvcore.format import formats

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["clear", "occupied"]


def clear(store: Store) -> None:
    """Remove all but the note that says that this is under way."""
    folders, objects = store.list_dir()
    store.each(store.delete_prefix, folders)
    store.delete_all([key for key in objects if key != KEY])
    # Of any format: those above may tell of it whatever it was, and whatever comes here.
    for format in formats().values():
        format.removed(store)


def occupied(store: Store, path: str = "") -> ConflictError:
    """The error where something is in the way."""
    root = store.root.rstrip("/")
    return ConflictError(
        f"something is here already; overwrite=True replaces it{f' and all else in {root}' if path else ''}",
        key=f"{root}/{path}".rstrip("/"),
    )
