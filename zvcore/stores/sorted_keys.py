"""Sorted keys as folders: what lies in one is found by looking for its ends, not at every key there is."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["SortedKeys", "all_below", "directly_below"]


def all_below(keys: Sequence[str], start: str) -> slice:
    """Where the keys are that begin with `start`: "", or what ends in "/"."""
    # "0" follows "/": behind all that is in the folder.
    return slice(bisect_left(keys, start), bisect_left(keys, f"{start[:-1]}0") if start else len(keys))


def directly_below(keys: Sequence[str], start: str) -> tuple[list[str], list[str]]:
    """(folders, objects) in the folder whose keys begin with `start`, each sorted."""
    folders, objects = [], []
    span = all_below(keys, start)
    at = span.start
    while at < span.stop:
        slash = keys[at].find("/", len(start))
        if slash < 0:
            objects.append(keys[at][len(start) :])
            at += 1
        else:
            folders.append(keys[at][len(start) : slash])
            at = bisect_left(keys, f"{keys[at][:slash]}0", at, span.stop)
    # "a!" sorts before "a/", but behind "a".
    return sorted(folders), objects


class SortedKeys:
    """The keys of something that changes, sorted when they are looked at."""

    def __init__(self) -> None:
        self._sorted: list[str] | None = []
        self._new: list[str] = []

    def added(self, key: str) -> None:
        if self._sorted is not None:
            self._new.append(key)

    def removed(self) -> None:
        self._sorted, self._new = None, []

    def of(self, keys: Iterable[str]) -> list[str]:
        """All keys, which are these, sorted."""
        if self._sorted is None:
            self._sorted = sorted(keys)
        elif self._new:
            self._sorted.extend(self._new)
            self._sorted.sort()
            self._new = []
        return self._sorted
