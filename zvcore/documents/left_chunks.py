"""Chunks without a document: what a removal leaves that failed half way, since documents go first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zvcore.errors import ConflictError
from zvcore.stores.base import UnlistedError

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["refuse_left_chunks", "remove_left_chunks"]

_NUMBERS = re.compile(r"(/\d+)+")


def remove_left_chunks(store: Store, prefix: str, separator: str) -> None:
    """Remove what would be chunks of a new array at the root of a store: they would be its values.

    prefix  what the keys of chunks begin with, before the numbers: with a separator, unless it is the whole key
    """
    folders, objects = _left(store, prefix, separator)
    for name in folders:
        store.delete_prefix(name)
    store.delete_all(objects)


def refuse_left_chunks(store: Store, prefix: str, separator: str) -> None:
    """ConflictError where there are such chunks."""
    folders, objects = _left(store, prefix, separator)
    if folders or objects:
        what = "chunks without a document are here, which would be values of a new array; overwrite=True removes them"
        raise ConflictError(what, key=store.root, found=(*folders, *objects)[0])


def _left(store: Store, prefix: str, separator: str) -> tuple[list[str], list[str]]:
    """(folders, objects). Folders in which anything else lies (a document, and so another array or group) are none."""
    try:
        folders, objects = store.list_dir()
    except UnlistedError:
        return [], []
    first = re.escape(prefix.rstrip("/.")) or r"\d+"
    named = [name for name in folders if separator == "/" and re.fullmatch(first, name)]
    left = [name for name in named if _holds_chunks_alone(store, name)]
    least = 1 if prefix.endswith(("/", ".")) else 0
    return left, [name for name in objects if re.fullmatch(rf"{first}(\.\d+){{{least},}}", name)]


def _holds_chunks_alone(store: Store, folder: str) -> bool:
    some = False
    for key in store.list(folder):
        if not _NUMBERS.fullmatch(key, len(folder)):
            return False
        some = True
    return some
