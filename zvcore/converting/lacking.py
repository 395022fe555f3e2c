"""What a source lacks itself, because a conversion into it has not ended: what is made of it never gets that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.converting.note import unfinished_around, unfinished_member
from zvcore.stores import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["lacking"]


def lacking(source: Any, members: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """(path, what is missing) of a source, and of its members that are destinations of their own."""
    store = getattr(source, "store", None)
    if not isinstance(store, Store):
        return
    below = [path for path in members if path]
    around = unfinished_around(store)
    found = zip(below, store.each(lambda path: unfinished_member(store, path), below), strict=True)
    for path, unfinished in [("", around), *found]:
        if unfinished is not None:
            yield path, f"what is missing in the source, which is the destination of {unfinished}"
