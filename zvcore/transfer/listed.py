"""Reading of many chunks of which few are stored: those that the store lists are looked for, and no others.

A listing may miss an object that is replaced meanwhile, so this is for looking at data, as pictures do, not for data.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import UnsupportedError
from zvcore.transfer.batches import Steps
from zvcore.transfer.reading import read, read_positions

if TYPE_CHECKING:
    import numpy.typing as npt

    from zvcore.engine.selection import Selection
    from zvcore.engine.work import Work
    from zvcore.layout import Layout, StoredObject
    from zvcore.transfer.batches import Positions

__all__ = ["read_listed"]

# Fewer chunks are looked for one by one.
_FEW = 1 << 12
# A store that lists more objects than one for so many chunks is not a sparse one.
_SPARSE = 4


def read_listed(layout: Layout, selection: Selection, out: npt.NDArray[Any], work: Work) -> None:
    """`read`, in proportion to what is stored where the selection touches much more than that."""
    total = math.prod(selection.chunk_counts(layout.form.shape))
    positions = _listed(layout, selection, total) if total > _FEW else None
    if positions is None:
        read(layout, selection, out, work)
        return
    out[...] = layout.fill_value
    if len(positions):
        read_positions(layout, selection, positions, out, Steps(work, len(positions)))


def _listed(layout: Layout, selection: Selection, total: int) -> Positions | None:
    """The chunks that are touched and that the store lists; None where it lists too many of them, or cannot tell."""
    found: list[Positions] = [np.zeros((0, len(layout.shape)), np.int64)]
    most = total // _SPARSE
    count = 0
    try:
        stored = None if selection.is_points or selection.has_lists else layout.stored_objects()
        if stored is None:
            return None
        while noted := list(islice(stored, _FEW)):
            count += len(noted)
            if count > most:
                return None
            found += _touched(layout, selection, noted)
    except UnsupportedError:
        return None  # the store cannot be listed
    return np.concatenate(found)


def _touched(layout: Layout, selection: Selection, stored: list[StoredObject]) -> list[Positions]:
    alone = layout.placement.alone
    extent = layout.form.shape if alone or layout.shard_shape is None else layout.shard_shape
    bounds = [-(-n // m) for n, m in zip(layout.shape, extent, strict=True)]
    # As Python numbers: names may have more digits than a number of 64 bits.
    there = [one for one in stored if one.place is None or all(i < n for i, n in zip(one.place, bounds, strict=True))]
    if there and there[0].place is not None:
        places = np.array([one.place for one in there], np.int64).reshape(len(there), len(bounds))
        rows = np.flatnonzero(selection.touched(places, extent))
        if alone:
            return [places[rows]]
        there = [there[row] for row in rows.tolist()]
    chunks = np.array([-(-n // m) for n, m in zip(layout.shape, layout.form.shape, strict=True)], np.int64)
    parts = []
    for positions in layout.stored_chunks_in_each(there):
        positions = positions[(positions < chunks).all(1)]
        parts.append(positions[selection.touched(positions, layout.form.shape)])
    return parts
