"""The layout of an array of Zarr v3 whose chunks differ in size.

Where chunks of one size lie side by side, they are an array with a regular grid: a *piece*. What is asked of the array
is asked of its pieces, one after the other.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from zvcore.errors import MetadataError, UnsupportedError, ZvcoreError
from zvcore.layout import Layout, StoredObject
from zvcore.report import What
from zvcore.zarr3.layout import form_of
from zvcore.zarr3.metadata import ArrayMetadata
from zvcore.zarr3.shard_levels import levels_of
from zvcore.zarr3.sharding import layout_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zvcore.engine import Keys
    from zvcore.engine.sources import Sources
    from zvcore.layout import ValueCodec
    from zvcore.placement import Placement
    from zvcore.report import Problem, Report
    from zvcore.stores import Store
    from zvcore.zarr3.edges import Run
    from zvcore.zarr3.layout import ChunkLayout
    from zvcore.zarr3.sharding import ShardLayout

__all__ = ["Piece", "Pieces", "pieces_of"]

# How many pieces are remembered.
_REMEMBERED = 256
# How many objects are shared out among pieces at once.
_OBJECTS = 1024

Position = tuple[int, ...]


@dataclass(frozen=True)
class PieceMetadata(ArrayMetadata):
    """One piece as an array; `first` is where its first chunk (or shard) stands in the grid."""

    first: Position = ()

    def keys(self, positions: npt.NDArray[Any]) -> Keys:
        return super().keys(positions + np.array(self.first, np.int64))

    def key(self, position: Sequence[int]) -> str:
        return super().key([i + n for i, n in zip(position, self.first, strict=True)])

    def position(self, key: str) -> Position | None:
        found = super().position(key)
        if found is None:
            return None
        place = tuple(i - n for i, n in zip(found, self.first, strict=True))
        return place if all(0 <= i < n for i, n in zip(place, self.grid, strict=True)) else None


class Piece(NamedTuple):
    """A part of an array in which chunks are of one size; or a whole array of which they are.

    layout       of this part, as if it were an array by itself
    first        where its first object stands in the array's grid of objects; None: this is the array itself
    first_chunk  where its first chunk stands in the array's grid of chunks
    """

    layout: ChunkLayout | ShardLayout
    first: Position | None = None
    first_chunk: Position = ()

    @contextmanager
    def reporting(self, report: Report) -> Iterator[Report]:
        """A report on the piece, of which `report` will tell as of a part of the array."""
        if self.first is None:
            yield report
            return
        part = report.part()
        try:
            yield part
        finally:
            part.problems = list(map(self._seen, part.problems))
            part.losses = list(map(self._seen, part.losses))
            report.extend(part)

    def _seen(self, problem: Problem) -> Problem:
        # An index is that of an object.
        first = self.first if problem.kind is What.INDEX else self.first_chunk
        return replace(problem, chunk=_moved(problem.chunk, first))

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Errors tell of chunks by their places in the array."""
        try:
            yield
        except ZvcoreError as error:
            error.chunk = _moved(error.chunk, self.first_chunk)
            raise


def _moved(chunk: Any, first: Position | None) -> Any:
    if first is None or not isinstance(chunk, tuple) or len(chunk) != len(first):
        return chunk
    return tuple(i + n for i, n in zip(chunk, first, strict=True))


