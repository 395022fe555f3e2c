"""Room for a new array or group: what is there already, and chunks without a document, which a removal leaves that
failed half way, since documents go first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zvcore.errors import ConflictError
from zvcore.stores.base import UnlistedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.stores import Store

__all__ = ["make_room"]

_NUMBERS = re.compile(r"(/\d+)+")


def make_room(store: Store, documents: Sequence[str], overwrite: bool, chunks: tuple[str, str] | None) -> bool:
    """Refuse to write over what is at the root of a store, or remove it: whether one of these documents was there.

    `chunks`, for a new array: (what the keys of its chunks begin with, before the numbers: with a separator, unless it
    is the whole key; the separator). What would be chunks of it would be its values.
    """
    listed = None if chunks is None else _listed(store)
    # Where each question is a request, the list of an object store has answered them; others may leave names out.
    known = listed[1] if listed is not None and store.remote and store.creates else None
    if any(store.each(store.exists, documents) if known is None else [name in known for name in documents]):
        if not overwrite:
            raise ConflictError("something is here already; overwrite=True replaces it", key=store.root)
        store.delete_prefix("")
        return True
    folders, objects = ([], []) if chunks is None or listed is None else _left(store, listed, *chunks)
    if overwrite:
        for name in folders:
            store.delete_prefix(name)
        store.delete_all(objects)
    elif folders or objects:
        what = "chunks without a document are here, which would be values of a new array; overwrite=True removes them"
        raise ConflictError(what, key=store.root, found=(*folders, *objects)[0])
    return False


def _listed(store: Store) -> tuple[list[str], list[str]] | None:
    try:
        return store.list_dir()
    except UnlistedError:
        return None


def _left(
    store: Store, listed: tuple[list[str], list[str]], prefix: str, separator: str
) -> tuple[list[str], list[str]]:
    """(folders, objects) among those that are listed. Folders in which anything else lies (a document, and so another
    array or group) are none.
    """
    folders, objects = listed
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
