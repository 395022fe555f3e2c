"""The levels of a spatial index: how cells are halved, and which annotations lie on which level.

As the specification has it, every annotation of a level's cells is taken with the same probability, limit / (the
largest number in any cell), and the others go on to the cells below. The chance is a hash of the id, so that the result
depends on nothing but the annotations and the seed. What extends over several cells lies on one level, in each of the
cells that it meets.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zvcore.precomputed.annotation_boxes import bounds_of, meet_box
from zvcore.precomputed.annotation_records import taken
from zvcore.precomputed.mixing import mixed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zvcore.precomputed.annotation_records import Columns, RecordForm
    from zvcore.precomputed.annotation_spool import Block

__all__ = [
    "MARGIN", "MOST_CELLS", "Frame", "Level", "expanded", "members_of", "name_of", "numbers_of", "plan_levels", "ranks",
]  # fmt: skip

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

# An annotation that meets more cells than that stays on the level above.
MOST_CELLS = 64
# How often an axis is halved, and all axes together.
_MOST_BITS = 20
_MOST_BITS_TOGETHER = 60
# After so many levels on which the fullest cell stayed as full, a look is taken whether it can be split at all.
_PATIENCE = 3
MARGIN = 1e-6
# Above every chance.
_CERTAIN = 2.0
# How many cells are listed at once.
_ROWS = 1 << 16


def chances(ids: U64, seed: int) -> F64:
    """A number from 0 to 1 for each id: as good as random, and always the same."""
    return (mixed(ids, seed) >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(frozen=True)
class Frame:
    """What all levels have in common.

    sizes  of one cell at the coarsest level along each axis, in units that can be compared
    """

    form: RecordForm
    lower: F64
    upper: F64
    sizes: F64
    seed: int

    @classmethod
    def of(cls, form: RecordForm, dimensions: Sequence[tuple[float, str]], lower: F64, upper: F64, seed: int) -> Frame:
        scales = np.array([scale for scale, _ in dimensions], np.float64)
        sizes = (upper - lower) * np.where(scales > 0, scales, 1.0)
        # A second is no longer or shorter than a metre: other units are halved along with the first.
        same = np.array([unit == dimensions[0][1] for _, unit in dimensions], np.bool_)
        return cls(form, lower, upper, np.where(same, sizes, sizes[same].max(initial=0)), seed)

    def halved(self, bits: Sequence[int]) -> tuple[int, ...] | None:
        """The next finer grid: the longest sides of a cell are halved; None where nothing more can be."""
        sizes = self.sizes / 2.0 ** np.array(bits)
        able = np.array([bit < _MOST_BITS for bit in bits]) & (sizes > 0)
        if not able.any() or sum(bits) + len(bits) > _MOST_BITS_TOGETHER:
            return None
        longest = sizes[able].max()
        return tuple(bit + int(ok and size * 2**0.5 > longest) for bit, ok, size in zip(bits, able, sizes, strict=True))

    def cell_size(self, bits: Sequence[int]) -> F64:
        return (self.upper - self.lower) / 2.0 ** np.array(bits)


@dataclass(frozen=True)
class Level:
    """One level: those annotations whose chance is from `since` to `until`, and those too large for the next.

    bits   how often each axis is halved
    limit  how many annotations its fullest cell is meant to have
    finer  the grid of the next level; None for the last
    """

    bits: tuple[int, ...]
    since: float
    until: float
    limit: int
    finer: tuple[int, ...] | None
    taken: int = 0

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple(1 << bit for bit in self.bits)


@dataclass
class _Remaining:
    """Annotations that lie on none of the levels so far, with the cells that their bounds meet."""

    rows: npt.NDArray[np.intp]
    columns: Columns
    chance: F64
    first: I64
    counts: I64

    def only(self, keep: npt.NDArray[np.bool_]) -> _Remaining:
        return _Remaining(
            self.rows[keep], taken(self.columns, keep), self.chance[keep], self.first[keep], self.counts[keep]
        )


def _remaining(frame: Frame, block: Block, since: float, bits: Sequence[int], until: float = _CERTAIN) -> _Remaining:
    """Those of a block whose chance is from `since` to `until`."""
    chance = chances(block.ids, frame.seed)
    rows = np.flatnonzero((chance >= since) & (chance < until))
    columns = frame.form.positions(block.records)
    if len(rows) < len(block):
        columns, chance = taken(columns, rows), chance[rows]
    first, counts = _reach(frame, columns, bits)
    found = _Remaining(rows, columns, chance, first, counts)
    if frame.form.type == "point" or not any(bits):
        return found
    return found.only(_small(counts))


def _small(counts: I64) -> npt.NDArray[np.bool_]:
    """Whose bounds meet few cells."""
    found: npt.NDArray[np.bool_] = counts.astype(np.float64).prod(axis=1) <= MOST_CELLS
    return found


def _reach(frame: Frame, columns: Columns, bits: Sequence[int]) -> tuple[I64, I64]:
    """(first cell, number of cells) along each axis that the bounds of each annotation meet."""
    low, high = bounds_of(frame.form.type, columns)
    size, last = frame.cell_size(bits), 2 ** np.array(bits, np.int64) - 1

    def cell(corner: F64) -> I64:
        # The bounds hold everything: nothing is negative, so that cutting off fractions rounds down.
        places = corner - frame.lower
        places /= size
        return np.minimum(places.astype(np.int64), last)

    first = cell(low)
    if high is low:
        return first, np.ones((len(first), 1), np.int64)
    return first, cell(high) - first + 1


def _cells(frame: Frame, found: _Remaining, bits: Sequence[int]) -> Iterator[tuple[npt.NDArray[np.intp], I64]]:
    """(rows of `found`, cells) for each cell that an annotation meets, some at a time."""
    if frame.form.type == "point" or not any(bits):
        yield np.arange(len(found.rows)), found.first
        return
    size = frame.cell_size(bits)
    many = found.counts.prod(axis=1)
    for rows, cells in expanded(found.first, found.counts, many):
        meets = many[rows] == 1
        several = np.flatnonzero(~meets)
        if len(several) and frame.form.type != "axis_aligned_bounding_box":
            # Somewhat more, so that nothing falls between two cells by rounding.
            low = frame.lower + (cells[several] - MARGIN) * size
            high = frame.lower + (cells[several] + 1 + MARGIN) * size
            meets[several] = meet_box(frame.form.type, taken(found.columns, rows[several]), low, high)
        else:
            meets[several] = True
        yield rows[meets], cells[meets]


def expanded(first: I64, counts: I64, many: I64) -> Iterator[tuple[npt.NDArray[np.intp], I64]]:
    """Every cell of every box of cells."""
    ends = np.cumsum(many)
    bounds = np.searchsorted(ends, np.arange(0, int(ends[-1]) if len(ends) else 0, _ROWS), "left").tolist()
    for a, b in itertools.pairwise([*dict.fromkeys([0, *bounds]), len(many)]):
        rows = np.repeat(np.arange(a, b), many[a:b])
        number = np.arange(len(rows)) - np.repeat(ends[a:b] - many[a:b] - (ends[a - 1] if a else 0), many[a:b])
        cells = np.empty((len(rows), first.shape[1]), np.int64)
        for axis in range(first.shape[1] - 1, -1, -1):
            number, cells[:, axis] = np.divmod(number, counts[rows, axis])
        yield rows, cells + first[rows]


def numbers_of(cells: I64, bits: Sequence[int]) -> U64:
    """The number of each cell, counted through the grid."""
    found = np.zeros(len(cells), np.uint64)
    for axis, bit in enumerate(bits):
        found = (found << np.uint64(bit)) | cells[:, axis].astype(np.uint64)
    return found


class _Counter:
    """How many annotations lie in each of the fullest cells of a level.

    A cell below has no more of them than the one around it. So where these have no more than the limit, neither have
    those below: only cells in full ones are counted, of which there are few, however many annotations there are.
    """

    def __init__(self, full: U64 | None) -> None:
        # Cells of the level above; None: everything is counted.
        self.full = full
        self.numbers = np.empty(0, np.uint64)
        self.counts = np.empty(0, np.int64)

    def add(self, numbers: U64, above: U64) -> None:
        if self.full is not None:
            if not len(self.full):
                return
            places = np.minimum(np.searchsorted(self.full, above), len(self.full) - 1)
            numbers = numbers[self.full[places] == above]
        found, counts = np.unique(numbers, return_counts=True)
        both, places = np.unique(np.concatenate([self.numbers, found]), return_inverse=True)
        self.counts = np.bincount(places, np.concatenate([self.counts, counts]), len(both)).astype(np.int64)
        self.numbers = both

    @property
    def most(self) -> int:
        return int(self.counts.max(initial=0))


def ranks(ids: U64, seed: int = 0) -> U64:
    """The order in which the lists of cells have annotations: that of their chances."""
    return (chances(ids, seed) * 2.0**53).astype(np.uint64)


def plan_levels(frame: Frame, blocks: Iterable[Block], limit: int, count: int) -> list[Level]:
    """The levels, the coarsest first. `blocks` is iterated once for each."""
    rank = len(frame.lower)
    bits: tuple[int, ...] = (0,) * rank
    above, full = bits, None
    since, before, patience = 0.0, 0.0, _PATIENCE
    levels: list[Level] = []
    while True:
        counter, some = _counted(frame, blocks, since, bits, above, full)
        most = counter.most
        finer = frame.halved(bits)
        chance = limit / max(most, 1)
        patience = patience - 1 if most > 0.9 * before else _PATIENCE
        before = most * (1 - min(chance, 1.0))
        stuck = patience <= 0 and not _can_split(frame, blocks, since, bits, counter)
        if chance >= 1 or finer is None or stuck:
            levels.append(Level(bits, since, _CERTAIN, max(most, 1), None, some))
            return levels
        until = since + (1 - since) * chance
        levels.append(Level(bits, since, until, limit, finer, min(some, round(count * (until - since)))))
        full = counter.numbers[counter.counts > limit]
        since, above, bits = until, bits, finer


def _counted(
    frame: Frame, blocks: Iterable[Block], since: float, bits: Sequence[int], above: Sequence[int], full: U64 | None
) -> tuple[_Counter, int]:
    counter = _Counter(full)
    shift = np.array(bits) - np.array(above)
    some = 0
    for block in blocks:
        found = _remaining(frame, block, since, bits)
        some += len(found.rows)
        for _, cells in _cells(frame, found, bits):
            counter.add(numbers_of(cells, bits), numbers_of(cells >> shift, above))
    return counter, some


def _can_split(frame: Frame, blocks: Iterable[Block], since: float, bits: Sequence[int], counter: _Counter) -> bool:
    """Whether the annotations of the fullest cell differ in their places."""
    fullest = counter.numbers[np.argmax(counter.counts)]
    corner: F64 | None = None
    for block in blocks:
        found = _remaining(frame, block, since, bits)
        low, high = bounds_of(frame.form.type, found.columns)
        for rows, cells in _cells(frame, found, bits):
            inside = rows[numbers_of(cells, bits) == fullest]
            if not len(inside):
                continue
            corner = low[inside[0]] if corner is None else corner
            if (low[inside] != corner).any() or (high[inside] != corner).any():
                return True
    return False


def members_of(frame: Frame, block: Block, level: Level) -> Iterator[tuple[npt.NDArray[np.intp], I64]]:
    """(rows of the block, cells) of those annotations that lie on a level, in each cell that they meet."""
    points = frame.form.type == "point"
    found = _remaining(frame, block, level.since, level.bits, level.until if points else _CERTAIN)
    if level.finer is not None and not points:
        _, counts = _reach(frame, found.columns, level.finer)
        found = found.only((found.chance < level.until) | ~_small(counts))
    for rows, cells in _cells(frame, found, level.bits):
        if len(rows):
            yield found.rows[rows], cells


def name_of(number: int, bits: Sequence[int]) -> str:
    """The name of a cell's file."""
    parts: list[int] = []
    for bit in reversed(bits):
        parts.append(number & ((1 << bit) - 1))
        number >>= bit
    return "_".join(map(str, reversed(parts)))
