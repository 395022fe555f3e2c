"""Byte ranges of one object: what they cover, what lies between them, which of them share bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Overlap", "Span", "byte_map", "covered", "overlaps"]

Uints = npt.NDArray[np.uint64]
# First byte, end, and what is there.
Span = tuple[int, int, str]


def covered(begins: Uints, ends: Uints) -> int:
    """How many bytes lie in at least one of the ranges."""
    if not len(begins):
        return 0
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], ends[order]
    reach = np.maximum.accumulate(ends)
    before = np.concatenate([begins[:1], reach[:-1]])
    fresh = ends > before
    return int((ends[fresh] - np.maximum(begins, before)[fresh]).sum())


class Overlap(NamedTuple):
    """A range that begins before those in front of it end.

    row    which one it is
    other  the one in front that reaches furthest
    reach  how far that is
    same   whether both are the very same bytes
    """

    row: int
    other: int
    reach: int
    same: bool


def overlaps(begins: Uints, ends: Uints) -> Iterator[Overlap]:
    """Each range that shares bytes with what lies before it. None may be empty."""
    if not len(begins):
        return
    order = np.lexsort((ends, begins))
    begins, ends = begins[order], ends[order]
    reach = np.maximum.accumulate(ends)
    grows = np.concatenate([[True], ends[1:] > reach[:-1]])
    furthest = np.maximum.accumulate(np.where(grows, np.arange(len(order)), 0))
    for place in (np.flatnonzero(begins[1:] < reach[:-1]) + 1).tolist():
        other = int(furthest[place - 1])
        same = begins[place] == begins[other] and ends[place] == ends[other]
        yield Overlap(int(order[place]), int(order[other]), int(reach[place - 1]), bool(same))


def byte_map(spans: Iterable[Span], size: int) -> list[Span]:
    """The map of an object from beginning to end: neighbours of one kind are joined, and gaps are dead bytes."""
    found: list[Span] = []
    reach = 0

    def add(begin: int, end: int, kind: str) -> None:
        if end <= begin:
            return
        if found and found[-1][2] == kind:
            found[-1] = (found[-1][0], end, kind)
        else:
            found.append((begin, end, kind))

    for begin, end, kind in [*sorted(spans), (size, size, "")]:
        add(reach, begin, "dead")
        add(max(begin, reach), end, kind)
        reach = max(end, reach)
    return found
