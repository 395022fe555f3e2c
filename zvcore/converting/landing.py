"""Documents that were made in memory, put where they belong all at once."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from zvcore.errors import ConflictError, ZvcoreError
from zvcore.stores.remote import RemoteStore

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from zvcore.stores import Store
    from zvcore.stores.base import Stamp

__all__ = ["is_vacant", "land", "lands"]


def lands(store: Store) -> bool:
    """Whether this is for a store: where each question is a request, and who comes second is told."""
    return isinstance(store, RemoteStore) and store.creates


def is_vacant(store: Store) -> bool:
    """Whether nothing lies in such a store."""
    try:
        return isinstance(store, RemoteStore) and store.is_empty()
    except ZvcoreError:
        return False  # who may not list may write


def land(store: Store, scratch: Store) -> AbstractContextManager[None]:
    """Put all that was made in a store in memory where nothing is. `ConflictError` if something is there after all.

    Within what is given, whoever opens what was put need not ask for it.
    """
    assert isinstance(store, RemoteStore)
    given = [(key, memoryview(data)) for key in scratch.list() if (data := scratch.get(key)) is not None]
    stored = store.put_stamped([(key, data, None) for key, data in given])
    if not all(stored):
        key = given[stored.index(False)][0]
        raise ConflictError("somebody else has made something here meanwhile", key=f"{store.root}/{key}")
    known: dict[str, tuple[memoryview, Stamp]] = {
        key: (data, stamp) for (key, data), stamp in zip(given, stored, strict=True) if stamp is not True
    }
    # Whose version the service did not tell has to be asked for.
    return store.knowing(known) if len(known) == len(given) else nullcontext()
