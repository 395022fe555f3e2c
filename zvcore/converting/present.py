"""Which units of a large step have anything to do: those in whose part of the source something is stored.

Volumes may have 10^10 chunks of which a few are there. Where stores can list what they have, the time of a conversion
follows that, and not the grid. Of small grids each chunk is looked at: that is no slower, and a plan needs no listing.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.boxes import count_of
from zvcore.converting.casts import cast
from zvcore.converting.coarse import CoarseView
from zvcore.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.array import Array
    from zvcore.converting.view import View
    from zvcore.layout import Layout, StoredObject

__all__ = ["Units", "compared_units", "skips", "units_of"]

Numbers = npt.NDArray[np.int64]

# Up to so many chunks of a source are looked for one by one.
_FEW = 1 << 16
_LISTED_AT_ONCE = 1 << 16
_MANY = 1 << 12
# How many numbers of units are held at once until those that are there several times are removed.
_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Units:
    """Some units of a step, in order.

    listed  identifies them where they follow from what the source has; None: they are all
    """

    numbers: range | Numbers
    listed: str | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, ordinal: int) -> int:
        return int(self.numbers[ordinal])

    def ordinal(self, unit: int) -> int:
        """The place of a unit among these."""
        if isinstance(self.numbers, range):
            return unit
        return int(np.searchsorted(self.numbers, unit))


@dataclass(frozen=True)
class _Seen:
    """One array as the grid of units sees it: `factors` is how much finer it is."""

    layout: Layout
    axes: Sequence[int | None]
    start: Sequence[int]
    shape: Sequence[int]
    factors: Sequence[int]

    @classmethod
    def through(cls, view: View | CoarseView) -> _Seen:
        base = view.finer if isinstance(view, CoarseView) else view
        factors = view.factors if isinstance(view, CoarseView) else (1,) * len(base.shape)
        return cls(base.array.layout, base.axes, base.start, base.shape, factors)

    @classmethod
    def itself(cls, array: Array) -> _Seen:
        rank = range(array.ndim)
        return cls(array.layout, tuple(rank), (0,) * array.ndim, array.shape, (1,) * array.ndim)

    @property
    def chunks(self) -> int:
        """How many chunks the array can have. A few shards may claim a million each."""
        return math.prod(count_of(self.layout.shape, self.layout.form.shape))


def units_of(work: Any) -> Units:
    """The units of a copy, or of a pyramid, that have something to do."""
    everything = Units(range(len(work)))
    if work.view is None:
        return everything
    seen = _Seen.through(work.view)
    if len(work) < 2 or seen.chunks <= _FEW or not skips(work.view, work.targets):
        return everything
    return _listed([seen], work.span, work.targets[0].shape) or everything


def compared_units(view: View | CoarseView, target: Array, cell: Sequence[int], count: int) -> Units:
    """The parts of a comparison in which either side has something."""
    everything = Units(range(count))
    sides = [_Seen.through(view), _Seen.itself(target)]
    if count < 2 or max(side.chunks for side in sides) <= _FEW or not skips(view, [target]):
        return everything
    return _listed(sides, cell, target.shape) or everything


def skips(view: View | CoarseView, targets: Sequence[Array]) -> bool:
    """Whether nothing is stored of what nothing is stored of in the source."""
    array = view.array
    if array.dtype.kind not in "biufc" or any(target.layout.store_empty for target in targets):
        return False
    try:
        blank = np.array([array.fill_value], array.dtype)
        fill = cast(blank, view.value_dtype, view.clip).tobytes()
    except (OverflowError, ValueError, TypeError):
        return False
    if any(np.array([target.fill_value], target.dtype).tobytes() != fill for target in targets):
        return False
    # The mean of several values that are the same is that value, unless it is rounded.
    exact = view.value_dtype.kind in "biu" or not any(fill)
    return exact or (len(targets) == 1 and not isinstance(view, CoarseView))


def _listed(sides: Sequence[_Seen], span: Sequence[int], shape: Sequence[int]) -> Units | None:
    """The units in which something of these arrays is stored; None where stores cannot tell."""
    grid = count_of(shape, span)
    # The first one is done in any case: what cannot be read at all is refused there.
    kept: list[Numbers] = [np.zeros(1, np.int64)]
    held = 0
    try:
        for side in sides:
            boxes = _stored(side.layout)
            if boxes is None:
                return None
            for numbers in _numbers(boxes, side, span, grid):
                kept.append(numbers)
                held += len(numbers)
                if held > _AT_ONCE:
                    kept = [np.unique(np.concatenate(kept))]
                    held = 0
    except UnsupportedError:
        return None
    found = np.unique(np.concatenate(kept))
    return Units(found, hashlib.blake2b(found.tobytes(), digest_size=16).hexdigest())


def _stored(layout: Layout) -> Iterator[tuple[Numbers, Sequence[int]]] | None:
    """Boxes in which all that is stored lies, many at once: (where each begins, how large all of them are)."""
    objects = layout.stored_objects()
    return None if objects is None else _boxes(layout, objects)


def _boxes(layout: Layout, objects: Iterator[StoredObject]) -> Iterator[tuple[Numbers, Sequence[int]]]:
    chunk = np.array(layout.form.shape, np.int64)
    shape = layout.shard_shape or layout.form.shape
    whole = np.array(shape, np.int64)
    bounds = count_of(layout.shape, shape) if layout.regular else [2**62] * len(shape)
    # What a shard of very many chunks has is looked up: it may be one of them.
    large = layout.regular and math.prod(count_of(shape, layout.form.shape)) > _MANY
    while batch := list(itertools.islice(objects, _LISTED_AT_ONCE)):
        # Names may have more digits than a number of 64 bits.
        inside = [one for one in batch if one.place is None or all(i < n for i, n in zip(one.place, bounds))]
        places = [one.place for one in inside if one.place is not None and not large]
        if places:
            yield layout.begins_of(np.array(places, np.int64).reshape(len(places), len(whole))), whole.tolist()
        for positions in layout.stored_chunks_in_each(one for one in inside if one.place is None or large):
            yield positions * chunk, chunk.tolist()


def _numbers(
    boxes: Iterator[tuple[Numbers, Sequence[int]]], seen: _Seen, span: Sequence[int], grid: Sequence[int]
) -> Iterator[Numbers]:
    """The numbers of the units that boxes of an array reach into."""
    for begin, extent in boxes:
        first, last = _places(begin, extent, seen, span)
        most = [int(n) for n in (last - first).max(axis=0) + 1] if len(first) else [1] * len(grid)
        step = max(1, _AT_ONCE // math.prod(most))
        within = np.array(list(np.ndindex(*most)), np.int64).reshape(-1, len(grid))
        for at in range(0, len(first), step):
            low, high = first[at : at + step, None, :], last[at : at + step, None, :]
            places = low + within
            inside = places[(places <= high).all(axis=2)]
            yield np.unique(np.ravel_multi_index(tuple(inside.T), tuple(grid))) if len(inside) else inside[:, 0]


def _places(begin: Numbers, extent: Sequence[int], seen: _Seen, span: Sequence[int]) -> tuple[Numbers, Numbers]:
    """(the first unit that each box reaches into, the last), along each axis of the target."""
    end = begin + np.array(extent, np.int64)
    inside = np.ones(len(begin), np.bool_)
    shown = {axis: bound for axis, bound in zip(seen.axes, seen.shape, strict=True) if axis is not None}
    for own, start in enumerate(seen.start):
        inside &= (end[:, own] > start) & (begin[:, own] < start + shown.get(own, 1))
    begin, end = begin[inside], end[inside]
    first = np.zeros((len(begin), len(seen.axes)), np.int64)
    last = np.zeros_like(first)
    for place, axis in enumerate(seen.axes):
        if axis is None:
            continue
        step = span[place] * seen.factors[place]
        low = np.maximum(begin[:, axis] - seen.start[axis], 0)
        high = np.minimum(end[:, axis] - seen.start[axis], seen.shape[place]) - 1
        first[:, place], last[:, place] = low // step, high // step
    return first, last
