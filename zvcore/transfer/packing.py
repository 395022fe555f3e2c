"""Shards that are replaced as a whole, written while their chunks are encoded."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zvcore.engine.buffers import Keys
from zvcore.engine.packer import Packer
from zvcore.placement import Packed
from zvcore.transfer.batches import windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.engine.prepared import Prepared
    from zvcore.engine.work import Work
    from zvcore.layout import Layout
    from zvcore.placement import Group
    from zvcore.transfer.batches import Positions, Rows

__all__ = ["Packing", "abandoning"]

# Of what stands before and behind the chunks of shards, how much is held at once.
END_BYTES = 16 << 20


@dataclass(frozen=True)
class Packing:
    """Shards and the chunks that will lie in them, one after the other.

    rows      of `positions`: the chunks in this order
    bounds    the chunks of shard i are rows[bounds[i]:bounds[i + 1]]
    """

    prepared: Prepared
    placement: Packed
    positions: Positions
    keys: list[str]
    rows: Rows
    bounds: npt.NDArray[np.int64]

    @classmethod
    def of(cls, layout: Layout, positions: Positions, groups: list[Group]) -> Packing | None:
        """The shards among these that can be written this way; None if there are none. Called within their edits."""
        placement = layout.placement
        if layout.store.local_root is None or layout.value_codec is not None or not isinstance(placement, Packed):
            return None
        keys: list[str] = []
        rows: list[Rows] = []
        for group, order in zip(groups, placement.pack_orders(groups, positions), strict=True):
            if order is not None:
                keys.append(group.key)
                rows.append(order)
        if not keys:
            return None
        bounds = np.cumsum([0, *(len(own) for own in rows)])
        return cls(layout.prepared, placement, positions, keys, np.concatenate(rows), bounds)

    def packer(self, order: Rows, work: Rows | None = None, work_bounds: Rows | None = None) -> Packer:
        """What takes the encoded chunks; `order` gives the number that the engine has for each of `rows`."""
        keys = Keys.of(self.keys)
        return Packer(keys, self.prepared, order, self.bounds, self.placement.pack_head, work, work_bounds)

    def finish(self, packer: Packer, sizes: npt.NDArray[np.uint64], work: Work) -> None:
        """Put the shards in their places. `sizes` are those of the encoded chunks, one for each of `rows`."""
        at_once = max(1, END_BYTES // max(1, self.placement.end_bytes))
        for shards in windows(len(self.keys), at_once):
            bounds = self.bounds[shards.start : shards.stop + 1]
            chunks = slice(int(bounds[0]), int(bounds[-1]))
            own = self.positions[self.rows[chunks]]
            ends = self.placement.ends(self.keys[shards], own, sizes[chunks], bounds - bounds[0])
            found = {number: both for number, both in enumerate(ends, shards.start) if both is not None}
            packer.finish(found, work)


@contextmanager
def abandoning() -> Iterator[None]:
    """What functions called within have begun to pack leaves no temporary files behind if they fail.

    A packer removes its files when it goes, and whoever keeps the error keeps the frames that have it.
    """
    try:
        yield
    except BaseException as error:
        waiting: list[BaseException | None] = [error]
        seen: set[int] = set()
        while waiting:
            one = waiting.pop()
            if one is None or id(one) in seen:
                continue
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            waiting += [one.__cause__, one.__context__]
        raise
