"""Fetching many small ranges of an object with few requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zvcore.stores.base import outside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Span", "coalesce"]


class Span(NamedTuple):
    """A piece of an object to fetch at once, and which of the ranges asked for lie in it."""

    start: int
    stop: int
    members: list[int]


def coalesce(key: str, ranges: Sequence[tuple[int, int]], size: int, gap: int, limit: int) -> Iterator[Span]:
    """Group ranges that lie within `gap` bytes of each other into spans of at most `limit` bytes, in order of offset.

    Ranges that overlap always share a span, whatever its size: so all spans together never hold more bytes than the
    object, however often a malformed index points to the same place. Every range is checked against the object's size
    before the first span is given out.
    """
    for offset, length in ranges:
        if offset < 0 or length < 0:
            raise ValueError(f"{key}: a range cannot have offset {offset} and length {length}")
        if offset + length > size:
            raise outside(key, offset, length, size)
    order = sorted(range(len(ranges)), key=ranges.__getitem__)
    start = stop = 0
    members: list[int] = []
    for index in order:
        offset, length = ranges[index]
        end = offset + length
        if members and (offset < stop or (offset - stop <= gap and end - start <= limit)):
            members.append(index)
            stop = max(stop, end)
            continue
        if members:
            yield Span(start, stop, members)
        start, stop, members = offset, end, [index]
    if members:
        yield Span(start, stop, members)
