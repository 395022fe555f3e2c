"""Whether what extends over several cells of a level stands in all of them, and once in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.precomputed.annotation_levels import MARGIN
from zvcore.precomputed.annotation_lists import whole_lists
from zvcore.precomputed.entries import Entries, nothing_before
from zvcore.precomputed.mixing import SECRET, mixed
from zvcore.precomputed.shard_reader import group_starts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.precomputed.annotation_places import Places
    from zvcore.precomputed.annotation_records import Records
    from zvcore.precomputed.external_sort import ExternalSort

__all__ = ["Standing", "standing", "standings"]

U64 = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

# A cell, and whether an annotation is listed there (0) or meant to be (1).
_ROW = np.dtype([("cell", "<u8"), ("meant", "u1")])
# How many annotations are held against all cells that they meet at once.
_ROWS = 1 << 13


@dataclass
class Standing:
    """Annotations of a level, in ascending order of their ids.

    torn      which of them are not in all cells in which they lie, and
    repeated  which stand in one of them more than once
    """

    ids: U64
    torn: Flags
    repeated: Flags


def standings(places: Places, owners: npt.NDArray[Any], ids: U64, records: Records) -> Iterator[Entries]:
    """For `standing`: in which cells annotations are, and in which of them they have to be. At the border of a cell,
    each of its sides is right.
    """
    yield _rows(ids, owners, 0)
    _, firsts = np.unique(ids, return_index=True)
    for first in range(0, len(firsts), _ROWS):
        some = firsts[first : first + _ROWS]
        rows, cells = places.met(records.take(some), -MARGIN)
        yield _rows(ids[some[rows]], cells, 1)


def _rows(ids: U64, cells: npt.NDArray[Any], meant: int) -> Entries:
    count = len(ids)
    data = np.empty(count, _ROW)
    # A cell is told apart from others by a hash, however large the grid is.
    cell = np.zeros(count, np.uint64)
    for axis in range(cells.shape[1]):
        cell = mixed(cell ^ cells[:, axis].astype(np.uint64), SECRET)
    data["cell"], data["meant"] = cell, meant
    nothing, sizes = np.zeros(count, np.uint64), np.full(count, _ROW.itemsize, np.uint64)
    return Entries(nothing, np.ascontiguousarray(ids), nothing_before(count), sizes, data.view(np.uint8))


def standing(sort: ExternalSort) -> Iterator[Standing]:
    """Each annotation once, in order of their ids."""
    for entries in whole_lists(sort.merged()):
        rows = entries.data.view(_ROW)
        order = np.lexsort((rows["cell"], entries.ids))
        rows, ids = rows[order], entries.ids
        # Each annotation in each cell, then each annotation.
        pairs = np.concatenate(
            [[0], np.flatnonzero((ids[1:] != ids[:-1]) | (rows["cell"][1:] != rows["cell"][:-1])) + 1]
        )
        listed = np.add.reduceat((rows["meant"] == 0).astype(np.int64), pairs)
        firsts = group_starts(ids[pairs])
        torn, repeated = (np.logical_or.reduceat(wrong, firsts) for wrong in (listed == 0, listed > 1))
        yield Standing(ids[pairs][firsts], torn, repeated)
