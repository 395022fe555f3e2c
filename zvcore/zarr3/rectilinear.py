"""Arrays of Zarr v3 whose chunks differ in size.

What is selected is read and written piece by piece (see `pieces`), each by the engine as any other array.
"""

from __future__ import annotations

import copy
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import transfer
from zvcore.engine.selection import Selection
from zvcore.engine.sources import ABSENT
from zvcore.errors import CorruptDataError, UnsupportedError
from zvcore.indexers import OrthogonalIndex, PointIndex
from zvcore.lazy import needed_by
from zvcore.transfer.batches import Steps
from zvcore.typed import Item
from zvcore.zarr3.array import Zarr3Array
from zvcore.zarr3.metadata import DOCUMENT, ArrayMetadata, parse_document
from zvcore.zarr3.pieces import Piece, Pieces, pieces_of
from zvcore.zarr3.sharding import ShardLayout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zvcore.engine.work import Work
    from zvcore.stores import Store
    from zvcore.transfer.shard_writer import ShardWriter
    from zvcore.zarr3.edges import Run

__all__ = ["RectilinearArray"]


class RectilinearArray(Zarr3Array[Item]):
    """An array whose chunks (or shards) have different sizes. `chunks` are the largest; `edges` says all."""

    _layout: Any
    uniform = False

    def _lay_out(self, store: Store, metadata: ArrayMetadata, **other: Any) -> Any:
        return Pieces(store, metadata, **{**self._options, **other})

    @property
    def edges(self) -> tuple[list[tuple[int, int]], ...]:
        """For each axis, the extents of its chunks and how many there are of each, one after the other."""
        return tuple([*zip(one.runs.extents, one.runs.chunks, strict=True)] for one in self._layout.edges)

    @property
    def grid(self) -> tuple[int, ...]:
        """How many chunks (or shards) there are along each axis."""
        return tuple(one.count for one in self._layout.edges)

    # --- selections

    def __getitem__(self, key: Any) -> Any:
        return self._read_axes(Selection.basic(key, self.shape), self._axes(key), None, self._work)

    def read(
        self, region: Any = ..., out: Any = None, threads: int | None = None, progress: Any = None, memory: Any = None
    ) -> Any:
        work = self._work_with(threads, progress, memory)
        return self._read_axes(Selection.basic(region, self.shape), self._axes(region), out, work)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write_axes(Selection.basic(key, self.shape), self._axes(key), value, self._work)

    def write(self, region: Any, value: Any, threads: int | None = None, progress: Any = None) -> None:
        work = self._work_with(threads, progress)
        self._write_axes(Selection.basic(region, self.shape), self._axes(region), value, work)

    @property
    def oindex(self) -> OrthogonalIndex[Item]:
        return _Orthogonal(self)

    @property
    def vindex(self) -> PointIndex[Item]:
        return _Points(self)

    def _axes(self, key: Any) -> list[Any]:
        """What is selected along each axis: a range, an array of coordinates, or the coordinate that an integer is."""
        given = list(key if isinstance(key, tuple) else (key,))
        place = next((i for i, one in enumerate(given) if one is Ellipsis), None)
        if place is None:
            given.append(Ellipsis)
            place = len(given) - 1
        given[place : place + 1] = [slice(None)] * (self.ndim - len(given) + 1)
        axes: list[Any] = []
        for one, length in zip(given, self.shape, strict=True):
            if isinstance(one, slice):
                axes.append(range(length)[one])
            elif np.ndim(one) == 0:
                axes.append(int(one) + (length if int(one) < 0 else 0))
            else:
                array = np.asarray(one)
                array = np.flatnonzero(array) if array.dtype.kind == "b" else array.astype(np.int64)
                axes.append(np.where(array < 0, array + length, array))
        return axes

    def parts(self, key: Any, values: npt.NDArray[Any]) -> Iterator[tuple[Any, Selection, npt.NDArray[Any]]]:
        for piece, within, (full, place), _ in self._parts(self._axes(key), values):
            layout = piece.layout
            yield layout, Selection.orthogonal(within, layout.shape, layout.form.shape), full[place]

    def _parts(self, axes: list[Any], values: npt.NDArray[Any]) -> Iterator[tuple[Piece, tuple[Any, ...], Any, bool]]:
        """(a piece, what is selected of it, the place of that in `values`, whether that is a view)."""
        kept = tuple(slice(None) if not isinstance(one, int) else None for one in axes)
        full = values[kept] if kept else values
        along = []
        for axis, (one, edges) in enumerate(zip(axes, self._layout.edges, strict=True)):
            if isinstance(one, range) and one.step < 0:
                full, one = np.flip(full, axis), one[::-1]
            along.append([*_shares(one, edges)])
        for combination in itertools.product(*along):
            piece = self._layout.piece(tuple(run for run, _, _ in combination))
            key = tuple(within for _, within, _ in combination)
            place = tuple(there for _, _, there in combination)
            viewed = all(isinstance(one, slice) for one in place)
            yield piece, key, (full, place if viewed else _mesh(place, full.shape)), viewed

    def _steps(self, axes: list[Any], work: Work) -> Steps:
        """What tells of all chunks that are touched, if anybody wants to know."""
        if work.progress is None:
            return Steps(work, 0)
        total = 1
        for axis, (one, edges) in enumerate(zip(axes, self._layout.edges, strict=True)):
            touched = 0
            for run, within, _ in _shares(one, edges):
                extent = self.chunks[axis] if self._layout.sharded else run.extent
                selection = Selection.orthogonal((within,), (run.extent * run.chunks,), (extent,))
                touched += selection.chunk_counts((extent,))[0]
            total *= touched
        return Steps(work, total)

    def _read_axes(self, whole: Selection, axes: list[Any], out: Any, work: Work) -> Any:
        given = None if out is None else transfer.target(out, whole.result_shape, self.dtype)
        result = transfer.empty(whole.result_shape, self.dtype, self.order) if given is None else given
        try:
            self._read_parts(axes, result, work)
        except CorruptDataError:
            self._check_read(result)
            raise
        self._check_read(result)
        if out is not None:
            return out
        return result[()] if whole.is_item else result

    def _read_parts(self, axes: list[Any], result: npt.NDArray[Any], work: Work) -> None:
        if not result.size:
            return
        steps = self._steps(axes, work)
        for piece, key, (full, place), viewed in self._parts(axes, result):
            layout = piece.layout
            selection = Selection.orthogonal(key, layout.shape, layout.form.shape)
            own = steps.of(math.prod(selection.chunk_counts(layout.form.shape)))
            with piece.telling():
                if viewed and result.dtype.isnative:
                    transfer.read(layout, selection, full[place], own)
                else:
                    values = np.empty(selection.result_shape, self.dtype)
                    transfer.read(layout, selection, values, own)
                    full[place] = values

    def _write_axes(self, whole: Selection, axes: list[Any], value: Any, work: Work) -> None:
        self._check_current()
        values = self._as_values(value, whole.result_shape)
        if values.size:
            steps = self._steps(axes, work)
            for piece, key, (full, place), _ in self._parts(axes, values):
                layout = piece.layout
                selection = Selection.orthogonal(key, layout.shape, layout.form.shape)
                with piece.telling():
                    own = steps.of(math.prod(selection.chunk_counts(layout.form.shape)))
                    transfer.write(layout, selection, full[place], own)

    def _pointed(self, whole: Selection, key: Any) -> Iterator[tuple[Piece, Selection, npt.NDArray[np.intp]]]:
        """(a piece, the points in it, which of all points they are)."""
        items = key if isinstance(key, tuple) else (key,)
        if len(items) == 1 and np.ndim(items[0]) == self.ndim and np.asarray(items[0]).dtype.kind == "b":
            items = np.nonzero(items[0])
        arrays = [np.asarray(one).astype(np.int64) for one in items]
        arrays = [np.where(one < 0, one + n, one) for one, n in zip(arrays, self.shape, strict=True)]
        flat = [one.ravel() for one in np.broadcast_arrays(*arrays)]
        starts = [np.array(one.runs.starts) for one in self._layout.edges]
        numbers = [np.searchsorted(start, one, "right") - 1 for start, one in zip(starts, flat, strict=True)]
        found, of = np.unique(np.stack(numbers, 1), axis=0, return_inverse=True)
        for number, chosen in _grouped(of.ravel()):
            runs = tuple(edges.runs[i] for edges, i in zip(self._layout.edges, found[number].tolist(), strict=True))
            piece = self._layout.piece(runs)
            points = tuple(one[chosen] - run.start for one, run in zip(flat, runs, strict=True))
            yield piece, Selection.points(points, piece.layout.shape, piece.layout.form.shape), chosen

    # --- single chunks

    def _block_region(self, position: tuple[int, ...]) -> tuple[slice, ...]:
        spans = [edges.span(i) for edges, i in zip(self._layout.edges, position, strict=True)]
        return tuple(slice(start, min(stop, n)) for (start, stop), n in zip(spans, self.shape, strict=True))

    def block_exists(self, position: Any) -> bool:
        """Whether the chunk (or shard) at this grid position is stored."""
        return self.store.exists(self.metadata.key(self._position(position)))

    def read_blocks(self, positions: Any, threads: int | None = None) -> list[npt.NDArray[Item] | None]:
        return [self.read_block(position) for position in self._positions(positions)]

    def write_block(self, position: Any, values: Any) -> None:
        """Replace one chunk (or shard); `values` has its shape, cut at the array's end."""
        region = self._block_region(self._position(position))
        shape = tuple(one.stop - one.start for one in region)
        if np.shape(values) != shape:
            raise ValueError(f"the chunk at {position} has shape {shape}, the values {np.shape(values)}")
        self[region] = values

    def delete_block(self, position: Any) -> bool:
        place = self._position(position)
        self._check_current()
        existed = self.block_exists(place)
        if existed:
            self.store.delete(self.metadata.key(place))
        return existed

    def read_encoded(self, position: Any) -> bytes | None:
        """The bytes of one chunk (or shard) as they are stored, or None."""
        found = self.store.get(self.metadata.key(self._position(position)))
        return None if found is None else bytes(found)

    def write_encoded(self, position: Any, data: Any) -> None:
        self._check_current()
        self.store.put_data(self.metadata.key(self._position(position)), bytes(data))

    # --- the whole

    def sizes_of(self, positions: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Of chunks, or shards."""
        stored = self.store.sizes(self.metadata.keys(positions))
        inside = np.ones(len(positions), object)
        for edges, numbers, n in zip(self._layout.edges, positions.T, self.shape, strict=True):
            begin, extent = edges.places(numbers)
            inside *= np.minimum(extent, n - begin).astype(object)
        lengths = [ABSENT if size is None else size for size in stored]
        return np.array(lengths, np.uint64), (inside * self.dtype.itemsize).astype(np.uint64)

    def _shards(self) -> Iterator[tuple[ShardLayout, str]]:
        metadata = self.metadata
        # What lies behind the last edge has no size.
        stored = (found for found in metadata.stored(self.store) if metadata.has_edges(found[1]))
        for piece, objects in pieces_of(self._layout, stored):
            if isinstance(piece.layout, ShardLayout) and piece.layout.simple:
                yield from ((piece.layout, key) for key, _ in objects)

    def _resized(self, content: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
        # Others may have cut what they have added in another way.
        metadata = parse_document(content, DOCUMENT)
        assert isinstance(metadata, ArrayMetadata)
        return metadata.resized(shape).document

    def _clear_outside(self, shrunk: list[int]) -> None:
        """Chunks outside of the array are removed; what one that its end cuts has behind it gets the fill value."""
        # As in `Zarr3Array`, whatever the array is opened with.
        rewriting = copy.copy(self)
        rewriting._layout = self._lay_out(self.store, self.metadata, write_mode="rewrite")
        stored = [*self.metadata.stored(self.store)]
        outside = {key for key, place in stored if any(i >= n for i, n in zip(place, self.grid, strict=True))}
        self.store.delete_all(outside)
        for key, position in stored:
            if key in outside:
                continue
            spans = [edges.span(i) for edges, i in zip(self._layout.edges, position, strict=True)]
            if any(stop > n for (_, stop), n in zip(spans, self.shape, strict=True)):
                region = self._block_region(position)
                rewriting[region] = self[region]

    def shard_writer(self, memory: int = 1 << 30) -> ShardWriter:
        raise self._layout.refusal()

    def to_dask(self, chunks: Any = None) -> Any:
        """A dask array over this one, cut along its chunks (or shards)."""
        with needed_by("to_dask"):
            import dask.array

        if chunks is None:
            if math.prod(self.grid) > 1 << 20:
                raise UnsupportedError("more chunks than dask should have tasks: say chunks=", found=self.grid)
            chunks = tuple(
                tuple(min(stop, n) - start for start, stop in map(edges.span, range(edges.count)))
                for edges, n in zip(self._layout.edges, self.shape, strict=True)
            )
        return dask.array.from_array(self, chunks=chunks, lock=False, asarray=True)


class _Orthogonal(OrthogonalIndex[Item]):
    _array: Any

    def __getitem__(self, key: Any) -> Any:
        array = self._array
        whole = Selection.orthogonal(key, array.shape, array.chunks)
        return array._read_axes(whole, array._axes(key), None, array._work)

    def __setitem__(self, key: Any, value: Any) -> None:
        array = self._array
        array._write_axes(Selection.orthogonal(key, array.shape, array.chunks), array._axes(key), value, array._work)


class _Points(PointIndex[Item]):
    _array: Any

    def __getitem__(self, key: Any) -> Any:
        array = self._array
        whole = Selection.points(key, array.shape, array.chunks)
        result = np.empty(math.prod(whole.result_shape), array.dtype)
        for piece, selection, chosen in array._pointed(whole, key) if result.size else ():
            values = np.empty(selection.result_shape, array.dtype)
            with piece.telling():
                transfer.read(piece.layout, selection, values, array._work)
            result[chosen] = values
        array._check_read(result)
        return result.reshape(whole.result_shape)[()]

    def __setitem__(self, key: Any, value: Any) -> None:
        array = self._array
        array._check_current()
        whole = Selection.points(key, array.shape, array.chunks)
        values = array._as_values(value, whole.result_shape).reshape(-1)
        for piece, selection, chosen in array._pointed(whole, key) if values.size else ():
            with piece.telling():
                transfer.write(piece.layout, selection, values[chosen], array._work)


def _shares(one: Any, edges: Any) -> Iterator[tuple[Run, Any, Any]]:
    """(a run, what is selected in it, where that stands in the result) along one axis."""
    if isinstance(one, int):
        run = edges.run_of(one)
        yield run, slice(one - run.start, one - run.start + 1), slice(0, 1)
    elif isinstance(one, range):
        if len(one):
            for run in edges.between(one[0], one[-1]):
                first = max(0, -(-(run.start - one.start) // one.step))
                stop = min(len(one), -(-(run.stop - one.start) // one.step))
                if first < stop:
                    begin = one[first] - run.start
                    within = slice(begin, one[stop - 1] - run.start + 1, one.step)
                    yield run, within, slice(first, stop)
    else:
        starts = np.array([run.start for run in edges.runs], np.int64)
        for number, chosen in _grouped(np.searchsorted(starts, one, "right") - 1):
            run = edges.runs[number]
            yield run, one[chosen] - run.start, chosen


def _grouped(numbers: npt.NDArray[np.intp]) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """(each number that there is, where it stands), both in ascending order."""
    order = np.argsort(numbers, kind="stable")
    found, first = np.unique(numbers[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, first[1:]), strict=False)


def _mesh(place: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Lists of places along some axes, slices along others, as numpy takes them."""
    return np.ix_(*[np.arange(n)[one] if isinstance(one, slice) else one for one, n in zip(place, shape, strict=True)])
