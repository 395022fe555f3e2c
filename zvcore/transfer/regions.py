"""Many regions of an array, read or written together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from zvcore.engine.narrowing import narrowed
from zvcore.engine.regions import Regions, parts_of_regions
from zvcore.engine.regions import read_regions as _read_regions
from zvcore.engine.write_regions import encode_regions
from zvcore.errors import CorruptDataError
from zvcore.stores.locks import held_locks
from zvcore.transfer.assignment import Assignment, check_writable, refuse_unfit_fill
from zvcore.transfer.batches import BATCH_CHUNKS, Steps
from zvcore.transfer.reading import read, read_in_windows
from zvcore.transfer.writing import putting_back, write, write_chunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from zvcore.engine.chunks import Chunks
    from zvcore.engine.selection import Selection
    from zvcore.engine.sinks import Sink
    from zvcore.engine.sources import Sources
    from zvcore.engine.work import Work
    from zvcore.layout import Layout
    from zvcore.transfer.batches import Rows

__all__ = ["read_regions", "write_regions"]


def read_regions(layout: Layout, selections: Sequence[Selection], outs: Sequence[npt.NDArray[Any]], work: Work) -> bool:
    """`read` of many selections of integers and slices: a chunk that several of them touch is fetched and decoded once.

    Those that have very many chunks, or chunks that only Python can make values of, are read one after the other.
    """
    regions = _together(layout, selections, outs, writable=True)
    if regions is None:
        known = [read(layout, selection, out, work) for selection, out in zip(selections, outs, strict=True)]
        return all(known)
    if held_locks:
        work = work.unwatched()
    count = len(regions.positions)
    if not count:
        return False
    try:
        return read_in_windows(layout, regions.positions, _Into(layout, regions), Steps(work, count), by_rows=True)
    except CorruptDataError as error:
        raise layout.store.explained(error)


def write_regions(
    layout: Layout, selections: Sequence[Selection], values: Sequence[npt.NDArray[Any]], work: Work
) -> None:
    """`write` of many selections of integers and slices, one after the other as it were: of a chunk that several of
    them touch, what is stored is read and replaced once.
    """
    check_writable(layout)
    if layout.refuse_unfit is not None:
        for value in values:
            layout.refuse_unfit(value)
    regions = _together(layout, selections, values, writable=False) if len(selections) > 1 else None
    if regions is None:
        for selection, value in zip(selections, values, strict=True):
            write(layout, selection, value, work)
    elif len(regions.positions):
        assignment = _ToRegions.of(layout, regions, work)
        putting_back(layout, lambda: write_chunks(assignment, Steps(work, len(regions.positions))))


def _together(
    layout: Layout, selections: Sequence[Selection], values: Sequence[npt.NDArray[Any]], writable: bool
) -> Regions | None:
    """None where they are better read or written one after the other."""
    form = layout.prepared.form
    if layout.value_codec is not None or form is None:
        return None
    return Regions.of([*selections], [*values], form, layout.form.shape, BATCH_CHUNKS, writable)


@dataclass(frozen=True)
class _ToRegions(Assignment):
    """The values of all regions that touch a chunk; those of later ones lie upon those of earlier ones."""

    regions: Regions

    @classmethod
    def of(cls, layout: Layout, regions: Regions, work: Work) -> _ToRegions:
        covered = regions.covered()
        if layout.refuse_unfit is not None and not covered.all():
            refuse_unfit_fill(layout, regions.positions[~covered])
        return cls(layout, work, regions.positions, covered, regions)

    def _rows(self, rows: Rows) -> Rows:
        return rows

    def _encode_chunks(self, chunks: Chunks, sink: Sink, work: Work) -> None:
        encode_regions(chunks, self.regions, sink, work)


@dataclass(frozen=True)
class _Into:
    """Each chunk is read into all regions that it is part of."""

    layout: Layout
    regions: Regions

    def narrowed(self, chunks: Chunks) -> Sources:
        return narrowed(self.layout.store, chunks, partial(parts_of_regions, regions=self.regions))

    def take(self, chunks: Chunks, work: Work) -> bool:
        return _read_regions(chunks, self.regions, work)
