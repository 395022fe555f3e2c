"""Shards that are replaced as a whole, written while their chunks are encoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zvcore.engine.buffers import Keys
from zvcore.engine.packer import Packer
from zvcore.placement import Packed

if TYPE_CHECKING:
    from zvcore.engine.prepared import Prepared
    from zvcore.engine.work import Work
    from zvcore.layout import Layout
    from zvcore.placement import Group
    from zvcore.transfer.batches import Positions, Rows

__all__ = ["Packing"]


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
        for group in groups:
            order = placement.pack_order(group, positions[group.rows])
            if order is not None:
                keys.append(group.key)
                rows.append(group.rows[order])
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
        ends: dict[int, tuple[bytes, bytes]] = {}
        for number, key in enumerate(self.keys):
            span = slice(int(self.bounds[number]), int(self.bounds[number + 1]))
            found = self.placement.ends(key, self.positions[self.rows[span]], sizes[span])
            if found is not None:
                ends[number] = found
        packer.finish(ends, work)
