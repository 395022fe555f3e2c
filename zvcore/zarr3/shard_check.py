"""Checking one shard entry by entry: what is wrong with its index, and how its bytes are used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.care.intervals import covered, overlaps
from zvcore.engine import ABSENT
from zvcore.errors import ZvcoreError
from zvcore.report import Problem, Report, What
from zvcore.zarr3.shard_index import unfinished_index

if TYPE_CHECKING:
    from zvcore.zarr3.sharding import ShardLayout

__all__ = ["ShardExamination", "examine_shard"]

Ints = npt.NDArray[np.int64]
Uints = npt.NDArray[np.uint64]

_NONE = np.uint64(ABSENT)


@dataclass
class ShardExamination:
    """What was found in a shard with a single level.

    readable   whether the index can be trusted at all; None of the rest means anything without it
    slots      which cells of the index have a chunk that lies within the data
    positions  the chunks' places in the array's grid, one row per slot
    offsets    where they lie, and
    lengths    how long they are
    dead       bytes that belong to no chunk
    tangled    which chunks share some of their bytes with others
    """

    key: str
    size: int
    stamp: Any
    report: Report
    readable: bool = False
    slots: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    positions: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    offsets: Uints = field(default_factory=lambda: np.zeros(0, np.uint64))
    lengths: Uints = field(default_factory=lambda: np.zeros(0, np.uint64))
    dead: int = 0
    tangled: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))


def examine_shard(layout: ShardLayout, key: str, shard: tuple[int, ...]) -> ShardExamination | None:
    """Check the index of a shard; None if there is no such object."""
    store, level = layout.store, layout.levels[0]
    form = level.form
    end = store.snapshot(key, *form.span)
    if end is None:
        return None
    raw, size = end.data, end.size
    report = Report()
    found = ShardExamination(key, size, end.stamp, report)
    seen = None if form.proves_itself else unfinished_index(store, form, key)
    try:
        if seen is None:
            offsets, lengths = form.read(raw, size, key)
    except ZvcoreError as error:
        seen = unfinished_index(store, form, key)
        if seen is None:
            report.tell(Problem.of(error, key, kind=What.INDEX))
            return found
    if seen is not None:
        what = "a writer has not finished a change, or died during it; the next one repairs it"
        report.add(key, what, fatal=False, kind=What.UNFINISHED)
        raw, size = seen
        found.size = size
        offsets, lengths = form.read(raw, size, key)
    found.readable = True
    wrong = np.zeros(form.count, np.bool_)
    cells = cell_positions(layout, shard)
    index_at = form.begins(size)
    for entry in form.wrong(offsets, lengths, size):
        wrong[entry] = True
        fault = form.fault(entry, offsets, lengths, size, key)
        fault.chunk = tuple(cells[entry].tolist())
        fault.located(offset=index_at + 16 * entry, length=16)
        report.tell(Problem.of(fault, key, kind=What.INDEX_ENTRY))
    found.slots = np.flatnonzero(~wrong & (lengths != _NONE))
    found.positions = cells[found.slots]
    found.offsets, found.lengths = offsets[found.slots], lengths[found.slots]
    found.dead = size - form.size - covered(found.offsets, found.offsets + found.lengths)
    _tell_overlaps(found)
    return found


def cell_positions(layout: ShardLayout, shard: tuple[int, ...]) -> Ints:
    """The places in the array's grid of the cells of a shard, in the order of its index."""
    level = layout.levels[0]
    cells = level.cells_of(np.arange(level.form.count))
    return cells + np.array(shard, np.int64) * np.array(level.cells, np.int64)


def _tell_overlaps(found: ShardExamination) -> None:
    """Chunks that share all their bytes are odd; those that share some cannot both be right."""
    found.tangled = np.zeros(len(found.lengths), np.bool_)
    rows = np.flatnonzero(found.lengths > 0)
    begins = found.offsets[rows]
    for one in overlaps(begins, begins + found.lengths[rows]):
        row, last = rows[one.row], rows[one.other]
        other = tuple(found.positions[last].tolist())
        found.tangled[[row, last]] |= not one.same
        found.report.add(
            found.key, f"the chunk {'has the very bytes of' if one.same else 'shares bytes with'} chunk {other}",
            chunk=tuple(found.positions[row].tolist()), offset=int(found.offsets[row]),
            length=int(found.lengths[row]), fatal=not one.same, kind=What.OVERLAP,
            expected=None if one.same else f"a start at or after byte {one.reach}",
        )  # fmt: skip
