"""Reads of a level that others may replace: all of it comes from one state, the old or the new one.

A writer puts a new folder in the place of a level at once. A read that takes vertices from one and their attributes
from the other would find damage, or the values of other vertices.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from zvcore.engine.steady import steadily
from zvcore.errors import ConflictError, ZvcoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from zvcore.zvf.vector_store import Level

__all__ = ["check_same", "of_one_state", "state_of"]

T = TypeVar("T")


def state_of(level: Level) -> Hashable:
    """What is another where another level has taken this one's place. Only in folders are levels replaced so."""
    folder = level.store.local_root
    if folder is None:
        return None
    try:
        found = os.stat(os.path.join(folder, os.fsencode(level.path)))
    except OSError:
        return None
    return found.st_dev, found.st_ino


def of_one_state(level: Level, read: Callable[[], T]) -> T:
    """What `read` gives of one state of the level."""

    def checked() -> T:
        before = state_of(level)
        try:
            with level.asking_at_once():
                found = read()
        except ZvcoreError:
            check_same(level, before)
            raise
        check_same(level, before)
        return found

    return steadily(checked, level.path)


def check_same(level: Level, before: Hashable) -> None:
    """ConflictError where the level is no longer in the state that `state_of` has told."""
    if state_of(level) != before:
        raise ConflictError("the level was replaced while it was read", key=f"{level.store.root}/{level.path}")
