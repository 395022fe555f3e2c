"""What lies in a folder and is no object: other folders, and what cannot be read, such as links that lead to nothing.

Whoever lists objects does not see these. Whoever says that nothing is missing has to.
"""

from __future__ import annotations

import os
import stat as modes
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from zvcore.errors import StoreError
from zvcore.stores.files import is_key_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zvcore.stores.base import Refused, Store

__all__ = ["LookedInto", "Other", "others_below", "others_in", "refuse_other", "unreadable", "unreadable_objects"]


class Other(StrEnum):
    """What something is that is no object."""

    FOLDER = "a folder"
    LINK = "a link that leads to no file"
    SPECIAL = "neither a file nor a folder"


class LookedInto(NamedTuple):
    """A folder that was looked into: what tells folders apart, and the types of those entries that are no files."""

    identity: tuple[int, int]
    entries: list[tuple[str, int]]


def others_in(folder: str | int) -> LookedInto:
    """What a folder, or one that is open, has besides files. Links are not followed."""
    found = os.stat(folder)
    with os.scandir(folder) as entries:
        # The folder itself says what its entries are: the system is asked for none of them.
        others = [(entry.name, _type(entry)) for entry in entries if not entry.is_file(follow_symlinks=False)]
    return LookedInto((found.st_dev, found.st_ino), [one for one in others if is_key_name(os.fsencode(one[0]))])


def _type(entry: os.DirEntry[str]) -> int:
    if entry.is_dir(follow_symlinks=False):
        return modes.S_IFDIR
    return modes.S_IFLNK if entry.is_symlink() else 0


def others_below(
    prefix: str,
    look_into: Callable[[str], LookedInto | None],
    type_behind: Callable[[str], int],
    refused: Refused | None = None,
) -> Iterator[tuple[str, Other]]:
    """(key, what it is) of all that is no object below a folder. Each folder is looked into once.

    look_into    what is in a folder, by its key; None where there is none by now
    type_behind  what a link leads to in the end; 0: nothing that can be read
    refused      is told of folders that cannot be looked into; without it, the first such one is an error
    """
    seen: set[tuple[int, int]] = set()
    waiting = [prefix]
    while waiting:
        folder = waiting.pop()
        try:
            found = look_into(folder)
        except OSError as error:
            if refused is None:
                raise
            refused(folder, error)
            continue
        if found is None or found.identity in seen:
            continue
        seen.add(found.identity)
        below = []
        for name, type in sorted(found.entries):
            key = f"{folder}/{name}" if folder else name
            behind = type_behind(key) if modes.S_ISLNK(type) else type
            if modes.S_ISDIR(behind):
                below.append(key)
                yield key, Other.FOLDER
            elif not modes.S_ISREG(behind):
                yield key, Other.LINK if modes.S_ISLNK(type) else Other.SPECIAL
        waiting += reversed(below)


def refuse_other(path: bytes, key: str) -> None:
    """StoreError if something has the path of an object that was not found. One that is there by now is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return
    if modes.S_ISDIR(found.st_mode):
        raise unreadable(Other.FOLDER, key)
    if modes.S_ISLNK(found.st_mode):
        if not os.path.isfile(path):
            raise unreadable(Other.LINK, key)
    elif not modes.S_ISREG(found.st_mode):
        raise unreadable(Other.SPECIAL, key)


def unreadable(other: Other, key: str) -> StoreError:
    return StoreError(f"what has the name of this object cannot be read: it is {other}", key=key)


def unreadable_objects(store: Store, prefix: str = "", refused: Refused | None = None) -> Iterator[StoreError]:
    """An error for each name below a folder that an object could have, and something has that cannot be read.

    `refused` is as in `Store.others`.
    """
    for key, other in store.others(prefix, refused) if refused is not None else store.others(prefix):
        if other is not Other.FOLDER:
            yield unreadable(other, key)
