"""Adding to a group that is there: what is new must not touch what others have stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from zvcore.array import Array
from zvcore.converting.clearing import occupied
from zvcore.converting.drafts import DraftArray, DraftFolder
from zvcore.converting.making import path_in
from zvcore.errors import ConflictError, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.converting.drafts import Draft
    from zvcore.converting.making import Made
    from zvcore.format import Format
    from zvcore.stores import Store

__all__ = ["add_attributes", "array_paths", "can_take_members", "refuse_touching"]


def can_take_members(store: Store, format: Format, found: Format | None) -> bool:
    """Whether a group of this format lies at the root of a store; `found` is the format that lies there."""
    if found is not format or format.exchange().holds != "group":
        return False
    try:
        return getattr(format.open(store, "r"), "kind", None) == "group"
    except (NotFoundError, UnsupportedError):
        return False


def array_paths(scratch: Store, made: Made) -> list[str]:
    """Where the arrays of a destination lie that was made in memory."""
    return [path_in(scratch, array) for _, array in made.arrays]


def refuse_touching(store: Store, scratch: Store, made: Made, format: Format, given_up: Sequence[str]) -> None:
    """Refuse to write over anything in a group. Groups that are there get further members and attributes.

    `given_up` are arrays that will be removed first.
    """
    arrays = array_paths(scratch, made)
    for path in arrays:
        if path in given_up:
            continue
        folders, objects = store.list_dir(path)
        if folders or objects or not path:
            raise occupied(store, path)
    inside = {*arrays}
    for key in scratch.list():
        folder = key.rpartition("/")[0]
        if folder in inside or not store.exists(key):
            continue
        there = format.open(store.child(folder) if folder else store, "r")
        if isinstance(there, Array):
            raise occupied(store, folder)
        ours: Any = format.open(scratch.child(folder) if folder else scratch, "r")
        for name, value in ours.attrs.items():
            if name in there.attrs and not _same(there.attrs[name], value):
                raise ConflictError(
                    f"the group that is here already has another attribute {name!r}; convert into a group of its own",
                    key=f"{store.root}/{folder}".rstrip("/"),
                )


def add_attributes(store: Store, draft: Draft) -> None:
    """Give groups that were there before the attributes that they lack."""
    for entry in draft.entries:
        if isinstance(entry, DraftArray):
            continue
        attrs = entry.attrs if isinstance(entry, DraftFolder) else entry.image.attrs if entry.folder else {}
        group: Any = draft.format.open(store.child(entry.path) if entry.path else store, "r+") if attrs else None
        new = {name: value for name, value in attrs.items() if name not in group.attrs}
        if new:
            group.attrs.update(new)


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or json.dumps(one, default=str) == json.dumps(other, default=str)
