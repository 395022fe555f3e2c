"""The chunks that a selection touches, a window of them at a time: there may be more than fit into memory."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.engine.selection import Selection
    from zvcore.transfer.batches import Positions

__all__ = ["position_windows"]

# Of the chunks that are touched along each axis: the first, and the one behind the last.
Window = tuple[tuple[int, int], ...]


def position_windows(
    selection: Selection, chunk_shape: tuple[int, ...], most: int, shard_shape: tuple[int, ...] | None = None
) -> Iterator[Positions]:
    """The grid positions of the chunks that a selection touches, about `most` of them at a time.

    Windows follow each other in C order. With `shard_shape`, the chunks of a shard are all in one window, however many
    they are.
    """
    counts = selection.chunk_counts(chunk_shape)
    if math.prod(counts) <= most or selection.is_points:
        yield selection.positions(chunk_shape)
        return
    per_shard = [1] * len(counts) if shard_shape is None else [n // m for n, m in zip(shard_shape, chunk_shape)]
    for window in _windows(selection, chunk_shape, counts, per_shard, most):
        yield selection.positions(chunk_shape, window)


def _windows(
    selection: Selection, chunk_shape: tuple[int, ...], counts: Sequence[int], per_shard: Sequence[int], most: int
) -> Iterator[Window]:
    """Boxes that are as long as can be along the last axes, and one shard thick along the first."""
    lengths: list[int] = []
    for count, thick in zip(reversed(counts), reversed(per_shard), strict=True):
        length = min(count, max(thick, most // thick * thick))
        most = max(1, most // max(1, length))
        lengths.append(length)
    lengths.reverse()

    def ends(axis: int, first: int) -> int:
        """Where a window ends that begins with the chunk `first`: not within a shard."""
        if first + lengths[axis] >= counts[axis]:
            return counts[axis]
        if per_shard[axis] == 1:
            return first + lengths[axis]

        def place(number: int) -> int:
            return int(selection.chunk_places(axis, chunk_shape[axis], number, number + 1)[0])

        shard = (place(first) + lengths[axis]) // per_shard[axis]
        return bisect_left(range(counts[axis]), shard * per_shard[axis], first + 1, key=place)

    def along(axis: int) -> Iterator[Window]:
        if axis == len(counts):
            yield ()
            return
        first = 0
        while first < counts[axis]:
            stop = ends(axis, first)
            for rest in along(axis + 1):
                yield ((first, stop), *rest)
            first = stop

    yield from along(0)
