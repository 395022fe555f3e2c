"""The record that a finished conversion leaves, so that the same one, asked for again, is known to be done.

It lies in the folder of the first array that was made, not at the destination's root: some programs take every object
in a group for a member, and warn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zvcore import documents
from zvcore.converting.journal import fingerprint
from zvcore.converting.making import path_in
from zvcore.converting.note import FINISHED, VERSION
from zvcore.errors import ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zvcore.converting.making import Made
    from zvcore.stores import Store

__all__ = ["record_finished", "was_finished"]


def record_finished(store: Store, made: Made, task: Mapping[str, Any]) -> None:
    """Note that what was asked for is done; called when all of it is stored."""
    key = _key(store, made)
    if key is not None:
        store.put(key, documents.encode({"version": VERSION, "mark": fingerprint(task)}))


def was_finished(store: Store, task: Mapping[str, Any], scratch: Store, made: Made) -> bool:
    """Whether the same conversion has been finished here, and all documents that it made are still there.

    `scratch` is where it was `made` in memory.
    """
    key = _key(scratch, made)
    if key is None:
        return False
    try:
        record = documents.read(store, key)
    except ZvcoreError:
        return False
    if record is None or (record.get("version"), record.get("mark")) != (VERSION, fingerprint(task)):
        return False
    return all(store.each(store.exists, [*scratch.list()]))


def _key(store: Store, made: Made) -> str | None:
    if not made.arrays or store.file is not None:
        return None  # nothing is left beside a single file
    path = path_in(store, made.arrays[0][1])
    return f"{path}/{FINISHED}" if path else FINISHED
