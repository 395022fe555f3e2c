"""Removes what an array that became smaller leaves behind its end, so that growing does not bring it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zvcore.engine.selection import Selection
from zvcore.errors import CorruptDataError
from zvcore.transfer.writing import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zvcore.engine.work import Work
    from zvcore.layout import Layout, StoredObject

__all__ = ["clear_cut_objects", "remove_outside"]

Place = tuple[int, ...]

# How many objects are noted before they are dealt with; bounds the memory.
_NOTED = 4096


def _extent(layout: Layout) -> tuple[int, ...]:
    """The shape of what one object holds."""
    return layout.form.shape if layout.shard_shape is None else layout.shard_shape


def remove_outside(layout: Layout) -> list[StoredObject]:
    """Remove the objects, of those in the store, that lie outside of the array; those that its end cuts."""
    extent = _extent(layout)
    outside: list[str] = []
    cut: list[StoredObject] = []

    for stored in layout.stored_objects() or ():
        key, place = stored
        assert place is not None
        if any(i * size >= bound for i, size, bound in zip(place, extent, layout.shape, strict=True)):
            outside.append(key)
            if len(outside) == _NOTED:
                layout.placement.remove_all(outside)
                outside = []
        elif any((i + 1) * size > bound for i, size, bound in zip(place, extent, layout.shape, strict=True)):
            cut.append(stored)
    layout.placement.remove_all(outside)
    return cut


def clear_cut_objects(
    layout: Layout,
    cut: Iterable[StoredObject],
    axes: Iterable[int],
    widened: Callable[[Place], Layout],
    work: Work,
) -> None:
    """Give what lies behind the array's end along these axes, in objects that the end cuts, the fill value.

    `widened` gives the layout of the same array with another shape. An object that cannot be read is left as it is: it
    cannot be read when the array has grown again either.
    """
    extent = np.array(_extent(layout), np.int64)
    whole = -(-np.array(layout.shape, np.int64) // extent) * extent
    wide = widened(tuple(whole.tolist()))
    fill = np.array(layout.fill_value, layout.form.dtype)

    def clear(stored: StoredObject) -> None:
        first = np.array(stored.place, np.int64) * extent
        try:
            # Its index, if it has one, is looked at before anything is made as large as the array claims to be.
            wide.locate((first // np.array(layout.form.shape, np.int64)).reshape(1, -1))
            for axis in axes:
                bound = layout.shape[axis]
                if first[axis] + extent[axis] <= bound:
                    continue
                starts = first.tolist()
                starts[axis] = bound
                region = tuple(slice(a, b) for a, b in zip(starts, (first + extent).tolist(), strict=True))
                selection = Selection.basic(region, wide.shape)
                write(wide, selection, np.broadcast_to(fill, selection.result_shape), work)
        except CorruptDataError:
            return

    layout.store.each(clear, list(cut))
