"""Chunks without a document: what a removal leaves that failed half way, since documents go first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zvcore.stores.base import UnlistedError

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["remove_left_chunks"]

_NUMBERS = re.compile(r"(/\d+)+")


def remove_left_chunks(store: Store, prefix: str, separator: str) -> None:
    """Remove what would be chunks of a new array at the root of a store: they would be its values.

    Folders in which anything else lies (a document, and so another array or group) stay as they are.

    prefix  what the keys of chunks begin with, before the numbers
    """
    try:
        folders, objects = store.list_dir()
    except UnlistedError:
        return
    first = re.escape(prefix.rstrip("/.")) or r"\d+"
    if separator == "/":
        for name in folders:
            if re.fullmatch(first, name) and all(_NUMBERS.fullmatch(key, len(name)) for key in store.list(name)):
                store.delete_prefix(name)
    store.delete_all(name for name in objects if re.fullmatch(rf"{first}(\.\d+)*", name))
