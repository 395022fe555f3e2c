"""Chunks without a document: what a removal leaves that failed half way, since documents go first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zvcore.stores.base import UnlistedError

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["remove_left_chunks"]


def remove_left_chunks(store: Store, prefix: str, separator: str, document: str) -> None:
    """Remove what would be chunks of a new array at the root of a store: they would be its values.

    prefix     what the keys of chunks begin with, before the numbers
    document   what a member of a group has in its folder, which is none of chunks
    """
    try:
        folders, objects = store.list_dir()
    except UnlistedError:
        return
    first = re.escape(prefix.rstrip("/.")) or r"\d+"
    if separator == "/":
        for name in folders:
            if re.fullmatch(first, name) and not store.exists(f"{name}/{document}"):
                store.delete_prefix(name)
    store.delete_all(name for name in objects if re.fullmatch(rf"{first}(\.\d+)*", name))
