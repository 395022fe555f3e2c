"""Unfinished conversions where data are looked after: at a place, around it, and within."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zvcore.care.refusals import passing_over
from zvcore.converting.note import KEY, UnfinishedConversion, unfinished_around, unfinished_member
from zvcore.errors import UnsupportedError
from zvcore.stores.base import not_passing_over
from zvcore.stores.key_selection import keys_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from zvcore.opening import Path
    from zvcore.stores import Store
    from zvcore.stores.base import Refused

__all__ = ["place_of", "refuse_unfinished", "unfinished_conversions", "unfinished_within"]


def place_of(path: Path, store: Store) -> Path:
    """Where to look for the note of an unfinished conversion: that of a single file is beside it."""
    return path if store.file is None else store


def unfinished_within(
    store: Store, only: str | None, refused: Refused = not_passing_over
) -> Iterator[UnfinishedConversion]:
    """The unfinished conversions whose destination is below the root of a store.

    Folders that cannot be looked into are passed over where `refused` is told of them.
    """
    meant = None if only is None else [only]
    try:
        for key in keys_of(store, meant, refused):
            if key.endswith(f"/{KEY}") and (found := unfinished_member(store, key[: -len(KEY) - 1])) is not None:
                yield found
    except UnsupportedError:
        return  # the store cannot be listed


def unfinished_conversions(path: Path, store: Store, only: str | None) -> dict[str, UnfinishedConversion]:
    """The unfinished conversions that a place is the destination of, lies in, or holds, by their destinations.

    `store` and `only` as `zvcore.care.verbs.find` finds them: the place may be a file in a data set.
    """
    found = [unfinished_around(place_of(path, store)), *unfinished_within(store, only)]
    return {one.place: one for one in found if one is not None}


def refuse_unfinished(
    path: Path, store: Store, only: str | None, storage_options: Mapping[str, Any] | None, done: str
) -> None:
    """An error if a conversion into a place, or into a part of it, has not ended: before, nothing can be `done`."""
    within = unfinished_within(store, only, passing_over)
    unfinished = unfinished_around(place_of(path, store), storage_options) or next(within, None)
    if unfinished is not None:
        raise UnsupportedError(
            f"{unfinished}: nothing can be {done} before the same conversion has been run again, which resumes it",
            key=unfinished.note,
        )
