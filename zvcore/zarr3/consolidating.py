"""Consolidated metadata: a group that tells of all that lies in it, so that readers ask for one object only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import documents
from zvcore.documents.above import warned_of
from zvcore.errors import NotFoundError, UnsupportedError
from zvcore.zarr3.metadata import DOCUMENT, read_document
from zvcore.zarr3.telling import Told, as_told, change_above, change_told

if TYPE_CHECKING:
    from zvcore.stores import Store

__all__ = ["consolidate", "tell_all"]


def consolidate(store: Store) -> None:
    """Let the group at the root of the store tell of its members, and of theirs, as zarr-python does."""
    own = read_document(store, "")
    if own is None:
        raise NotFoundError("there is no group here", key=store.root)
    if own.get("node_type") != "group":
        raise UnsupportedError("only groups have consolidated metadata; this is an array", key=store.root)

    def changed(document: dict[str, Any] | None) -> dict[str, Any]:
        # Members are read while nobody else changes what is told: who writes one meanwhile tells of it afterwards.
        told = {"kind": "inline", "must_understand": False, "metadata": dict(sorted(_members(store).items()))}
        return {**(document or own), "consolidated_metadata": told}

    documents.change(store, DOCUMENT, changed)


def tell_all(store: Store) -> None:
    """Let the group at the root of the store, if it tells of its members, and the groups above that do, say what all
    documents in it say now: where whole folders have come, changed or gone.

    What has been written there is whole by then: a group that cannot tell of it is warned of, and no error.
    """
    with warned_of(store):
        change_told(store, "", lambda told, path: dict(sorted(_members(store).items())))

    def change(told: Told, path: str) -> Told:
        own = read_document(store)
        rest = {name: one for name, one in told.items() if name != path and not name.startswith(f"{path}/")}
        if own is None:
            return rest
        below = {f"{path}/{name}": one for name, one in _members(store).items()}
        return dict(sorted({**rest, path: as_told(own), **below}.items()))

    change_above(store, (), change)


def _members(store: Store) -> dict[str, dict[str, Any]]:
    """The documents of all that lies in a group, by path. Nothing is looked for within arrays."""
    found: dict[str, dict[str, Any]] = {}
    waiting = [""]
    while waiting:
        path = waiting.pop()
        for name in store.list_dir(path)[0]:
            member = f"{path}/{name}" if path else name
            document = read_document(store, member)
            if document is None:
                continue
            if document.get("node_type") == "group":
                waiting.append(member)
            found[member] = as_told(document)
    return found
