"""The two steps, cut into units: the pieces of each box, and the objects of each batch of segments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore.errors import CorruptDataError
from zvcore.forging.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from zvcore.forging.craft import Craft
    from zvcore.forging.spool import Listed
    from zvcore.precomputed.sharding_spec import ShardingSpec
    from zvcore.stores import Store

__all__ = ["Cutting", "Joining", "arranged"]

# Objects in files of their own are joined in batches of pieces of about so many bytes.
_BATCH_BYTES = 32 << 20
# What the levels and fragments of an object take besides its pieces, and what is sorted in memory.
_TIMES = 8
_SORTED = 64 << 20


@dataclass(frozen=True)
class Cutting:
    """Units are the boxes of the volume."""

    craft: Craft[Any]
    store: Store
    spread = False

    def __len__(self) -> int:
        return len(self.craft.grid)

    @property
    def unit_memory(self) -> int:
        return self.craft.unit_memory

    def run(self, unit: int, threads: int | None) -> dict[str, int]:
        """What was counted."""
        return {"pieces": Spool(self.store).put(unit, self.craft.cut(unit, threads))}


@dataclass(frozen=True)
class Joining:
    """Units are batches of segments: those of a shard, or some.

    largest  the bytes of all pieces of the segment that has most
    """

    craft: Craft[Any]
    store: Store
    spec: ShardingSpec | None
    batches: int
    largest: int
    spread = False

    def __len__(self) -> int:
        return self.batches

    @property
    def unit_memory(self) -> int:
        return _TIMES * self.largest + _SORTED

    def run(self, unit: int, threads: int | None) -> dict[str, int]:
        """What was counted."""
        counts = {self.craft.what: 0, "segments of which nothing was left": 0}

        def objects() -> Iterator[tuple[int, Any]]:
            for id, pieces in Spool(self.store).batch(unit, self.batches):
                try:
                    made = self.craft.join(pieces)
                except CorruptDataError as error:
                    raise error.located(key=self.store.root, chunk=id)
                counts[self.craft.what if made is not None else "segments of which nothing was left"] += 1
                if made is not None:
                    yield id, made

        self.craft.write(self.store, self.spec, objects())
        return counts


def arranged(spec: ShardingSpec | None, listed: Listed) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """(the order in which segments are joined, where in it batches begin and the last ends): a shard is a batch."""
    if spec is None:
        order = np.argsort(listed.ids)
        ends = np.cumsum(listed.sizes[order], dtype=np.uint64)
        batch = (ends - listed.sizes[order]) // np.uint64(_BATCH_BYTES)
    else:
        hashes = spec.hashes(listed.ids)
        order = np.lexsort((listed.ids, hashes))
        batch = spec.split(hashes[order])[0]
    edges = np.flatnonzero(batch[1:] != batch[:-1]) + 1
    return order, np.array([0, *edges.tolist(), len(order)] if len(order) else [0], np.intp)
