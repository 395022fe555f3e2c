"""Objects copied from one folder of this machine to another, many at a time, as the system copies files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zvcore.stores.confined import ConfinedStore
from zvcore.stores.durability import durability_code
from zvcore.stores.file_copies import copy_files
from zvcore.stores.files import encode_key
from zvcore.stores.local import LocalStore
from zvcore.stores.open_files import pool
from zvcore.stores.request_threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.stores.base import Store

__all__ = ["BetweenFolders", "between_folders"]

# So many files are one piece of work for a thread.
_FILES = 16
# Larger ones are left to those who copy them in steps.
_LARGEST = 8 << 20


def between_folders(source: Store, target: Store, *, creates: bool, compares: bool) -> BetweenFolders | None:
    """None where the system does not copy by itself, since one of both is no folder, or links cannot be told."""
    if not isinstance(source, ConfinedStore) or not isinstance(target, LocalStore):
        return None
    beneath = source.beneath()
    return None if beneath is None else BetweenFolders(*beneath, target, creates, compares)


class BetweenFolders:
    """`descriptor` is an open folder, and `way` leads from there to where the keys begin, "" or with a slash behind.

    creates    copy what is not there yet
    compares   else objects of the same size are taken for the same
    """

    def __init__(self, descriptor: int, way: bytes, target: LocalStore, creates: bool, compares: bool) -> None:
        self._descriptor, self._way = descriptor, way
        self._creates, self._compares = creates, compares
        self._target = target.local_root.rstrip(b"/") + b"/"
        self._durability = durability_code(target.durability)

    def done(self, keys: Sequence[str], at_once: int) -> list[tuple[str, int] | None]:
        """What was done about each, "copied" or "the same", and how many bytes it has; None where something else is
        to be done, or said.
        """
        pieces = [keys[begin : begin + _FILES] for begin in range(0, len(keys), _FILES)]
        return [one for some in side_by_side(self._some, pieces, at_once) for one in some]

    def _some(self, keys: Sequence[str]) -> list[tuple[str, int] | None]:
        names = [encode_key(key) for key in keys]
        ways = [os.path.split(self._way + name) for name in names]
        paths = [self._target + name for name in names]
        found = copy_files(
            self._descriptor, [above or b"." for above, _ in ways], [name for _, name in ways], paths,
            root=len(self._target) - 1, durability=self._durability, largest=_LARGEST, creates=self._creates,
            compares=self._compares,
        )  # fmt: skip
        for path, one in zip(paths, found, strict=True):
            if one is not None:
                pool.drop(path)
        return found
