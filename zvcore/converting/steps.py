"""The work of a conversion, cut into units: each writes whole objects of the destination, none of them twice."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import transfer
from zvcore.converting.gather import Gather
from zvcore.converting.recode import Recode
from zvcore.converting.verbatim import TakenOver, Verbatim
from zvcore.converting.view import Box, View
from zvcore.engine import Buffers
from zvcore.engine.selection import Selection
from zvcore.engine.work import Work
from zvcore.exchange import grow
from zvcore.layout import ABSENT
from zvcore.placement import Streamed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zvcore.array import Array
    from zvcore.converting.pyramids import CoarseView

__all__ = ["Copying", "Outcome", "nbytes_of", "parts_of", "plan_copy", "put", "store_values"]

Positions = npt.NDArray[np.int64]

# How many bytes of values are decoded at once: few enough that their memory is used again and again.
PART_BYTES = 16 << 20
# How many bytes of values, and how many chunks, one unit has at most whose values are never gathered. What is done of a
# unit is lost when a conversion is interrupted.
_UNIT_BYTES = 256 << 20
_UNIT_CHUNKS = 1 << 16


@dataclass
class Outcome:
    """What a unit did, or several."""

    bytes_in: int = 0
    bytes_out: int = 0
    values: int = 0
    copied: int = 0
    encoded: int = 0
    empty: int = 0

    def add(self, other: Outcome) -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


def nbytes_of(shape: Sequence[int], dtype: np.dtype[Any]) -> int:
    return math.prod(shape) * dtype.itemsize


def parts_of(box: Box, grain: Sequence[int], itemsize: int, limit: int, order: str) -> list[Box]:
    """A box cut into parts of at most `limit` bytes at multiples of `grain`, the slowest axes first."""
    size = math.prod(stop - first for first, stop in box) * itemsize
    if size <= limit:
        return [box]
    axes = range(len(box)) if order == "C" else reversed(range(len(box)))
    for axis in axes:
        first, stop = box[axis]
        steps = -(-stop // grain[axis]) - first // grain[axis]
        if steps < 2:
            continue
        middle = (first // grain[axis] + steps // 2) * grain[axis]
        halves = [(*box[:axis], half, *box[axis + 1 :]) for half in ((first, middle), (middle, stop))]
        return [part for half in halves for part in parts_of(half, grain, itemsize, limit, order)]
    return [box]


@dataclass
class Copying:
    """Fills one array from a view of another. Picklable, and small: it holds metadata alone.

    cell    what one unit writes: whole shards, or several whole chunks
    part    how many bytes of values are decoded at once
    effort  whether a codec with another level counts as another codec
    spread  whether the threads share the chunks of one unit, whose values are never gathered, instead of its parts
    """

    view: View | CoarseView
    target: Array
    cell: tuple[int, ...]
    part: int
    effort: bool = False
    name: str = ""
    spread: bool = False
    _scattered: bool = field(default=False)

    def __post_init__(self) -> None:
        layout = self.target.layout
        self._scattered = layout.sharded and layout.shard_shape is None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("verbatim", "recode", "_groups")}

    @property
    def targets(self) -> list[Array]:
        """What the units fill."""
        return [self.target]

    # --- units

    @cached_property
    def verbatim(self) -> Verbatim | None:
        """How stored chunks can be taken over, if any can."""
        verbatim = Verbatim(self.view, self.target, self.effort) if isinstance(self.view, View) else None
        return verbatim if verbatim is not None and verbatim.open else None

    @cached_property
    def recode(self) -> Recode | None:
        """How chunks are decoded and encoded one after the other, if their grids allow that."""
        recode = Recode(self.view, self.target, self.part) if isinstance(self.view, View) else None
        return recode if recode is not None and recode.open else None

    def can_spread(self, local: bool) -> bool:
        """Whether whole objects can be written without their values, or their stored chunks, being gathered.

        `local`: whether the target's objects are, or will be, files.
        """
        recode = self.recode
        if recode is None or self.verbatim is not None or self._scattered:
            return False
        if not local or recode.source.store.local_root is None:
            return False
        grain = self.target.shards or self.cell
        return not any(map(int.__mod__, grain, recode.cell))

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple(-(-bound // extent) for bound, extent in zip(self.target.shape, self.cell, strict=True))

    @cached_property
    def _groups(self) -> list[Positions]:
        """The chunks of each shard, where these are no boxes."""
        whole = Selection.basic(..., self.target.shape)
        positions = whole.positions(self.target.chunks)
        groups = sorted(self.target.layout.placement.groups(positions), key=lambda group: group.key)
        return [positions[group.rows] for group in groups]

    def __len__(self) -> int:
        if 0 in self.target.shape:
            return 0
        return len(self._groups) if self._scattered else math.prod(self.grid)

    def box(self, unit: int) -> Box:
        """What a unit writes."""
        place = np.unravel_index(unit, self.grid) if self.grid else ()
        return tuple(
            (int(i) * extent, min((int(i) + 1) * extent, bound))
            for i, extent, bound in zip(place, self.cell, self.target.shape, strict=True)
        )

    def boxes(self, unit: int) -> Iterator[Box]:
        """The boxes that a unit is made of: one, except where shards are no boxes."""
        if not self._scattered:
            yield self.box(unit)
            return
        for position in self._groups[unit].tolist():
            yield tuple(
                (i * extent, min((i + 1) * extent, bound))
                for i, extent, bound in zip(position, self.target.chunks, self.target.shape, strict=True)
            )

    @property
    def unit_memory(self) -> int:
        """Values before and after their cast, and what is encoded of them: at most a little more than the values."""
        cell = [min(a, b) for a, b in zip(self.cell, self.target.shape, strict=True)]
        encoded = nbytes_of(cell, self.target.dtype)
        if self.spread and self.recode is not None:
            # At the worst all chunks wait for the first one.
            return int(1.05 * encoded) + 2 * nbytes_of(self.recode.cell, self.target.dtype)
        part = min(self.part, encoded) + nbytes_of(self.target.chunks, self.target.dtype)
        if self.target.layout.placement.can_stream and (self._scattered or self.cell == self.target.shards):
            # The encoded chunks of a part, and once more together.
            encoded = min(encoded, 2 * part)
        source = self.view.array.dtype.itemsize
        decoded = part * source // self.target.dtype.itemsize + (part if self.view.dtype is not None else 0)
        return int(1.05 * encoded) + decoded

    # --- work

    def run(self, unit: int, threads: int | None) -> Outcome:
        outcome = Outcome()
        sharded = self.target.layout.sharded
        if self.verbatim is None and not self._scattered and (whole := self._whole(unit)) is not None:
            if self.recode is not None and self.recode.whole(whole):
                outcome.bytes_in = self.recode.store(whole, threads)
                count(self.target, whole, outcome)
            else:
                values, outcome.bytes_in = self.view.read(whole, threads)
                store_values(self.target, whole, values, threads, outcome)
            return outcome
        if self._streamed(unit):
            self._run_in_parts(unit, threads, outcome)
            return outcome
        places: list[Positions] = []
        chunks: list[Buffers] = []
        for part in self._parts(self.boxes(unit)):
            positions, encoded, _ = self._encoded(part, threads, outcome)
            if sharded:
                places.append(positions)
                chunks.append(encoded)
            else:
                put(self.target, positions, encoded, outcome)
        if sharded:
            put(self.target, np.concatenate(places), Buffers.chain(chunks), outcome)
        return outcome

    def _streamed(self, unit: int) -> bool:
        """Whether the unit is a single shard that is written part by part: one that does not fit, or is no box."""
        if not self.target.layout.placement.can_stream:
            return False
        return self._scattered or (self.cell == self.target.shards and self._whole(unit) is None)

    def _run_in_parts(self, unit: int, threads: int | None, outcome: Outcome) -> None:
        layout = self.target.layout
        first, boxes = itertools.tee(self.boxes(unit))
        corner = [start // extent for (start, _), extent in zip(next(first), self.target.chunks, strict=True)]
        key = layout.chunk_name(tuple(corner))
        placement = layout.placement
        assert isinstance(placement, Streamed)
        with placement.stream(key) as add:
            for part in placement.stream_boxes(key, self.part) or self._parts(boxes):
                positions, encoded, _ = self._encoded(part, threads, outcome)
                outcome.empty += int((encoded.sizes == ABSENT).sum())
                outcome.bytes_out += encoded.nbytes
                add(positions, encoded)

    def _parts(self, boxes: Iterable[Box]) -> Iterator[Box]:
        """What is decoded at once."""
        for box in boxes:
            yield from parts_of(box, self.target.chunks, self.view.value_dtype.itemsize, self.part, self.target.order)

    def _whole(self, unit: int) -> Box | None:
        """A unit that is decoded and stored at once."""
        box = self.box(unit)
        if self.spread:
            return box
        parts = parts_of(box, self.target.chunks, self.view.value_dtype.itemsize, self.part, self.target.order)
        return box if len(parts) == 1 else None

    def store(self, box: Box, threads: int | None, outcome: Outcome) -> npt.NDArray[Any]:
        """Write a box of whole objects, and return its values."""
        positions, encoded, values = self._encoded(box, threads, outcome, needed=True)
        put(self.target, positions, encoded, outcome)
        assert values is not None
        return values

    def _encoded(
        self, box: Box, threads: int | None, outcome: Outcome, needed: bool = False
    ) -> tuple[Positions, Buffers, npt.NDArray[Any] | None]:
        """(positions of the chunks of a box, the chunks as they will be stored, the values if they are `needed`)."""
        target = self.target
        outcome.values += nbytes_of([stop - first for first, stop in box], target.dtype)
        selection = Selection.basic(_slices(box), target.shape)
        positions = selection.positions(target.chunks)
        taken = TakenOver.nothing(len(positions)) if self.verbatim is None else self.verbatim.take(positions, threads)
        outcome.copied += sum(chunk is not None for chunk in taken.chunks)
        recode = None if needed or self.recode is None or not self.recode.whole(box) else self.recode
        values, fresh = None, None
        if recode is not None:
            outcome.bytes_in += taken.nbytes
            if taken.left:
                fresh, nbytes = recode.encode(box, positions[np.array(taken.left, np.intp)], threads)
                outcome.bytes_in += nbytes
        else:
            gather = Gather(self.view, target)
            fresh, nbytes, values = gather.encode(box, positions, taken.left, needed, threads)
            # A box that was read as a whole includes the chunks that were taken over: they are counted once.
            outcome.bytes_in += nbytes + (taken.nbytes if values is None else 0)
        if fresh is None:
            return positions, taken.buffers(len(positions)), values
        outcome.encoded += int((fresh.sizes != ABSENT).sum())
        return positions, taken.merged(len(positions), fresh), values


def store_values(target: Array, box: Box, values: npt.NDArray[Any], threads: int | None, outcome: Outcome) -> None:
    """Write a box of whole objects."""
    layout = target.layout
    transfer.write(layout, Selection.basic(_slices(box), target.shape), values, Work(threads))
    count(target, box, outcome)


def count(target: Array, box: Box, outcome: Outcome) -> None:
    """Add what has been written of a box of whole objects."""
    positions = Selection.basic(_slices(box), target.shape).positions(target.chunks)
    outcome.values += nbytes_of([stop - first for first, stop in box], target.dtype)
    present, nbytes = stored(target, positions)
    outcome.encoded += present
    outcome.empty += len(positions) - present
    outcome.bytes_out += nbytes


def stored(target: Array, positions: Positions) -> tuple[int, int]:
    """(how many of these chunks are stored, how many bytes their objects have)."""
    layout = target.layout
    store = layout.store
    sources = layout.locate(positions)
    found = [size for size in store.sizes(sources.keys) if size is not None]
    if sources.length is not None:
        present = int((sources.length != ABSENT).sum())
    elif sources.blobs is not None:
        present = sum(blob is not None for blob in sources.blobs)
    else:
        present = len(found)
    return present, sum(found)


def put(target: Array, positions: Positions, encoded: Buffers, outcome: Outcome) -> None:
    """Store encoded chunks: all of an object's at once."""
    layout = target.layout
    transfer.put(layout, positions, encoded)
    outcome.empty += int((encoded.sizes == ABSENT).sum())
    if layout.sharded and not layout.store.remote:
        keys = [group.key for group in layout.placement.groups(positions)]
        outcome.bytes_out += sum(size or 0 for size in layout.store.sizes(keys))
    else:
        outcome.bytes_out += encoded.nbytes


