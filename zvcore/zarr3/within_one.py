"""Reads within one chunk of zarr-python's, such as inner chunks of a shard: over before putting together pays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore import transfer
from zvcore.engine import Selection, Work

if TYPE_CHECKING:
    from zvcore.layout import Layout

__all__ = ["WithinOne"]


class WithinOne:
    """An array in a folder, whose layout and names of chunks are known from an earlier read.

    root       where the store was then
    before     what stands before the numbers of a chunk in its path
    extents    of zarr-python's chunks
    """

    def __init__(self, layout: Layout, root: Any, before: str, separator: str, extents: tuple[int, ...]) -> None:
        self.layout = layout
        self.root = root
        self.before = before
        self.separator = separator
        self.extents = extents

    def read(self, item: tuple[Any, ...], out: Any, most: int) -> bool:
        """Whether this one item of a batch was slices of a chunk, of at most so many bytes, and is now in `out`."""
        getter, _, within, outside = item[:4]
        path = getter.path
        layout = self.layout
        if not path.startswith(self.before) or not isinstance(within, tuple) or not isinstance(outside, tuple):
            return False
        target = out.as_ndarray_like()
        if type(target) is not np.ndarray or target.nbytes > most or target.dtype != layout.form.dtype:
            return False
        if not target.dtype.isnative or not len(self.extents) == len(within) == len(outside) == target.ndim:
            return False
        places = path[len(self.before) :].split(self.separator)
        if len(places) != target.ndim:
            return False
        key = []
        for place, extent, bound, one, to, size in zip(
            places, self.extents, layout.shape, within, outside, target.shape, strict=True
        ):
            if type(one) is not slice or type(to) is not slice or one.step not in (None, 1):
                return False
            start = int(place) * extent
            if one.stop - one.start != size or to.start or start + one.stop > bound:
                return False
            key.append(slice(start + one.start, start + one.stop))
        transfer.read(layout, Selection.basic(tuple(key), layout.shape), target, Work())
        return True
