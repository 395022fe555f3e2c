"""The fill value for more chunks than are likely to be stored: what a store lists is removed, no more is looked at."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.boxes import count_of
from zvcore.transfer.batches import BATCH_POSITIONS
from zvcore.transfer.windows import position_windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.engine.selection import Selection
    from zvcore.engine.work import Work
    from zvcore.layout import Layout, StoredObject
    from zvcore.transfer.batches import Positions

__all__ = ["clear", "is_fill"]

# How many objects are noted before they are dealt with; bounds the memory.
_NOTED = 4096


def is_fill(layout: Layout, value: npt.NDArray[Any]) -> bool:
    """Whether a value that was broadcast is the fill value throughout, and chunks of it are not stored."""
    if layout.store_empty or any(value.strides[axis] for axis, length in enumerate(value.shape) if length > 1):
        return False
    return layout.is_empty(value[(slice(0, 1),) * value.ndim])


def clear(layout: Layout, selection: Selection, work: Work, total: int) -> Iterator[Positions] | None:
    """Remove the objects of which everything is selected, and give the positions of what is to be written of others.

    None if it has to be written chunk by chunk: where a format does not list its objects, or where it is not known what
    part of an object is selected.
    """
    stored = None if selection.is_points or selection.has_lists else layout.stored_objects()
    return None if stored is None else _cleared(layout, selection, stored, work, total)


def _cleared(
    layout: Layout, selection: Selection, stored: Iterator[StoredObject], work: Work, total: int
) -> Iterator[Positions]:
    left = total
    while noted := list(islice(stored, _NOTED)):
        yield from _clear_some(layout, selection, noted)
        if work.progress is not None:
            work.progress(0, total)
        left -= len(noted)
        if left < 0:
            # Little is selected of an array of which much is stored.
            yield from position_windows(selection, layout.form.shape, BATCH_POSITIONS, layout.shard_shape)
            break
    if work.progress is not None:
        work.progress(total, total)


def _clear_some(layout: Layout, selection: Selection, stored: list[StoredObject]) -> Iterator[Positions]:
    whole, part = _chosen(layout, selection, stored)
    layout.placement.remove_all([one.key for one in whole])
    if layout.placement.alone:
        if part:
            yield _places(part, len(layout.shape))
        return
    bounds = -(-np.array(layout.shape, np.int64) // np.array(layout.form.shape, np.int64))
    for positions in layout.stored_chunks_in_each(part):
        positions = positions[(positions < bounds).all(1)]
        touched = positions[selection.touched(positions, layout.form.shape)]
        if len(touched):
            yield touched


def _chosen(
    layout: Layout, selection: Selection, stored: list[StoredObject]
) -> tuple[list[StoredObject], list[StoredObject]]:
    """Those of which everything inside the array is selected; those of which some is, or may be."""
    if not stored:
        return [], []
    ndim = len(layout.shape)
    if stored[0].place is None:
        everything = selection.covered(np.zeros((1, ndim), np.int64), tuple(max(1, n) for n in layout.shape))[0]
        return (stored, []) if everything else ([], stored)
    extent = layout.form.shape if layout.shard_shape is None else layout.shard_shape
    bounds = count_of(layout.shape, extent)
    # As Python numbers: names may have more digits than a number of 64 bits.
    stored = [one for one in stored if all(i < n for i, n in zip(one.place or (), bounds, strict=True))]
    places = _places(stored, ndim)
    touched, covered = selection.touched(places, extent), selection.covered(places, extent)
    whole = [stored[row] for row in np.flatnonzero(covered).tolist()]
    return whole, [stored[row] for row in np.flatnonzero(touched & ~covered).tolist()]


def _places(stored: list[StoredObject], ndim: int) -> Positions:
    return np.array([one.place for one in stored], np.int64).reshape(len(stored), ndim)
