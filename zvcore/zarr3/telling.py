"""Groups with consolidated metadata tell of what lies in them: what they tell follows what zvcore writes there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore.documents import LARGEST_TOLD, Document, fetch
from zvcore.documents.above import groups_above, is_there, warned_of
from zvcore.documents.document import encode, parse
from zvcore.errors import MetadataError
from zvcore.zarr3.metadata import CONSOLIDATED, DOCUMENT, read_document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zvcore.stores import Store
    from zvcore.stores.base import Stamp

__all__ = ["DescribedAbove", "Told", "as_told", "change_above", "change_told", "forget_below", "tell_above"]

# What is told of each node, by its path.
Told = dict[str, Any]


class DescribedAbove(Document):
    """The zarr.json of a node. `through` are the stores of the groups that it was opened through."""

    def __init__(
        self,
        store: Store,
        content: dict[str, Any],
        *,
        read_only: bool = False,
        through: Sequence[Store] = (),
        stamp: Stamp | None = None,
    ) -> None:
        super().__init__(store, DOCUMENT, content, read_only=read_only, stamp=stamp)
        self.through = tuple(through)

    def change(self, make: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        content = super().change(make)
        tell_above(self.store, self.through)
        return content


def as_told(document: dict[str, Any]) -> dict[str, Any]:
    """How a group that tells of all below it writes the document of a node: as zarr-python does."""
    if document.get("node_type") != "group":
        return document
    return {**document, CONSOLIDATED: {"kind": "inline", "must_understand": False, "metadata": {}}}


def tell_above(store: Store, through: Sequence[Store] = ()) -> None:
    """Let the groups above that tell of a node say what its document says now.

    It is read for each of them while nobody else can change what that group tells: of two writers at once, the one that
    tells last may have written first.
    """

    def change(told: Told, path: str) -> Told:
        own = read_document(store)
        rest = {name: one for name, one in told.items() if name != path}
        return rest if own is None else dict(sorted({**rest, path: as_told(own)}.items()))

    change_above(store, through, change)


def forget_below(store: Store, through: Sequence[Store] = ()) -> None:
    """Let the groups above no longer tell of a node that was removed, nor of what was in it."""

    def change(told: Told, path: str) -> Told:
        below = {name: name[len(path) + 1 :] for name in told if name == path or name.startswith(f"{path}/")}
        if store.exists(DOCUMENT):  # somebody has made it again
            below = {name: own for name, own in below.items() if not is_there(store, f"{own}/{DOCUMENT}".lstrip("/"))}
        return {name: one for name, one in told.items() if name not in below}

    change_above(store, through, change)


def change_above(store: Store, through: Sequence[Store], change: Callable[[Told, str], Told]) -> None:
    """Change what the groups above that tell of a node tell: `change(what they tell, the node's path in them)`."""
    for group, path in groups_above(store, through, DOCUMENT):
        with warned_of(group):
            if path:
                change_told(group, path, change)


def _tells(raw: bytes | None) -> bool:
    """Whether the document of a group may tell of members. What is too large to be looked at is not kept up either."""
    return raw is not None and f'"{CONSOLIDATED}"'.encode() in raw and len(raw) <= LARGEST_TOLD


def change_told(group: Store, path: str, change: Callable[[Told, str], Told]) -> None:
    """Change what a group tells of its members: `change(what it tells, path)`. Where it does not, that takes a look."""

    def changed(raw: bytes | None) -> bytes | None:
        if raw is None or not _tells(raw):
            return None
        try:
            document = parse(raw, DOCUMENT)
        except MetadataError:
            return None  # it says nothing that could be out of date; `verify` tells of it
        consolidated = document.get(CONSOLIDATED)
        if not isinstance(consolidated, dict) or not isinstance(consolidated.get("metadata"), dict):
            return None
        told = consolidated["metadata"]
        now = change(told, path)
        return None if now == told else encode({**document, CONSOLIDATED: {**consolidated, "metadata": now}})

    if _tells(fetch(group, DOCUMENT)):
        group.change(DOCUMENT, changed)
