"""zvcore inside zarr-python: a codec pipeline that hands whole selections to the engine.

    zarr.config.set({"codec_pipeline.path": "zvcore.zarr3.CodecPipeline"})

zarr-python cuts a selection along its chunks before a pipeline sees it. This pipeline puts it together again and reads
or writes it in one batch. What it cannot do goes to zarr-python's own pipeline; `explain` says what and why.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.abc.codec import Codec
from zarr.abc.codec import CodecPipeline as AbstractPipeline
from zarr.codecs import ShardingCodec
from zarr.codecs._v2 import V2Codec
from zarr.storage import LocalStore

from zvcore import transfer
from zvcore.casting import as_dtype
from zvcore.engine import Selection, Work
from zvcore.stores import Store
from zvcore.system.waiting import in_a_thread
from zvcore.zarr3.fallback import LockedPipeline
from zvcore.zarr3.foreign_stores import Bridged, Manner, as_store
from zvcore.zarr3.layout import ChunkLayout
from zvcore.zarr3.sharding import ShardLayout
from zvcore.zarr3.within_one import WithinOne
from zvcore.zarr3.zarr_metadata import as_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from zvcore.layout import Layout
    from zvcore.zarr3.direct import DirectWay
    from zvcore.zarr3.metadata import ArrayMetadata
    from zvcore.zarr3.shard_format import Order

__all__ = ["CodecPipeline", "explain"]

# Batches of at most this many bytes are done at once: handing them to a thread would take longer.
_INLINE_BYTES = 256 << 10
# How many layouts are kept: an array has one more for each shape that it grows to.
_LAYOUTS = 16
_ORDERS: dict[str, Order] = {"morton": "morton", "lexicographic": "C", "unordered": "C", "colexicographic": "F"}


class _NotOurs(Exception):
    """This selection goes to zarr-python's own pipeline."""


