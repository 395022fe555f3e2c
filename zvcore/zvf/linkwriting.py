"""Links that join the pieces of lines across chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.zvf.links import Links, offsets_segment

if TYPE_CHECKING:
    from zvcore.zvf.batches import Spool
    from zvcore.zvf.building import LevelBuilder

__all__ = ["LinkCollector"]

Ints = npt.NDArray[np.int64]


class LinkCollector:
    """Links between two vertices of different chunks, in the order in which they came."""

    def __init__(self, ndim: int, spool: Spool) -> None:
        self.ndim = ndim
        self._spool = spool
        self._parts: list[Ints] = []
        self.count = 0

    def add(self, from_chunk: Ints, from_row: Ints, to_chunk: Ints, to_row: Ints) -> None:
        """Links in the direction in which the lines run."""
        if not len(from_row):
            return
        # Each link is filed under the endpoint that comes first by chunk; whether that changed its direction is kept.
        swap = np.zeros(len(from_row), bool)
        decided = np.zeros(len(from_row), bool)
        for axis in range(self.ndim):
            swap |= ~decided & (to_chunk[:, axis] < from_chunk[:, axis])
            decided |= to_chunk[:, axis] != from_chunk[:, axis]
        flip = swap[:, None]
        first = np.where(flip, to_chunk, from_chunk)
        offset = np.where(flip, from_chunk, to_chunk) - first
        rows = np.where(flip, np.stack([to_row, from_row], 1), np.stack([from_row, to_row], 1))
        records = np.concatenate([offset, first, swap[:, None], rows], 1).astype(np.int64)
        self._parts.append(self._spool.put_aside(records) if records.nbytes > 1 << 20 else records)
        self.count += len(records)

    def add_links(self, links: Links) -> None:
        """Links that were read from a level."""
        for rows in np.array_split(np.arange(len(links)), max(len(links) >> 20, 1)):
            chunks, vertices = links.chunks[rows], links.vertices[rows]
            self.add(chunks[:, 0], vertices[:, 0], chunks[:, 1], vertices[:, 1])

    def write(self, builder: LevelBuilder) -> None:
        """All links as arrays, one for each way in which they reach across chunks."""
        if not self.count:
            return
        d = self.ndim
        records = self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts)
        offsets, inverse = np.unique(records[:, :d], axis=0, return_inverse=True)
        order = np.argsort(inverse.reshape(-1), kind="stable")
        bounds = np.searchsorted(inverse.reshape(-1)[order], np.arange(len(offsets) + 1))
        builder.group("links")
        builder.group("links/0", {
            "zv_array": "links_family", "level_delta": 0, "link_width": 2, "directed": False, "store": "canonical",
            "sid_ndim": d, "num_links": self.count, "num_physical_records": self.count,
        })  # fmt: skip
        for i, offset in enumerate(offsets.tolist()):
            mine = np.asarray(records[order[bounds[i] : bounds[i + 1]]])
            self._write_array(builder, offset, mine)

    def _write_array(self, builder: LevelBuilder, offset: list[int], records: Ints) -> None:
        d = self.ndim
        attributes: dict[str, Any] = {
            "zv_array": "links", "dtype": "int64", "offsets": [offset], "has_perm": True, "link_width": 2,
            "level_delta": 0,
        }  # fmt: skip
        chunks, which = np.unique(records[:, d : 2 * d], axis=0, return_inverse=True)
        order = np.argsort(which.reshape(-1), kind="stable")
        bounds = np.searchsorted(which.reshape(-1)[order], np.arange(len(chunks) + 1))
        head = np.array([1, 0], "<i8").tobytes()
        with builder.cells(f"links/0/{offsets_segment([offset])}", attributes) as writer:
            for k in builder.order(chunks).tolist():
                rows = records[order[bounds[k] : bounds[k + 1]], 2 * d :]
                writer.add(chunks[k].tolist(), head + np.ascontiguousarray(rows, "<i8").tobytes())
