"""`.zmetadata`: the documents of all that is in a group once more, in one, for stores where looking is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import documents
from zvcore.documents.above import groups_above, is_there, warn_user, warned_of
from zvcore.documents.document import LARGEST_TOLD, fetch, parse
from zvcore.documents.members import Object, Place, is_member_name
from zvcore.errors import DamagedMetadataWarning, MetadataError
from zvcore.zarr2.metadata import ATTRIBUTES, CONSOLIDATED, DOCUMENT, GROUP, document_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zvcore.stores import Store

__all__ = ["consolidate", "forget_below", "read_consolidated", "tell_above", "told_documents", "warn_of_damage"]

Told = dict[str, Any]


def read_consolidated(store: Store) -> Told | None:
    """What the .zmetadata at the root of a store has of each document; None if there is none, or if it is too large."""
    raw = fetch(store, CONSOLIDATED)
    return None if raw is None or len(raw) > LARGEST_TOLD else told_documents(parse(raw, CONSOLIDATED))


def told_documents(document: dict[str, Any]) -> Told:
    place = Place(CONSOLIDATED)
    if document.get("zarr_consolidated_format") != 1:
        raise place.member("zarr_consolidated_format").wrong("1", document.get("zarr_consolidated_format"))
    told = Object().load(document.get("metadata"), place.member("metadata"))
    for key, one in told.items():
        path = key.rpartition("/")[0]
        if "/" in key and not is_member_name(path):
            raise place.member("metadata").member(key).wrong("names of members between slashes", path)
        Object().load(one, place.member("metadata").member(key))
    return told


def warn_of_damage(group: Store, error: MetadataError) -> None:
    """What a group tells is only a copy: who cannot read it looks at the documents themselves, and says so."""
    text = f"{CONSOLIDATED} of {group.root}, or of a group above, is damaged, so members are asked themselves: {error}"
    warn_user(text, DamagedMetadataWarning)


def consolidate(store: Store) -> None:
    """Let the group at the root of the store tell of all that lies in it. Nothing is looked for within arrays."""
    if not store.exists(GROUP):
        return  # an array tells of itself
    told: Told = {}
    waiting = [""]
    while waiting:
        path = waiting.pop()
        own = {name: documents.read(store, document_key(name, path)) for name in (DOCUMENT, GROUP, ATTRIBUTES)}
        told.update({document_key(name, path): one for name, one in own.items() if one is not None})
        if own[DOCUMENT] is None and own[GROUP] is not None:
            waiting += [f"{path}/{name}" if path else name for name in store.list_dir(path)[0]]
    document = {"zarr_consolidated_format": 1, "metadata": dict(sorted(told.items()))}
    store.put(CONSOLIDATED, documents.encode(document))


def tell_above(store: Store, name: str, through: Sequence[Store] = ()) -> None:
    """Let the groups that tell of a document say what it says now.

    It is read for each of them while nobody else can change what that group tells: of two writers at once, the one that
    tells last may have written first. `through` are the stores of the groups that the node was opened through; where
    folders have parents, those are found without.
    """

    def change(told: Told, path: str) -> Told:
        key = document_key(name, path)
        rest = {other: one for other, one in told.items() if other != key}
        content = documents.read(store, name)
        return rest if content is None else {**rest, key: content}

    _change_above(store, through, change)


def forget_below(store: Store, through: Sequence[Store] = ()) -> None:
    """Let the groups above no longer tell of a node that was removed, nor of what was in it."""

    def change(told: Told, path: str) -> Told:
        below = {key: key.removeprefix(f"{path}/") for key in told if key.startswith(f"{path}/")}
        if store.exists(DOCUMENT) or store.exists(GROUP):  # somebody has made it again
            below = {key: own for key, own in below.items() if not is_there(store, own)}
        return {key: one for key, one in told.items() if key not in below}

    _change_above(store, through, change, own=False)


def _change_above(
    store: Store, through: Sequence[Store], change: Callable[[Told, str], Told], own: bool = True
) -> None:
    own_too = [(store, "")] if own else []
    for group, path in (*own_too, *groups_above(store, through, GROUP)):
        with warned_of(group):
            if group.exists(CONSOLIDATED):
                _change(group, path, change)


def _change(group: Store, path: str, change: Callable[[Told, str], Told]) -> None:
    def changed(raw: bytes | None) -> bytes | None:
        if raw is None:
            return None
        try:
            document = parse(raw, CONSOLIDATED)
            told = told_documents(document)
        except MetadataError:
            return None  # it says nothing that could be out of date; `verify` tells of it
        return documents.encode({**document, "metadata": change(told, path)})

    group.change(CONSOLIDATED, changed)