def plan_copy(
    view: View | CoarseView,
    target: Array,
    effort: bool,
    memory: int,
    name: str = "",
    *,
    needed: bool = False,
    local: bool = False,
) -> Copying:
    """How an array is filled from a view in at most about `memory` bytes, whatever is under way at once.

    `needed`: the values are needed for coarser levels too; `local`: the target's objects are files.
    """
    itemsize = max(view.value_dtype.itemsize, view.array.dtype.itemsize)
    base = target.shards or target.chunks
    wanted = min(PART_BYTES, max(1, memory // 8))
    if target.shards is None:
        # Where it costs little, units begin and end where chunks of the source do: none is decoded twice.
        common = tuple(
            chunk if axis is None else math.lcm(chunk, view.array.chunks[axis])
            for chunk, axis in zip(target.chunks, view.axes, strict=True)
        )
        clipped = [min(a, b) for a, b in zip(common, target.shape, strict=True)]
        if nbytes_of(clipped, view.value_dtype) <= wanted:
            base = common
    copying = Copying(view, target, grow(base, target.shape, itemsize, wanted), wanted, effort, name)
    room = min(_UNIT_BYTES, memory // 2, _UNIT_CHUNKS * nbytes_of(target.chunks, target.dtype))
    if not needed and copying.can_spread(local) and nbytes_of(base, target.dtype) <= room:
        copying.cell, copying.spread = grow(base, target.shape, itemsize, room), True
    return copying


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(first, stop) for first, stop in box)
