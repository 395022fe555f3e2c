"""A box of one array, seen with the axes that it will have in another format."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import transfer
from zvcore.boxes import Box, integers
from zvcore.converting.casts import cast, check_cast
from zvcore.engine.fetching import reachable
from zvcore.engine.selection import Selection
from zvcore.engine.work import Work
from zvcore.format import get_format
from zvcore.layout import ABSENT, Layout, Sources

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zvcore.array import Array
    from zvcore.exchange import Exchange
    from zvcore.format import Format

__all__ = ["Box", "Held", "Region", "View", "make_view", "parse_region", "whole"]

# Per axis of an array: where the part begins and ends, and whether the axis stays (it goes where an integer stood).
Region = tuple[tuple[int, int, bool], ...]


def parse_region(region: Any, shape: tuple[int, ...]) -> Region:
    """What stands in the brackets of `array[...]`: integers and slices with step 1."""
    items = list(region) if isinstance(region, tuple | list) else [region]
    if region is None:
        items = [...]
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("a region has one ellipsis (...) at most")
    if any(item is Ellipsis for item in items):
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = [slice(None)] * (len(shape) - len(items) + 1)
    if len(items) > len(shape):
        raise IndexError(f"the region has {len(items)} axes, the array {len(shape)}")
    items += [slice(None)] * (len(shape) - len(items))
    found = []
    for axis, (item, bound) in enumerate(zip(items, shape, strict=True)):
        if isinstance(item, slice):
            start, stop, step = item.indices(bound)
            if step != 1:
                raise IndexError(f"axis {axis}: a region takes slices with step 1, not {step}")
            if stop <= start and bound:
                raise IndexError(f"axis {axis}: nothing lies in {item.start}:{item.stop} of {bound}")
            found.append((start, max(start, stop), True))
        else:
            (place,) = integers((item,), f"axis {axis}: a region has integers and slices, not {item!r}")
            if not -bound <= place < bound:
                raise IndexError(f"axis {axis}: {place} is outside of 0:{bound}")
            place += bound if place < 0 else 0
            found.append((place, place + 1, False))
    return tuple(found)


class Tally:
    """How many stored bytes were read."""

    def __init__(self) -> None:
        self.nbytes = 0

    def take(self) -> int:
        nbytes, self.nbytes = self.nbytes, 0
        return nbytes


class Held:
    """Stored chunks of an array that have been fetched: the bytes of each of these positions, in `sources`."""

    def __init__(self, positions: npt.NDArray[np.int64], sources: Sources) -> None:
        self._sources = sources
        self._rows = {tuple(position): row for row, position in enumerate(positions.tolist())}

    def locate(self, positions: npt.NDArray[np.int64]) -> Sources | None:
        """Where the chunks at these positions are; None where one of them is not held."""
        found = [self._rows.get(tuple(position)) for position in positions.tolist()]
        if None in found:
            return None
        rows = np.array(found, np.int32)
        held = self._sources
        return Sources(held.keys, rows, blobs=held.blobs, chain=None if held.chain is None else held.chain[rows])


def _counting(layout: Layout, tally: Tally, held: Held | None = None) -> Layout:
    """The same layout, telling how many stored bytes were asked for."""
    clone: Any = copy.copy(layout)
    store = layout.store

    def locate(positions: npt.NDArray[np.int64]) -> Sources:
        sources = None if held is None else held.locate(positions)
        if sources is None:
            sources = reachable(store, layout.locate(positions), len(positions))
        if sources.blobs is not None:
            tally.nbytes += sum(len(blob) for blob in sources.blobs if blob is not None)
        elif sources.length is not None:
            tally.nbytes += int(sources.length[sources.length != ABSENT].sum())
        else:
            tally.nbytes += sum(size or 0 for size in store.sizes(sources.keys))
        return sources

    clone.locate = locate
    clone.open_shards = None
    clone.recall = clone.fetch_first = lambda positions: None
    counting: Layout = clone
    return counting


@dataclass(frozen=True)
class View:
    """A box of an array with other axes.

    axes    for each axis of the view, the array's axis that it is; None for one of length 1 that the array has not
    start   where the box begins, along each axis of the array
    shape   of the view
    order   the memory order of what is read: that in which the destination's chunks lie
    dtype   what values are cast to (see `cast`); None: as they are
    clip    whether values that the dtype cannot hold become the nearest that it can, instead of an error
    """

    array: Array
    axes: tuple[int | None, ...]
    start: tuple[int, ...]
    shape: tuple[int, ...]
    order: str = "C"
    dtype: np.dtype[Any] | None = None
    clip: bool = False

    @property
    def source(self) -> Exchange:
        """What the array's format says of conversions."""
        return get_format(self.array.format).exchange()

    @property
    def value_dtype(self) -> np.dtype[Any]:
        return self.array.dtype if self.dtype is None else self.dtype

    def _key(self, box: Box) -> tuple[Any, ...]:
        """What a box of the view is of the array."""
        key: list[Any] = list(self.start)
        for axis, (first, stop) in zip(self.axes, box, strict=True):
            if axis is not None:
                key[axis] = slice(self.start[axis] + first, self.start[axis] + stop)
        return tuple(key)

    def is_empty(self, box: Box) -> bool:
        """Whether nothing is stored of a box, by the indexes of shards; False where each chunk would have to be asked.

        A shard may claim a million chunks, and have three.
        """
        layout = self.array.layout
        if not (layout.sharded and layout.regular):
            return False
        positions = Selection.basic(self._key(box), self.array.shape).positions(layout.form.shape)
        # Of shards that are full, the first chunk is enough.
        for some in (positions[:1], positions):
            sources = layout.locate(some)
            if sources.length is None or bool((sources.length != ABSENT).any()):
                return False
        return True

    def read(self, box: Box, threads: int | None = None, held: Held | None = None) -> tuple[npt.NDArray[Any], int]:
        """(the values in a box of the view, how many stored bytes they were); `held` chunks are not fetched again."""
        tally = Tally()
        key = self._key(box)
        shape = [stop - first for first, stop in box]
        values = transfer.empty(tuple(shape), self.array.dtype, "F" if self.order == "F" else "C")
        kept = [axis for axis in self.axes if axis is not None]
        target = values[tuple(0 if axis is None else slice(None) for axis in self.axes)]
        target = np.asarray(target).transpose(np.argsort(kept).tolist()) if kept else target
        if not kept:
            self.array.read(key, out=values.reshape(()), threads=threads)
        else:
            for layout, selection, part in self.array.parts(key, target):
                counting = _counting(layout, tally, held if layout is self.array.layout else None)
                if layout.value_codec is None:
                    counting.__dict__["prepared"] = layout.prepared
                transfer.read(counting, selection, part, Work(threads))
        return self._cast(values, box), tally.nbytes

    def read_coarser(
        self, box: Box, factors: Sequence[int], modes: bool, threads: int | None = None
    ) -> tuple[npt.NDArray[Any], int] | None:
        """(what becomes of a box by these factors, how many stored bytes it was), made chunk by chunk without the
        values of the box; None where that cannot be.

        modes  whether it is the most frequent values, instead of means
        """
        layout = self.array.layout
        if self.dtype is not None or not layout.regular:
            return None
        steps = [1] * len(self.start)
        ranges = [(first, first + 1) for first in self.start]
        for axis, factor, (first, stop) in zip(self.axes, factors, box, strict=True):
            if axis is not None:
                steps[axis] = factor
                ranges[axis] = (self.start[axis] + first, self.start[axis] + stop)
        shape = [-(-(stop - first) // factor) for (first, stop), factor in zip(box, factors, strict=True)]
        values = transfer.empty(tuple(shape), self.array.dtype, "F" if self.order == "F" else "C")
        # As the array has its axes; those that the view has not are of length 1.
        kept = [axis for axis in self.axes if axis is not None]
        there = values[tuple(0 if axis is None else slice(None) for axis in self.axes)]
        there = there.transpose(np.argsort(kept).tolist())
        there = there[tuple(slice(None) if axis in kept else np.newaxis for axis in range(len(self.start)))]
        whole = tuple(ranges)
        if not transfer.reads_coarser(layout, whole, steps, modes, there):
            return None
        tally = Tally()
        counting = _counting(layout, tally)
        counting.__dict__["prepared"] = layout.prepared
        transfer.read_coarser(counting, whole, steps, modes, there, Work(threads))
        return values, tally.nbytes

    def _cast(self, values: npt.NDArray[Any], box: Box) -> npt.NDArray[Any]:
        if self.dtype is None or self.dtype == values.dtype:
            return values
        return cast(values, self.dtype, self.clip, box)


def make_view(
    array: Array,
    format: Format,
    region: Region,
    *,
    channel_axis: int | None = None,
    dtype: np.dtype[Any] | None = None,
    clip: bool = False,
) -> View:
    """The part of an array as an array of another format has it: memory order stays, the order of axes follows.

    `channel_axis` is the array's axis of channels, where that is known and not the slowest.
    """
    source = get_format(array.format).exchange()
    spare = () if source.format is format else source.spare_axes(array)
    kept = [axis for axis, (_, _, stays) in enumerate(region) if stays and axis not in spare]
    lengths = [stop - first for first, stop, _ in region]
    axes, order = format.exchange().axes_for(array, kept, lengths, channel_axis)
    shape = tuple(1 if axis is None else lengths[axis] for axis in axes)
    start = tuple(first for first, _, _ in region)
    wanted = None if dtype is None or np.dtype(dtype) == array.dtype else np.dtype(dtype)
    if wanted is not None:
        check_cast(array.dtype, wanted)
    return View(array, axes, start, shape, order, wanted, clip)


def whole(array: Array) -> View:
    """An array as a source for another of the same format."""
    return make_view(array, get_format(array.format), parse_region(..., array.shape))
