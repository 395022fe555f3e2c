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

__all__ = ["forget_finished", "is_recorded", "record_finished", "was_finished"]


def record_finished(store: Store, made: Made, task: Mapping[str, Any]) -> None:
    """Note that what was asked for is done; called when all of it is stored."""
    if made.arrays and store.file is None:  # nothing is left beside a single file
        store.put(
            _key(path_in(store, made.arrays[0][1])), documents.encode({"version": VERSION, "mark": fingerprint(task)})
        )


def forget_finished(store: Store, made: Made) -> None:
    """Take back that what was asked for is done: what is there is no longer what was stored."""
    if made.arrays:
        store.delete(_key(path_in(store, made.arrays[0][1])))


def was_finished(store: Store, task: Mapping[str, Any], scratch: Store, made: Made) -> bool:
    """Whether the same conversion has been finished here, and all documents that it made are still there.

    `scratch` is where it was `made` in memory.
    """
    if not made.arrays or store.file is not None or not is_recorded(store, path_in(scratch, made.arrays[0][1]), task):
        return False
    return all(store.each(store.exists, [*scratch.list()]))


def is_recorded(store: Store, path: str, task: Mapping[str, Any]) -> bool:
    """Whether a conversion of which the array at this path was the first is finished."""
    try:
        record = documents.read(store, _key(path))
    except ZvcoreError:
        return False
    return record is not None and (record.get("version"), record.get("mark")) == (VERSION, fingerprint(task))


def _key(path: str) -> str:
    return f"{path}/{FINISHED}" if path else FINISHED
