"""Many regions of an array, read together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from zvcore.engine.narrowing import narrowed
from zvcore.engine.regions import Regions, parts_of_regions
from zvcore.engine.regions import read_regions as _read_regions
from zvcore.errors import CorruptDataError
from zvcore.stores.locks import held_locks
from zvcore.transfer.batches import BATCH_CHUNKS, Steps
from zvcore.transfer.reading import read, read_in_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from zvcore.engine.chunks import Chunks
    from zvcore.engine.selection import Selection
    from zvcore.engine.sources import Sources
    from zvcore.engine.work import Work
    from zvcore.layout import Layout

__all__ = ["read_regions"]


def read_regions(layout: Layout, selections: Sequence[Selection], outs: Sequence[npt.NDArray[Any]], work: Work) -> bool:
    """`read` of many selections of integers and slices: a chunk that several of them touch is fetched and decoded once.

    Those that have very many chunks, or chunks that only Python can make values of, are read one after the other.
    """
    regions = None
    if layout.value_codec is None:
        form = layout.prepared.form
        assert form is not None
        regions = Regions.of([*selections], [*outs], form, layout.form.shape, BATCH_CHUNKS)
    if regions is None:
        return all([read(layout, selection, out, work) for selection, out in zip(selections, outs, strict=True)])
    if held_locks:
        work = work.unwatched()
    count = len(regions.positions)
    if not count:
        return False
    try:
        return read_in_windows(layout, regions.positions, _Into(layout, regions), Steps(work, count), by_rows=True)
    except CorruptDataError as error:
        raise layout.store.explained(error)


@dataclass(frozen=True)
class _Into:
    """Each chunk is read into all regions that it is part of."""

    layout: Layout
    regions: Regions

    def narrowed(self, chunks: Chunks) -> Sources:
        return narrowed(self.layout.store, chunks, partial(parts_of_regions, regions=self.regions))

    def take(self, chunks: Chunks, work: Work) -> bool:
        return _read_regions(chunks, self.regions, work)
