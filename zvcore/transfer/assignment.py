"""New values for a selection of items, and the encoded chunks that they make."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.engine.chunks import Chunks
from zvcore.engine.fetching import reachable
from zvcore.engine.read import fetch_chunks
from zvcore.engine.sinks import Files, Gathered
from zvcore.engine.sources import ABSENT
from zvcore.engine.write import encode_chunks, encode_many
from zvcore.errors import ReadOnlyError, UnfitValueError
from zvcore.placement import OneChunkPerObject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zvcore.engine.buffers import Buffers
    from zvcore.engine.selection import Selection
    from zvcore.engine.sinks import Sink
    from zvcore.engine.work import Work
    from zvcore.layout import Layout, Sources
    from zvcore.transfer.batches import Positions, Rows

    # What was read of objects, by their keys; None where there is none.
    Old = Mapping[str, bytes | memoryview | None]

__all__ = ["Assignment", "ToSelection", "check_writable", "refuse_unfit_fill"]


def check_writable(layout: Layout) -> None:
    # The engine's threads write files without asking the store.
    if layout.store.read_only:
        raise ReadOnlyError(f"{layout.store.root} was opened for reading")


def _in_hand(sources: Sources, old: Old, covered: npt.NDArray[np.bool_]) -> Sources | None:
    """The sources with bytes that were read before, if those are all that is needed."""
    if not old or sources.offset is not None or sources.blobs is not None:
        return None
    keys = list(sources.keys)
    names = keys if sources.key is None else [keys[number] for number in sources.key.tolist()]
    if any(name not in old for name, whole in zip(names, covered.tolist(), strict=True) if not whole):
        return None
    blobs = [None if (data := old.get(name)) is None else memoryview(data) for name in names]
    return replace(sources, key=None, blobs=blobs, origin=sources)


def refuse_unfit_fill(layout: Layout, positions: Positions) -> None:
    """UnfitValueError where chunks are begun of which the rest would no longer be the fill value behind the filter."""
    try:
        assert layout.refuse_unfit is not None
        layout.refuse_unfit(np.array([layout.fill_value], layout.form.dtype))
    except UnfitValueError as error:
        sources = layout.locate(positions)
        if sources.length is None:
            there = [size is not None for size in layout.store.sizes(sources.keys)]
        else:
            there = (np.asarray(sources.length) != ABSENT).tolist()
        if not all(there):
            what = (
                "of a chunk that is not stored only a part is written, and the fill value does not fit: write all of it"
            )
            place = tuple(positions[there.index(False)].tolist())
            raise UnfitValueError(what, key=layout.chunk_name(place), chunk=place) from error


@dataclass(frozen=True)
class Assignment(ABC):
    """Values to be assigned to items of some chunks.

    positions  the grid positions of the chunks
    covered    which of them are covered as a whole, so that nothing of what is stored is needed
    """

    layout: Layout
    work: Work
    positions: Positions
    covered: npt.NDArray[np.bool_]

    def some(self, rows: Rows) -> tuple[Positions, npt.NDArray[np.bool_]]:
        """The positions of these rows, and which of them are covered."""
        # numpy would give the GIL away to pick one of one.
        if len(rows) == len(self.positions) == 1:
            return self.positions, self.covered
        return self.positions[rows], self.covered[rows]

    def encode(
        self,
        rows: Rows,
        work: Work | None = None,
        *,
        sink: Sink | None = None,
        located: Callable[[Sources], None] | None = None,
        store_empty: bool | None = None,
        old: Old | None = None,
    ) -> Buffers:
        """The chunks in `rows` of `positions` with the new values in them, encoded, unless a `sink` takes them.

        `located` is called with where old values are, before they are read. `old` has what was read of objects before.
        """
        layout = self.layout
        positions, covered = self.some(rows)
        work = self.work if work is None else work
        sources = None
        if not covered.all():
            sources = layout.locate(positions)
            if located is not None:
                located(sources)
            sources = _in_hand(sources, old or {}, covered) or reachable(layout.store, sources, len(positions))
        if store_empty is None:
            store_empty = layout.store_empty
        if layout.value_codec is not None:
            return self._encode_values(rows, sources, work, store_empty)
        chunks = Chunks(layout.prepared, positions, sources, self._rows(rows), layout.chain_column(positions))
        gathered = Gathered(len(positions))
        sink = gathered if sink is None else sink
        sink.store_empty = store_empty
        self._encode_chunks(chunks, sink, work)
        return gathered.chunks

    @abstractmethod
    def _rows(self, rows: Rows) -> Rows | None:
        """The rows, if the engine has to know them."""

    @abstractmethod
    def _encode_chunks(self, chunks: Chunks, sink: Sink, work: Work) -> None: ...

    def _encode_values(self, rows: Rows, sources: Sources | None, work: Work, store_empty: bool) -> Buffers:
        """For chunks that only Python can turn into bytes."""
        raise TypeError("chunks that only Python can turn into bytes are written one selection after the other")

    @property
    def to_files(self) -> bool:
        """Whether the engine can write chunks to files of their own by itself."""
        layout = self.layout
        return layout.store.local_root is not None and layout.value_codec is None

    def files(self, rows: Rows) -> Files:
        """What takes the chunks in `rows`, each of which is an object of its own, and writes them by itself."""
        placement = self.layout.placement
        assert isinstance(placement, OneChunkPerObject)
        return Files(placement.keys(self.some(rows)[0]), self.layout.prepared)


@dataclass(frozen=True)
class ToSelection(Assignment):
    """`value` in the selection's `result_shape` and the array's dtype; the positions are those that it touches."""

    selection: Selection
    value: npt.NDArray[Any]

    @classmethod
    def of(
        cls, layout: Layout, selection: Selection, value: npt.NDArray[Any], work: Work, positions: Positions
    ) -> ToSelection:
        covered = selection.covered(positions, layout.form.shape)
        if layout.refuse_unfit is not None and not covered.all():
            refuse_unfit_fill(layout, positions[~covered])
        return cls(layout, work, positions, covered, selection, value)

    @classmethod
    def of_whole_chunks(
        cls, layout: Layout, selection: Selection, value: npt.NDArray[Any], work: Work, positions: Positions
    ) -> ToSelection:
        """For values that are whole chunks wherever it matters, so that nothing is read."""
        return cls(layout, work, positions, np.ones(len(positions), np.bool_), selection, value)

    def _rows(self, rows: Rows) -> Rows | None:
        return rows if self.selection.is_points else None

    def _encode_chunks(self, chunks: Chunks, sink: Sink, work: Work) -> None:
        encode_chunks(chunks, self.selection, self.value, sink, work)

    def _encode_values(self, rows: Rows, sources: Sources | None, work: Work, store_empty: bool) -> Buffers:
        layout, selection, value = self.layout, self.selection, self.value
        positions, covered = self.some(rows)
        codec = layout.value_codec
        assert codec is not None
        old = None
        if sources is not None:
            old = fetch_chunks(Chunks(layout.prepared, positions, sources), work.telling(None))
        source = value.reshape(-1) if selection.is_points else value.reshape(selection.full_shape)
        encoded: list[bytes] = []
        present = []
        for i, position in enumerate(positions):
            data = None if old is None or covered[i] else old[i]
            where = tuple(position.tolist())
            with layout.memory_for(where):
                if data is None:
                    values = np.full(layout.block_shape(where), layout.fill_value, layout.form.dtype)
                else:
                    values = layout.decode_values(data, where).copy()
                within, place = selection.share(position, layout.form.shape, int(rows[i]))
                if values.ndim:
                    values[within] = source[place]
                else:  # of objects, what has no axes would take an array for its one item
                    values[()] = source.reshape(-1)[-1]
                if store_empty or not layout.is_empty(values):
                    present.append(i)
                    encoded.append(codec.encode(values))
        results = encode_many(encoded, layout.chains[0], work.telling(None))
        return results if len(present) == len(positions) else results.spread(present, len(positions))