@dataclass
class CodecPipeline(AbstractPipeline):
    """See the module."""

    metadata: ArrayMetadata
    codecs: tuple[Codec, ...]
    store: Any

    def __post_init__(self) -> None:
        self._layouts: dict[tuple[Any, ...], Layout] = {}
        self._one: WithinOne | None = None
        self.direct: DirectWay | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"metadata": self.metadata, "codecs": self.codecs, "store": self.store}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._layouts = {}
        self._one = None
        self.direct = None

    # --- construction

    @classmethod
    def from_codecs(cls, codecs: Iterable[Codec]) -> Any:
        """Without metadata there is nothing that the engine could do: zarr-python's own pipeline."""
        return LockedPipeline.from_codecs(codecs)

    @classmethod
    def from_array_metadata_and_store(cls, array_metadata: Any, store: Any) -> CodecPipeline:
        parsed = as_metadata(array_metadata)
        if isinstance(parsed, str):
            raise NotImplementedError(parsed)
        made = cls(parsed, _codecs_of(array_metadata), store)
        # Checks the chain as zarr-python does, with its warnings.
        made.__dict__["_own"] = LockedPipeline.from_codecs(made.codecs)
        return made

    def evolve_from_array_spec(self, array_spec: Any) -> CodecPipeline:
        return self

    @property
    def _fallback(self) -> LockedPipeline:
        if "_own" not in self.__dict__:
            self.__dict__["_own"] = LockedPipeline.from_codecs(self.codecs)
        own: LockedPipeline = self.__dict__["_own"]
        return own

    @property
    def supports_partial_decode(self) -> bool:
        return True

    @property
    def supports_partial_encode(self) -> bool:
        return True

    def __iter__(self) -> Any:
        return iter(self.codecs)

    def validate(self, *, shape: Any, dtype: Any, chunk_grid: Any) -> None:
        self._fallback.validate(shape=shape, dtype=dtype, chunk_grid=chunk_grid)

    def compute_encoded_size(self, byte_length: int, array_spec: Any) -> int:
        return self._fallback.compute_encoded_size(byte_length, array_spec)

    async def decode(self, chunk_bytes_and_specs: Any) -> Any:
        return await self._fallback.decode(chunk_bytes_and_specs)

    async def encode(self, chunk_arrays_and_specs: Any) -> Any:
        return await self._fallback.encode(chunk_arrays_and_specs)

    # --- the work

    async def read(self, batch_info: Any, out: Any, drop_axes: tuple[int, ...] = ()) -> Any:
        batch = list(batch_info)
        if not batch:
            return ()
        one = self._one
        if (
            one is not None
            and len(batch) == 1
            and not drop_axes
            and batch[0][0].store is self.store
            and self.store.root == one.root
            and one.read(batch[0], out, _INLINE_BYTES)
        ):
            return await self._statuses(batch)
        try:
            layout = self._layout_of(batch)
            self._note(layout, batch)
            selection, _ = self._understood(layout, batch, drop_axes, tuple(out.shape))
            target = out.as_ndarray_like()
            if not isinstance(target, np.ndarray) or not _same_items(target.dtype, layout.form.dtype):
                raise _NotOurs("the output is not a numpy array of the array's type")
            await self._run(layout, target.nbytes, _read, layout, selection, target)
        except _NotOurs:
            return await self._fallback.read(batch, out, drop_axes)
        return await self._statuses(batch)

    async def write(self, batch_info: Any, value: Any, drop_axes: tuple[int, ...] = ()) -> None:
        batch = list(batch_info)
        if not batch:
            return
        try:
            values = value.as_ndarray_like()
            if not isinstance(values, np.ndarray):
                raise _NotOurs("the values are not a numpy array")
            layout = self._layout_of(batch)
            if layout.store.read_only:
                raise _NotOurs("not to be written: zarr-python says so in its own words")
            if values.dtype != layout.form.dtype:
                values = as_dtype(values, layout.form.dtype)
            try:
                # Chunks come in their order: where the last one ends with the values, they are as many as are wanted.
                fits = values.shape if _reach(batch[-1:]) == values.shape else None
                selection, key = self._understood(layout, batch, drop_axes, fits)
                values = _fitted(values, selection.result_shape)
                if key is not None and all(item[4] for item in batch):
                    layout, selection = self._to_the_end(layout, key, selection)
            except _NotOurs:
                selection, values = self._item_by_item(layout, batch, values, drop_axes)
            await self._run(layout, values.size * layout.form.dtype.itemsize, _write, layout, selection, values)
        except _NotOurs:
            await self._fallback.write(batch, value, drop_axes)

    async def _run(self, layout: Layout, nbytes: int, work: Any, *arguments: Any) -> None:
        waits = layout.store.remote or isinstance(layout.store, Bridged)
        if nbytes <= _INLINE_BYTES and not waits and layout.value_codec is None:
            work(*arguments)
        else:
            await in_a_thread(work, *arguments)

    async def _statuses(self, batch: list[Any]) -> tuple[dict[str, str], ...]:
        """Which chunks were there. Only looked up when somebody wants missing ones to be an error."""
        config = getattr(batch[0][1], "config", None)
        if getattr(config, "read_missing_chunks", True):
            return tuple({"status": "present"} for _ in batch)
        there = await asyncio.gather(*(item[0].exists() for item in batch))
        return tuple({"status": "present" if one else "missing"} for one in there)

    @property
    def _order(self) -> Order:
        """The order in which zarr-python's codec lays inner chunks; metadata do not have it."""
        sharding = next((codec for codec in self.codecs if isinstance(codec, ShardingCodec)), None)
        return _ORDERS.get(getattr(sharding, "subchunk_write_order", "morton"), "morton")

    # --- putting the selection together again

    def _layout_of(self, batch: list[Any]) -> Layout:
        getter, spec = batch[0][0], batch[0][1]
        own = getattr(getter, "store", None)
        if own is not self.store and (type(own) is not LocalStore or own != self.store):
            raise _NotOurs("not chunks of the array's own store")
        if spec.fill_value is None and not fills_with_zero(self.metadata.data_type.dtype):
            raise _NotOurs("no fill value")
        prefix, first = self._place(getter.path)
        # Chunks of a box come in their order, so that the last one lies the farthest along each axis; of points, any.
        others = batch[-1:] if _is_box(batch[0][2]) else batch[1:]
        farthest = map(max, zip(first, *(self._place(item[0].path)[1] for item in others), strict=True))
        # The array may have been resized without notifying its pipeline: beyond the shape that we know there may be
        # more, so a chunk at that end is like any other, unless zarr-python says that it is given as a whole.
        shape = tuple(
            max(-(-bound // extent), one + 1) * extent
            for bound, extent, one in zip(self.metadata.shape, self.metadata.chunk_shape, farthest, strict=True)
        )
        manner = None if type(self.store) is LocalStore else Manner.of(spec)
        return self._layout(prefix, bool(spec.config.write_empty_chunks), shape, manner)

    def _note(self, layout: Layout, batch: list[Any]) -> None:
        """Remember the array for reads within one chunk, if it is where our own metadata say, in a folder."""
        shape, extents = self.metadata.shape, self.metadata.chunk_shape
        whole = all(bound < size + extent for bound, size, extent in zip(layout.shape, shape, extents, strict=True))
        if type(self.store) is not LocalStore or layout.value_codec is not None or not shape or not whole:
            return
        path, separator = batch[0][0].path, self.metadata.separator
        numbers = separator.join(map(str, self._place(path)[1]))
        self._one = WithinOne(layout, self.store.root, path[: len(path) - len(numbers)], separator, extents)

    def _to_the_end(self, layout: Layout, key: tuple[Any, ...], selection: Selection) -> tuple[Layout, Selection]:
        """For chunks that are given as a whole: the layout of an array that ends where we know it to end."""
        shape = self.metadata.shape
        ends = (one.stop if isinstance(one, slice) else one + 1 for one in key)
        if any(end > bound for end, bound in zip(ends, shape, strict=True)):
            return layout, selection
        layout = self._layout(layout.store, layout.store_empty, shape)
        return layout, Selection.basic(key, shape)

    def _understood(
        self, layout: Layout, batch: list[Any], drop_axes: tuple[int, ...], shape: tuple[int, ...] | None
    ) -> tuple[Selection, tuple[Any, ...] | None]:
        """The whole selection that zarr-python cut into this batch, and its key if it is one of numbers and slices."""
        within, outside = batch[0][2], batch[0][3]
        within = within if isinstance(within, tuple) else (within,)
        ndim = len(layout.shape)
        if len(within) != ndim:
            raise _NotOurs("a selection of another rank")
        if _is_box(within):
            return self._basic(layout, batch, shape)
        if all(isinstance(one, np.ndarray) and one.ndim == 1 and one.dtype.kind in "iu" for one in within) and not (
            isinstance(outside, tuple) and len(outside) > 1
        ):
            return self._points(layout, batch), None
        return self._orthogonal(layout, batch, drop_axes), None

    def _item_by_item(
        self, layout: Layout, batch: list[Any], values: npt.NDArray[Any], drop_axes: tuple[int, ...]
    ) -> tuple[Selection, npt.NDArray[Any]]:
        """Any assignment that numpy can do chunk by chunk, as points: what `_understood` cannot make sense of."""
        ndim = len(layout.shape)
        columns: list[list[npt.NDArray[np.int64]]] = [[] for _ in range(ndim)]
        items = []
        for getter, spec, within, outside, _ in batch:
            position = self._place(getter.path)[1]
            shape = tuple(spec.shape)
            own = values if values.ndim == 0 else values[outside]
            if values.ndim and drop_axes:
                own = own[tuple(None if axis in drop_axes else slice(None) for axis in range(ndim))]
            places = []
            for axis, extent in enumerate(shape):
                along = np.arange(extent).reshape([-1 if i == axis else 1 for i in range(ndim)])
                chosen = np.asarray(np.broadcast_to(along, shape)[within])
                places.append(chosen + position[axis] * self.metadata.chunk_shape[axis])
            inside = np.ones(places[0].shape if places else (), np.bool_)
            for place, bound in zip(places, layout.shape, strict=True):
                inside &= place < bound
            items.append(np.broadcast_to(own, inside.shape)[inside])
            for column, place in zip(columns, places, strict=True):
                column.append(place[inside])
        points = tuple(np.concatenate(column) for column in columns)
        return Selection.points(points, layout.shape, layout.form.shape), np.concatenate(items)

    def _basic(
        self, layout: Layout, batch: list[Any], shape: tuple[int, ...] | None
    ) -> tuple[Selection, tuple[Any, ...]]:
        getter, _, within, outside = batch[0][:4]
        within = within if isinstance(within, tuple) else (within,)
        outside = outside if isinstance(outside, tuple) else (outside,)
        if shape is None:
            shape = _reach(batch)
        if shape is None:
            raise _NotOurs("an unusual output selection")
        position = self._place(getter.path)[1]
        extents = self.metadata.chunk_shape
        key: list[Any] = []
        axis = 0
        for place, extent, bound, one in zip(position, extents, layout.shape, within, strict=True):
            if _is_integer(one):
                key.append(place * extent + int(one))
                continue
            target = outside[axis] if axis < len(outside) else None
            if not isinstance(target, slice) or axis >= len(shape):
                raise _NotOurs("an unusual output selection")
            step = int(one.step or 1)
            start = place * extent + int(one.start or 0) - int(target.start or 0) * step
            count = shape[axis]
            axis += 1
            if step < 1 or start < 0:
                raise _NotOurs("a selection that runs backwards")
            key.append(slice(start, min(bound, start + (count - 1) * step + 1), step))
        selection = Selection.basic(tuple(key), layout.shape)
        if selection.result_shape != shape:
            raise _NotOurs("the shapes do not fit")
        return selection, tuple(key)

    def _orthogonal(self, layout: Layout, batch: list[Any], drop_axes: tuple[int, ...]) -> Selection:
        ndim = len(layout.shape)
        extents = self.metadata.chunk_shape
        lists: list[dict[int, Any]] = [{} for _ in range(ndim)]
        found: list[list[Any]] = [[] for _ in range(ndim)]
        integers: list[int | None] = [None] * ndim
        for item in batch:
            position = self._place(item[0].path)[1]
            within = item[2] if isinstance(item[2], tuple) else (item[2],)
            outside = list(item[3] if isinstance(item[3], tuple) else (item[3],))
            for axis in range(ndim):
                one = within[axis]
                if isinstance(one, np.ndarray) and one.dtype.kind not in "iu":
                    raise _NotOurs("a mask of a chunk")
                base = position[axis] * extents[axis]
                if _is_integer(one):
                    integers[axis] = base + int(one)
                    continue
                if axis in drop_axes:
                    integers[axis] = base + int(np.asarray(one).ravel()[0] if not isinstance(one, slice) else one.start)
                    continue
                target = outside.pop(0)
                if position[axis] in lists[axis]:
                    continue
                lists[axis][position[axis]] = True
                coordinates = (
                    np.arange(one.start or 0, one.stop, one.step or 1)
                    if isinstance(one, slice)
                    else np.asarray(one).ravel()
                ) + base
                found[axis].append((coordinates, _rows(target, len(coordinates))))
        key: list[Any] = []
        for axis in range(ndim):
            whole = integers[axis]
            if whole is not None:
                key.append(whole)
                continue
            length = sum(len(coordinates) for coordinates, _ in found[axis])
            column = np.full(length, -1, np.int64)
            for coordinates, rows in found[axis]:
                if len(rows) != len(coordinates) or (len(rows) and rows.max() >= length):
                    raise _NotOurs("an unusual output selection")
                column[rows] = coordinates
            if length and column.min() < 0:
                raise _NotOurs("a selection that leaves gaps in the output")
            key.append(column)
        return Selection.orthogonal(tuple(key), layout.shape, layout.form.shape)

    def _points(self, layout: Layout, batch: list[Any]) -> Selection:
        extents = self.metadata.chunk_shape
        parts = []
        total = 0
        for item in batch:
            position = self._place(item[0].path)[1]
            within = item[2] if isinstance(item[2], tuple) else (item[2],)
            target = item[3][0] if isinstance(item[3], tuple) else item[3]
            coordinates = [
                np.asarray(one) + place * extent for one, place, extent in zip(within, position, extents, strict=True)
            ]
            rows = _rows(target, len(coordinates[0]))
            if len(rows) != len(coordinates[0]):
                raise _NotOurs("an unusual output selection")
            total = max(total, int(rows.max()) + 1 if len(rows) else 0)
            parts.append((coordinates, rows))
        columns = [np.zeros(total, np.int64) for _ in extents]
        filled = 0
        for coordinates, rows in parts:
            filled += len(rows)
            for column, one in zip(columns, coordinates, strict=True):
                column[rows] = one
        if filled != total:
            raise _NotOurs("points that leave gaps in the output")
        return Selection.points(tuple(columns), layout.shape, layout.form.shape)

    def layout_at(self, path: str, store_empty: bool, shape: tuple[int, ...]) -> Layout:
        """The layout of the array at this path of a folder."""
        return self._layout(path, store_empty, shape)

    def _layout(
        self, place: str | Store, store_empty: bool, shape: tuple[int, ...], manner: Manner | None = None
    ) -> Layout:
        """The layout of the array at this place in the store, as if it had this shape."""
        at: tuple[Any, ...]
        if isinstance(place, Store):
            at = (place.root, getattr(place, "manner", None))
        else:
            # A store may have been moved.
            at = (self.store.root if type(self.store) is LocalStore else None, place, manner)
        name = (at, store_empty, shape)
        layout = self._layouts.get(name)
        if layout is None:
            if not isinstance(place, Store):
                store = as_store(self.store, manner)
                place = store.child(place) if place else store
            metadata = self.metadata if shape == self.metadata.shape else self.metadata.resized(shape)
            layout = (
                ShardLayout(place, metadata, store_empty, order_in_shard=self._order)
                if metadata.pipeline.sharding is not None
                else ChunkLayout(place, metadata, store_empty)
            )
            if len(self._layouts) >= _LAYOUTS:
                self._layouts.clear()
            self._layouts[name] = layout
        return layout

    def _place(self, path: str) -> tuple[str, tuple[int, ...]]:
        """(the array's path, the chunk's grid position) behind the path of a chunk."""
        ndim = len(self.metadata.shape)
        parts = path.split("/")
        named = self.metadata.key_prefix is not None
        if ndim == 0:
            return "/".join(parts[:-1]), ()
        if self.metadata.separator == "/":
            numbers = parts[len(parts) - ndim :]
            rest = parts[: len(parts) - ndim - named]
        else:
            numbers = parts[-1].split(".")[named:]
            rest = parts[:-1]
        return "/".join(rest), tuple(map(int, numbers))


# zarr-python names pipelines by their module: this is the name that users write.
CodecPipeline.__module__ = "zvcore.zarr3"


def _same_items(held: np.dtype[Any], ours: np.dtype[Any]) -> bool:
    """Whether items are the same, but for their byte order."""
    return held == ours or (not held.isnative and held.newbyteorder("=") == ours)


def _codecs_of(metadata: Any) -> tuple[Codec, ...]:
    """What zarr-python's own pipeline runs."""
    if hasattr(metadata, "codecs"):
        return tuple(metadata.codecs)
    return (V2Codec(filters=metadata.filters, compressor=metadata.compressor),)


def _is_box(within: Any) -> bool:
    """Whether a selection within a chunk is one of numbers and slices."""
    within = within if isinstance(within, tuple) else (within,)
    return all(isinstance(one, slice) or _is_integer(one) for one in within)


def _is_integer(one: Any) -> bool:
    return isinstance(one, (int, np.integer)) and not isinstance(one, bool)


def _reach(batch: list[Any]) -> tuple[int, ...] | None:
    """The shape of the region that a batch is of: as far as its output selections go. None where they are no slices."""
    reach: list[int] = []
    for item in batch:
        outside = item[3] if isinstance(item[3], tuple) else (item[3],)
        if not all(isinstance(one, slice) and one.stop is not None for one in outside):
            return None
        stops = [int(one.stop) for one in outside]
        reach = [max(pair) for pair in zip(reach, stops, strict=True)] if reach else stops
    return tuple(reach)


def _fitted(values: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """What numpy would assign to a region of this shape, or of too many values the first, as zarr-python takes them."""
    first = max(values.ndim - len(shape), 0)
    if all(extent == 1 for extent in values.shape[:first]):
        values = values.reshape(values.shape[first:])
    if values.ndim == len(shape):
        # With the ellipsis, a value without axes stays an array.
        key: tuple[Any, ...] = (..., *map(slice, shape))
        values = values[key]
    try:
        return np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(f"could not broadcast values of shape {values.shape} into a selection of {shape}") from None


def _rows(target: Any, count: int) -> Any:
    """An output selection along one axis as row numbers."""
    if isinstance(target, slice):
        start, step = int(target.start or 0), int(target.step or 1)
        if start < 0 or step < 1:
            raise _NotOurs("an unusual output selection")
        return np.arange(start, start + count * step, step)
    rows = np.asarray(target).ravel()
    if rows.dtype.kind not in "iu" or (len(rows) and rows.min() < 0):
        raise _NotOurs("an unusual output selection")
    return rows


def _read(layout: Layout, selection: Selection, out: Any) -> None:
    # zarr-python has big-endian arrays of v2 so in memory, too.
    if not out.dtype.isnative or (selection.is_points and not out.flags.c_contiguous):
        values = np.empty(selection.result_shape, layout.form.dtype)
        transfer.read(layout, selection, values, Work())
        out[...] = values
    else:
        transfer.read(layout, selection, out, Work())


def _write(layout: Layout, selection: Selection, values: Any) -> None:
    transfer.write(layout, selection, values, Work())


def fills_with_zero(dtype: np.dtype[Any]) -> bool:
    """Whether zarr-python, where Zarr v2 names no fill value, fills with that of ours."""
    return dtype.kind in "biufc"


def explain(array: Any) -> dict[str, Any]:
    """Whether the engine reads and writes a zarr-python array, and if not, why.

    {"pipeline": its class, "native": bool, "store": "local" | "memory" | "remote" | "bridged", "reason": None or why,
    "python": names of filters and codecs that Python runs, chunk by chunk, where the engine does all else}
    """
    inner = getattr(array, "async_array", None) or getattr(array, "_async_array", array)
    pipeline = inner.codec_pipeline
    store = inner.store_path.store
    kinds = {"LocalStore": "local", "ZarrMemory": "memory", "RemoteStore": "remote"}
    kind = kinds.get(type(as_store(store)).__name__, "bridged")
    parsed = as_metadata(inner.metadata)
    native = isinstance(pipeline, CodecPipeline)
    reason = None
    if isinstance(parsed, str):
        reason = parsed
    elif not native:
        name = type(pipeline).__name__
        reason = f"the array was opened with the pipeline {name}; set codec_pipeline.path before opening it"
    return {
        "pipeline": f"{type(pipeline).__module__}.{type(pipeline).__qualname__}",
        "native": native,
        "store": kind,
        "reason": reason,
        "python": [] if isinstance(parsed, str) else _in_python(parsed),
    }


def _in_python(metadata: ArrayMetadata) -> list[str]:
    """The codecs of an array's chunks that have nothing in C."""
    pipeline = metadata.pipeline.innermost
    filters = pipeline.filters if pipeline.filtered_in_python else ()
    names = [one if isinstance(one, str) else one["name"] for one in filters]
    items = [] if pipeline.data_type.kind == "fixed" else [f"vlen-{pipeline.data_type.kind}"]
    return [*names, *items, *(codec.name for codec in pipeline.chain.codecs if not codec.native)]
