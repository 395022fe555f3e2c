"""Arrays of Zarr v3 whose chunks differ in size.

Where chunks of one size lie side by side, they are an array with a regular grid: a *piece*. What is selected is read
and written piece by piece, each by the engine as any other array.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import transfer
from zvcore.array import OrthogonalIndex, PointIndex
from zvcore.engine.selection import Selection
from zvcore.errors import MetadataError, UnsupportedError
from zvcore.layout import ChunkForm, Layout
from zvcore.zarr3.array import Zarr3Array
from zvcore.zarr3.metadata import ArrayMetadata
from zvcore.zarr3.shard_levels import levels_of
from zvcore.zarr3.sharding import layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zvcore.engine import Keys
    from zvcore.engine.sources import Sources
    from zvcore.engine.work import Work
    from zvcore.placement import Placement
    from zvcore.stores import Store
    from zvcore.zarr3.edges import Run

__all__ = ["RectilinearArray"]

# How many pieces are remembered.
_PIECES = 256


@dataclass(frozen=True)
class PieceMetadata(ArrayMetadata):
    """One piece as an array; `first` is where its first chunk stands in the grid."""

    first: tuple[int, ...] = ()

    def keys(self, positions: npt.NDArray[Any]) -> Keys:
        return super().keys(positions + np.array(self.first, np.int64))

    def key(self, position: Sequence[int]) -> str:
        return super().key([i + n for i, n in zip(position, self.first, strict=True)])

    def position(self, key: str) -> tuple[int, ...] | None:
        found = super().position(key)
        if found is None:
            return None
        place = tuple(i - n for i, n in zip(found, self.first, strict=True))
        return place if all(0 <= i < n for i, n in zip(place, self.grid, strict=True)) else None


class _Pieces(Layout):
    """What there is to say of the array as a whole. Whoever asks for single chunks is told that there is no grid."""

    def __init__(self, store: Store, metadata: ArrayMetadata, **options: Any) -> None:
        assert metadata.edges is not None
        self.store = store
        self.metadata = metadata
        self.options = options
        self.shape = metadata.shape
        self.fill_value = metadata.fill_value
        self.made: dict[tuple[int, ...], Any] = {}
        self.edges = metadata.edges
        sharding = metadata.pipeline.sharding
        # The sizes of the chunks, or of what is in them.
        chunk_shape, axes = metadata.chunk_shape, metadata.pipeline.axes
        if sharding is not None:
            self._check_shards(sharding.chunk_shape)
            _, chunk_shape, axes = levels_of(metadata.pipeline)
        self.form = ChunkForm(chunk_shape, metadata.data_type.dtype, axes=axes)
        self.shard_shape = None if sharding is None else metadata.chunk_shape

    def _check_shards(self, inner: tuple[int, ...]) -> None:
        for place, axis in enumerate(self.metadata.pipeline.axes):
            for run in self.edges[axis].runs:
                if run.extent % inner[place]:
                    what = "the inner chunks must divide each shard"
                    raise MetadataError(what, key=self.metadata.where, expected=run.extent, found=inner)

    @property
    def chains(self) -> Any:
        return (self.metadata.pipeline.innermost.chunk_chain,)

    def piece(self, runs: tuple[Run, ...]) -> Any:
        """The layout of the piece that these runs make."""
        name = tuple(run.first for run in runs)
        layout = self.made.get(name)
        if layout is None:
            given = {one.name: getattr(self.metadata, one.name) for one in fields(ArrayMetadata)}
            shape = tuple(min(run.stop, n) - run.start for run, n in zip(runs, self.shape, strict=True))
            extents = tuple(run.extent for run in runs)
            metadata = PieceMetadata(**{**given, "shape": shape, "chunk_shape": extents, "edges": None}, first=name)
            layout = layout_of(self.store, metadata, **self.options)
            if len(self.made) >= _PIECES:
                self.made.clear()
            self.made[name] = layout
        return layout

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "made": {}}

    def _unknown(self) -> UnsupportedError:
        what = "arrays with a rectilinear grid are read and written; what was asked for needs chunks of one size"
        return UnsupportedError(what, key=self.store.root)

    @property
    def pipeline(self) -> Any:
        """What conversions ask for."""
        raise self._unknown()

    @property
    def placement(self) -> Placement:
        raise self._unknown()

    def locate(self, positions: npt.NDArray[np.int64]) -> Sources:
        raise self._unknown()

    def chunk_name(self, position: tuple[int, ...]) -> str:
        return self.metadata.key(position)


class RectilinearArray(Zarr3Array):
    """An array whose chunks (or shards) have different sizes. `chunks` are the largest; `edges` says all."""

    _layout: Any

    def _lay_out(self, store: Store, metadata: ArrayMetadata) -> Any:
        return _Pieces(store, metadata, **self._options)

    @property
    def edges(self) -> tuple[list[tuple[int, int]], ...]:
        """For each axis, the extents of its chunks and how many there are of each, one behind the other."""
        return tuple([(run.extent, run.chunks) for run in one.runs] for one in self._layout.edges)

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
        work = self._work_with(threads, None, memory)
        return self._read_axes(Selection.basic(region, self.shape), self._axes(region), out, work)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write_axes(Selection.basic(key, self.shape), self._axes(key), value, self._work)

    def write(self, region: Any, value: Any, threads: int | None = None, progress: Any = None) -> None:
        work = self._work_with(threads)
        self._write_axes(Selection.basic(region, self.shape), self._axes(region), value, work)

    @property
    def oindex(self) -> Any:
        return _Orthogonal(self)

    @property
    def vindex(self) -> Any:
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

    def _parts(self, axes: list[Any], values: npt.NDArray[Any]) -> Iterator[tuple[Any, tuple[Any, ...], Any, bool]]:
        """(layout of a piece, what is selected of it, the place of that in `values`, whether that is a view)."""
        kept = tuple(slice(None) if not isinstance(one, int) else None for one in axes)
        full = values[kept] if kept else values
        along = []
        for axis, (one, edges) in enumerate(zip(axes, self._layout.edges, strict=True)):
            if isinstance(one, range) and one.step < 0:
                full, one = np.flip(full, axis), one[::-1]
            along.append([*_shares(one, edges)])
        for combination in itertools.product(*along):
            layout = self._layout.piece(tuple(run for run, _, _ in combination))
            key = tuple(within for _, within, _ in combination)
            place = tuple(there for _, _, there in combination)
            viewed = all(isinstance(one, slice) for one in place)
            yield layout, key, (full, place if viewed else _mesh(place, full.shape)), viewed

    def _read_axes(self, whole: Selection, axes: list[Any], out: Any, work: Work) -> Any:
        result = transfer.empty(whole.result_shape, self.dtype, self.order) if out is None else self._target(whole, out)
        if result.size:
            for layout, key, (full, place), viewed in self._parts(axes, result):
                selection = Selection.orthogonal(key, layout.shape, layout.form.shape)
                if viewed and result.dtype.isnative:
                    transfer.read(layout, selection, full[place], work)
                else:
                    values = np.empty(selection.result_shape, self.dtype)
                    transfer.read(layout, selection, values, work)
                    full[place] = values
        if out is not None:
            return out
        return result[()] if whole.is_item else result

    def _target(self, whole: Selection, out: Any) -> npt.NDArray[Any]:
        target = np.asarray(out)
        if target.shape != whole.result_shape:
            raise ValueError(f"out has shape {target.shape}, the region {whole.result_shape}")
        if self.dtype not in (target.dtype, target.dtype.newbyteorder("=")):
            raise ValueError(f"out has dtype {target.dtype}, the array {self.dtype}")
        if not target.flags.writeable:
            raise ValueError("out is read-only")
        return target

    def _write_axes(self, whole: Selection, axes: list[Any], value: Any, work: Work) -> None:
        self._check_writable()
        values = self._as_values(value, whole.result_shape)
        if values.size:
            for layout, key, (full, place), _ in self._parts(axes, values):
                selection = Selection.orthogonal(key, layout.shape, layout.form.shape)
                transfer.write(layout, selection, full[place], work)

    def _pointed(self, whole: Selection, key: Any) -> Iterator[tuple[Any, Selection, npt.NDArray[np.intp]]]:
        """(layout of a piece, the points in it, which of all points they are)."""
        items = key if isinstance(key, tuple) else (key,)
        if len(items) == 1 and np.ndim(items[0]) == self.ndim and np.asarray(items[0]).dtype.kind == "b":
            items = np.nonzero(items[0])
        arrays = [np.asarray(one).astype(np.int64) for one in items]
        arrays = [np.where(one < 0, one + n, one) for one, n in zip(arrays, self.shape, strict=True)]
        flat = [one.ravel() for one in np.broadcast_arrays(*arrays)]
        starts = [np.array([run.start for run in one.runs]) for one in self._layout.edges]
        numbers = [np.searchsorted(start, one, "right") - 1 for start, one in zip(starts, flat, strict=True)]
        found, of = np.unique(np.stack(numbers, 1), axis=0, return_inverse=True)
        for number, row in enumerate(found.tolist()):
            runs = tuple(edges.runs[i] for edges, i in zip(self._layout.edges, row, strict=True))
            chosen = np.flatnonzero(of.ravel() == number)
            layout = self._layout.piece(runs)
            points = tuple(one[chosen] - run.start for one, run in zip(flat, runs, strict=True))
            yield layout, Selection.points(points, layout.shape, layout.form.shape), chosen

    # --- single chunks

    def _block_region(self, position: tuple[int, ...]) -> tuple[slice, ...]:
        spans = [edges.span(i) for edges, i in zip(self._layout.edges, position, strict=True)]
        return tuple(slice(start, min(stop, n)) for (start, stop), n in zip(spans, self.shape, strict=True))

    def block_exists(self, position: Any) -> bool:
        """Whether the chunk (or shard) at this grid position is stored."""
        return self.store.exists(self.metadata.key(self._position(position)))

    def read_blocks(self, positions: Any, threads: int | None = None) -> list[Any]:
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
        self._check_writable()
        existed = self.block_exists(place)
        if existed:
            self.store.delete(self.metadata.key(place))
        return existed

    def read_encoded(self, position: Any) -> bytes | None:
        """The bytes of one chunk (or shard) as they are stored, or None."""
        found = self.store.get(self.metadata.key(self._position(position)))
        return None if found is None else bytes(found)

    def write_encoded(self, position: Any, data: Any) -> None:
        self._check_writable()
        self.store.put(self.metadata.key(self._position(position)), bytes(data))

    # --- the whole

    def _resized(self, content: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
        return replace(self.metadata, document=content).resized(shape).document

    def _clear_outside(self, shrunk: list[int]) -> None:
        """Chunks outside of the array are removed; what one that its end cuts has behind it gets the fill value."""
        for key, position in [*self.metadata.stored(self.store)]:
            if any(i >= n for i, n in zip(position, self.grid, strict=True)):
                self.store.delete(key)
                continue
            spans = [edges.span(i) for edges, i in zip(self._layout.edges, position, strict=True)]
            if any(stop > n for (_, stop), n in zip(spans, self.shape, strict=True)):
                region = self._block_region(position)
                self[region] = self[region]

    def to_dask(self, chunks: Any = None) -> Any:
        """A dask array over this one, cut along its chunks (or shards)."""
        import dask.array

        if chunks is None:
            if math.prod(self.grid) > 1 << 20:
                raise UnsupportedError("more chunks than dask should have tasks: say chunks=", found=self.grid)
            chunks = tuple(
                tuple(min(stop, n) - start for start, stop in map(edges.span, range(edges.count)))
                for edges, n in zip(self._layout.edges, self.shape, strict=True)
            )
        return dask.array.from_array(self, chunks=chunks, lock=False, asarray=True)


class _Orthogonal(OrthogonalIndex):
    _array: Any

    def __getitem__(self, key: Any) -> Any:
        array = self._array
        whole = Selection.orthogonal(key, array.shape, array.chunks)
        return array._read_axes(whole, array._axes(key), None, array._work)

    def __setitem__(self, key: Any, value: Any) -> None:
        array = self._array
        array._write_axes(Selection.orthogonal(key, array.shape, array.chunks), array._axes(key), value, array._work)


class _Points(PointIndex):
    _array: Any

    def __getitem__(self, key: Any) -> Any:
        array = self._array
        whole = Selection.points(key, array.shape, array.chunks)
        result = np.empty(math.prod(whole.result_shape), array.dtype)
        for layout, selection, chosen in array._pointed(whole, key) if result.size else ():
            values = np.empty(selection.result_shape, array.dtype)
            transfer.read(layout, selection, values, array._work)
            result[chosen] = values
        return result.reshape(whole.result_shape)[()]

    def __setitem__(self, key: Any, value: Any) -> None:
        array = self._array
        array._check_writable()
        whole = Selection.points(key, array.shape, array.chunks)
        values = array._as_values(value, whole.result_shape).reshape(-1)
        for layout, selection, chosen in array._pointed(whole, key) if values.size else ():
            transfer.write(layout, selection, values[chosen], array._work)


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
        numbers = np.searchsorted(starts, one, "right") - 1
        for number in np.unique(numbers).tolist():
            run = edges.runs[number]
            chosen = np.flatnonzero(numbers == number)
            yield run, one[chosen] - run.start, chosen


def _mesh(place: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Lists of places along some axes, slices along others, as numpy takes them."""
    return np.ix_(*[np.arange(n)[one] if isinstance(one, slice) else one for one, n in zip(place, shape, strict=True)])
