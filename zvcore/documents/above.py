"""The groups that a node lies in, which may tell of it in documents of their own."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import zvcore
from zvcore.cached import cached_property
from zvcore.errors import InvalidKeyError, OutdatedMetadataWarning, ZvcoreError
from zvcore.stores import LocalStore, files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.stores import Store

__all__ = ["groups_above", "groups_to", "is_there", "warn_user", "warned_of"]

# How far up groups are looked for.
_DEPTH = 32
# Where code lies that no user has written: a warning points at the line of theirs that led to it.
_BETWEEN = (contextmanager, cached_property.__get__, Mapping.get)
_NOT_USERS = (
    os.path.join(os.path.dirname(zvcore.__file__), ""),
    *(function.__code__.co_filename for function in _BETWEEN),
)


def groups_to(store: Store, path: str) -> tuple[Store, ...]:
    """The stores of the groups that a path goes through from this one on, which is the first of them."""
    names = path.strip("/").split("/")
    return (store, *(store.child("/".join(names[:depth])) for depth in range(1, len(names))))


@contextmanager
def warned_of(group: Store) -> Iterator[None]:
    """Warn where this group cannot tell of a change. The change itself is made: whoever made it has more to do."""
    try:
        yield
    except (OSError, ZvcoreError) as error:
        text = f"{group.root} tells of what lies in it, and is out of date, since it could not be changed: {error}"
        warn_user(text, OutdatedMetadataWarning)


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that led here."""
    warnings.warn(text, category, stacklevel=_users_level())


def _users_level() -> int:
    """The `stacklevel`, for who asks, of the innermost code that a user has written."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_USERS):
        frame, level = frame.f_back, level + 1
    return level


def is_there(store: Store, key: str) -> bool:
    """Whether there is an object of this name, which a document has told."""
    try:
        return store.exists(key)
    except InvalidKeyError:
        return False


def groups_above(store: Store, through: Sequence[Store], mark: str) -> Iterator[tuple[Store, str]]:
    """(the store of a group, the path in it that leads to the node), from the node's parent upwards.

    `through` are the stores of the groups that the node was opened through. Where folders have parents, groups are
    found without: by `mark`, the document that each has.
    """
    if not isinstance(store, LocalStore):
        yield from ((group, store.root.removeprefix(group.root.rstrip("/") + "/")) for group in reversed(through))
        return
    above, name = store.root.rstrip("/").rpartition("/")[::2]
    path = name
    for _ in range(_DEPTH):
        if not above or not name:
            return
        # No store is made for what is none: most arrays lie in no group.
        if files.stamp(os.fsencode(above) + b"/", mark) is None:
            return
        yield LocalStore(above, read_only=store.read_only, durability=store.durability), path
        above, name = above.rpartition("/")[::2]
        path = f"{name}/{path}"