class Pieces(Layout):
    """The array as a whole. Only its pieces say where chunks lie."""

    regular = False
    value_codec: ValueCodec | None

    def __init__(self, store: Store, metadata: ArrayMetadata, **options: Any) -> None:
        assert metadata.edges is not None
        self.store = store
        self.metadata = metadata
        self.options = options
        self.shape = metadata.shape
        self.fill_value = metadata.fill_value
        self.store_empty = bool(options.get("store_empty", False))
        self.edges = metadata.edges
        self.pipeline = metadata.pipeline
        self.innermost = metadata.pipeline.innermost
        # The sizes of the longest chunks, or of those in shards.
        chunk_shape, axes = metadata.chunk_shape, metadata.pipeline.axes
        if metadata.pipeline.sharding is not None:
            self._check_shards(metadata.pipeline.sharding.chunk_shape)
            _, chunk_shape, axes = levels_of(metadata.pipeline)
        self.form, self.value_codec = form_of(self.innermost, chunk_shape, axes, metadata.fill_value)
        self.shard_shape = None if metadata.pipeline.sharding is None else metadata.chunk_shape
        self._made: dict[Position, Piece] = {}

    def _check_shards(self, inner: tuple[int, ...]) -> None:
        for place, axis in enumerate(self.metadata.pipeline.axes):
            for run in self.edges[axis].runs:
                if run.extent % inner[place]:
                    what = "the inner chunks must divide each shard"
                    raise MetadataError(what, key=self.metadata.where, expected=run.extent, found=inner)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_made": {}}

    @property
    def chains(self) -> Any:
        return (self.innermost.chunk_chain,)

    @property
    def sharded(self) -> bool:
        return self.shard_shape is not None

    # --- pieces

    def piece(self, runs: tuple[Run, ...]) -> Piece:
        """The piece that these runs make."""
        first = tuple(run.first for run in runs)
        found = self._made.get(first)
        if found is None:
            given = {one.name: getattr(self.metadata, one.name) for one in fields(ArrayMetadata)}
            shape = tuple(min(run.stop, n) - run.start for run, n in zip(runs, self.shape, strict=True))
            extents = tuple(run.extent for run in runs)
            metadata = PieceMetadata(**{**given, "shape": shape, "chunk_shape": extents, "edges": None}, first=first)
            layout = layout_of(self.store, metadata, **self.options)
            first_chunk = first
            if self.sharded:
                first_chunk = tuple(run.start // n for run, n in zip(runs, self.form.shape, strict=True))
            found = Piece(layout, first, first_chunk)
            if len(self._made) >= _REMEMBERED:
                self._made.clear()
            self._made[first] = found
        return found

    def parted(self, stored: Iterable[tuple[str, Position]]) -> Iterator[tuple[Piece, list[tuple[str, Position]]]]:
        """Objects and their places in the grid, by the pieces in which they lie; the places are those in the piece."""
        found: dict[tuple[Run, ...], list[tuple[str, Position]]] = {}
        for key, position in stored:
            runs = tuple(edges.run_with(i) for edges, i in zip(self.edges, position, strict=True))
            local = tuple(i - run.first for i, run in zip(position, runs, strict=True))
            found.setdefault(runs, []).append((key, local))
        for runs, part in found.items():
            yield self.piece(runs), part

    # --- where chunks lie

    def stored_objects(self) -> Iterator[StoredObject]:
        return itertools.starmap(StoredObject, self.metadata.stored(self.store))

    def begins_of(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        begins = [edges.places(numbers)[0] for edges, numbers in zip(self.edges, places.T, strict=True)]
        return np.stack(begins, axis=1)

    def chunk_name(self, position: Position) -> str:
        return self.metadata.key(position)

    def refusal(self) -> UnsupportedError:
        """What is said where chunks of one size are needed."""
        what = "what was asked for needs chunks of one size, and this array has a rectilinear grid"
        return UnsupportedError(what, key=self.store.root)

    @property
    def placement(self) -> Placement:
        raise self.refusal()

    def locate(self, positions: npt.NDArray[np.int64]) -> Sources:
        raise self.refusal()


def pieces_of(
    layout: Any, stored: Iterator[tuple[str, Position]]
) -> Iterator[tuple[Piece, Iterable[tuple[str, Position]]]]:
    """The objects of an array by its pieces, as the store lists them."""
    if not isinstance(layout, Pieces):
        yield Piece(layout), stored
        return
    while batch := list(itertools.islice(stored, _OBJECTS)):
        yield from layout.parted(batch)
