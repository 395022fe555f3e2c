"""The work of filling one array, cut into units: each writes whole objects of the destination, none of them twice."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.cached import cached_property
from zvcore.converting.coarse import coarser_values, downsampled
from zvcore.converting.cutting import Boxes, ScatteredShards
from zvcore.converting.gather import Gather
from zvcore.converting.outcome import put, slices
from zvcore.converting.pace import bytes_in_time
from zvcore.converting.parts import PART_BYTES, nbytes_of, parts_of
from zvcore.converting.present import skips
from zvcore.converting.recode import Recode
from zvcore.converting.verbatim import Verbatim
from zvcore.converting.view import View
from zvcore.converting.way import Encoded, Part, Positions, Way, chosen
from zvcore.engine import Buffers
from zvcore.engine.selection import Selection
from zvcore.errors import UnsupportedError
from zvcore.exchange import grow
from zvcore.layout import ABSENT
from zvcore.placement import Streamed
from zvcore.report import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zvcore.array import Array
    from zvcore.boxes import Box
    from zvcore.converting.coarse import CoarseView, Factors

__all__ = ["WAYS", "Copying", "plan_copy"]

# How an array can be filled, the best way first.
WAYS = (Verbatim, Recode, Gather)
# How many bytes of values, and how many chunks, one unit has at most whose values are never gathered. What is done of a
# unit is lost when a conversion is interrupted.
_UNIT_BYTES = 128 << 20
_UNIT_CHUNKS = 1 << 14
# How many parts of a unit may wait to be written.
_WAITING_PARTS = 4
# Units have numbers of 64 bits.
_MOST_UNITS = 1 << 62


@dataclass(frozen=True)
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

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("way", "cut")}

    @property
    def targets(self) -> list[Array]:
        """What the units fill."""
        return [self.target]

    @property
    def span(self) -> tuple[int, ...]:
        """How much of the view a unit covers."""
        return self.cell

    @cached_property
    def way(self) -> Way:
        """How chunks of the target are made."""
        return chosen(WAYS, self.view, self.target, self.effort, self.part)

    def can_spread(self, local: bool) -> bool:
        """Whether whole objects can be written without their values, or their stored chunks, being gathered.

        `local`: whether the target's objects are, or will be, files.
        """
        return not self.cut.scattered and self.way.shares(self.target.shards or self.cell, local)

    # --- units

    @cached_property
    def cut(self) -> Boxes | ScatteredShards:
        """The units."""
        if self.target.layout.scattered:
            return ScatteredShards(self.target)
        return Boxes(self.target, self.cell)

    def __len__(self) -> int:
        return len(self.cut)

    @property
    def unit_memory(self) -> int:
        """Values before and after their cast, and what is encoded of them: at most a little more than the values."""
        cell = [min(a, b) for a, b in zip(self.cell, self.target.shape, strict=True)]
        encoded = nbytes_of(cell, self.target.dtype)
        if self.spread:
            # At the worst all chunks wait for the first one.
            return int(1.05 * encoded) + 2 * self.way.waiting
        part = min(self.part, encoded) + nbytes_of(self.target.chunks, self.target.dtype)
        if self._streamed and not (self.way.passes and self._small):
            # The encoded chunks of a part, and once more together.
            encoded = min(encoded, 2 * part)
        source = self.view.array.dtype.itemsize
        decoded = part * source // self.target.dtype.itemsize + (part if self.view.dtype is not None else 0)
        return int(1.05 * encoded) + decoded

    # --- work

    def run(self, unit: int, threads: int | None) -> Outcome:
        outcome = self._run(unit, threads)
        # What was missing may have been removed, and not be the fill value.
        self.view.array.standing.check_source(self.view.array)
        return outcome

    def _run(self, unit: int, threads: int | None) -> Outcome:
        outcome = Outcome()
        whole = self._whole(unit)
        if whole is not None and self.way.write(whole, threads, outcome):
            return outcome
        if whole is None and self._passed_on(unit, threads, outcome):
            return outcome
        if whole is None and self._streamed:
            self._run_in_parts(unit, threads, outcome)
            return outcome
        places: list[Positions] = []
        chunks: list[Buffers] = []
        for part in self._parts(self.cut.boxes(unit)):
            positions, encoded = self._encoded(part, threads, outcome)
            if self.target.layout.sharded:
                places.append(positions)
                chunks.append(encoded.chunks)
            else:
                put(self.target, positions, encoded.chunks, outcome)
        if places:
            put(self.target, np.concatenate(places), Buffers.chain(chunks), outcome)
        return outcome

    def _passed_on(self, unit: int, threads: int | None, outcome: Outcome) -> bool:
        """Write a unit that is too large to be gathered, if its chunks need not be."""
        if isinstance(self.cut, ScatteredShards) or not self.way.passes:
            return False
        # One thread comes to each chunk in its turn: nothing waits.
        return self.way.write(self.cut.box(unit), threads if self._small else 1, outcome)

    @property
    def _small(self) -> bool:
        """Whether it does no harm if all chunks of a unit wait for the first one."""
        cell = [min(a, b) for a, b in zip(self.cell, self.target.shape, strict=True)]
        return nbytes_of(cell, self.target.dtype) <= _WAITING_PARTS * self.part

    @cached_property
    def _skips(self) -> bool:
        return skips(self.view, [self.target])

    @property
    def _streamed(self) -> bool:
        """Whether shards that do not fit, or are no boxes, are written part by part."""
        return self.target.layout.placement.can_stream and (self.cut.scattered or self.cell == self.target.shards)

    def _run_in_parts(self, unit: int, threads: int | None, outcome: Outcome) -> None:
        layout = self.target.layout
        first, boxes = itertools.tee(self.cut.boxes(unit))
        begin = next(first, None)
        if begin is None:
            return
        corner = np.array([start // extent for (start, _), extent in zip(begin, self.target.chunks, strict=True)])
        key = layout.chunk_name(tuple(corner.tolist()))
        placement = layout.placement
        assert isinstance(placement, Streamed)
        nbytes = 0
        with placement.stream(key) as add:
            for part in placement.stream_boxes(key, self.part) or self._parts(boxes):
                positions, encoded = self._encoded(part, threads, outcome)
                outcome.empty += int((encoded.chunks.sizes == ABSENT).sum())
                nbytes += encoded.chunks.nbytes
                add(positions, encoded.chunks)
        outcome.bytes_out += placement.stored_nbytes(corner[np.newaxis], nbytes)

    def _parts(self, boxes: Iterable[Box]) -> Iterator[Box]:
        """What is decoded at once."""
        for box in boxes:
            yield from parts_of(box, self.target.chunks, self.view.value_dtype.itemsize, self.part, self.target.order)

    def _whole(self, unit: int) -> Box | None:
        """A unit that is decoded and stored at once."""
        if isinstance(self.cut, ScatteredShards):
            return None
        box = self.cut.box(unit)
        return box if self.spread or len([*self._parts([box])]) == 1 else None

    def store_coarser(
        self, box: Box, factors: Factors, method: str, threads: int | None, outcome: Outcome
    ) -> npt.NDArray[Any]:
        """Write a box of whole objects, and return what becomes of its values by these factors."""
        own = Outcome()
        if isinstance(self.view, View) and self.way.passes and self.way.write(box, threads, own):
            outcome.include(own)
            return coarser_values(self.view, box, factors, method, threads)[0]
        return downsampled(self._store(box, threads, outcome), factors, method, threads or 1)

    def _store(self, box: Box, threads: int | None, outcome: Outcome) -> npt.NDArray[Any]:
        """Write a box of whole objects, and return its values."""
        own = Outcome()
        values = self.way.write_through(box, threads, own)
        if values is not None:
            outcome.include(own)
            return values
        positions, encoded = self._encoded(box, threads, outcome, needed=True)
        put(self.target, positions, encoded.chunks, outcome)
        assert encoded.values is not None
        return encoded.values

    def _encoded(
        self, box: Box, threads: int | None, outcome: Outcome, needed: bool = False
    ) -> tuple[Positions, Encoded]:
        """(positions of the chunks of a box, what will be stored of them, with the values if they are `needed`)."""
        outcome.values += nbytes_of([stop - first for first, stop in box], self.target.dtype)
        positions = Selection.basic(slices(box), self.target.shape).positions(self.target.chunks)
        if not needed and self._skips and self.view.is_empty(box):
            return positions, Encoded(Buffers(len(positions)), 0)
        encoded = self.way.chunks(Part(box, positions, None, needed, threads))
        outcome.bytes_in += encoded.nbytes
        outcome.copied += encoded.copied
        outcome.encoded += encoded.made
        return positions, encoded


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
    wanted = min(PART_BYTES, max(1, memory // 8), _UNIT_CHUNKS * nbytes_of(target.chunks, view.value_dtype))
    copying = Copying(view, target, base, wanted, effort, name)
    in_time = bytes_in_time(target.layout) if copying.way.encodes else math.inf
    if target.shards is None and wanted <= in_time:
        # Where it costs little, units begin and end where chunks of the source do: none is decoded twice.
        common = tuple(
            chunk if axis is None else math.lcm(chunk, view.array.chunks[axis])
            for chunk, axis in zip(target.chunks, view.axes, strict=True)
        )
        clipped = [min(a, b) for a, b in zip(common, target.shape, strict=True)]
        if nbytes_of(clipped, view.value_dtype) <= wanted:
            base = common
    copying = replace(copying, cell=grow(base, target.shape, itemsize, min(wanted, in_time)))
    if math.prod(copying.cut.grid) > _MOST_UNITS:
        raise UnsupportedError(
            "the array claims more chunks than can be counted; convert a region of it", key=view.array.store.root,
            expected=f"at most {_MOST_UNITS} parts", found=view.shape,
        )  # fmt: skip
    room = min(_UNIT_BYTES, memory // 2, _UNIT_CHUNKS * nbytes_of(target.chunks, target.dtype))
    least = nbytes_of(base, target.dtype)
    # With small units that are slow, each thread has one of its own: they need not wait for each other.
    slow = least <= in_time < room
    if not needed and not slow and copying.can_spread(local) and least <= room:
        return replace(copying, cell=grow(base, target.shape, itemsize, min(room, in_time)), spread=True)
    return copying
