"""Writing points and lines: new stores, and more of the same into stores that exist.

Input may be arrays or anything that yields them; vertices are kept aside in a file beyond a quarter of a gigabyte. A
level is written beside the one it replaces and put in its place as a whole.
"""

from __future__ import annotations

import itertools
import os
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.errors import ConflictError, UnsupportedError
from zvcore.stores import LocalStore, open_store
from zvcore.stores import Store as ByteStore
from zvcore.zvf.assembling import Assembler, Old
from zvcore.zvf.batches import cut_lines, cut_points
from zvcore.zvf.composing import compressor_codecs, extend_bounds, root_document
from zvcore.zvf.nodes import document_bytes, read_node
from zvcore.zvf.staging import staging
from zvcore.zvf.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["write_points", "write_polylines"]

Ints = npt.NDArray[np.int64]
Path = str | os.PathLike[str] | ByteStore

# How many vertices go through the cutting at a time when input is an iterator.
_BATCH_VERTICES = 1 << 19


def write_points(
    store_path: Path,
    positions: Any,
    *,
    chunk_shape: Sequence[float] | None = None,
    bin_shape: Sequence[float] | None = None,
    bounds: tuple[Sequence[float], Sequence[float]] | None = None,
    vertex_attributes: Mapping[str, Any] | None = None,
    object_ids: Any = None,
    object_attributes: Mapping[str, Any] | None = None,
    fragment_attributes: Mapping[str, Mapping[tuple[int, ...], Any]] | None = None,
    groups: Mapping[int, Any] | None = None,
    group_attributes: Mapping[str, Any] | None = None,
    dtype: Any = "float32",
    backend: str | None = None,
    chunk_by_attribute: str | None = None,
    out_of_bounds: str | None = None,
    compressor: Any = None,
    shard_shape: int | Sequence[int] | None = None,
    append: bool = False,
) -> dict[str, Any]:
    """Write points, as objects if `object_ids` (or something that belongs to objects) is given.

    `positions` is an array of one row per point, or an iterable of such arrays; then `vertex_attributes` and
    `object_ids` are iterables of arrays of the same lengths. `out_of_bounds` says what happens to points outside
    `bounds`: "raise" (the default when bounds are given), "ignore" or "expand". With `append` the points go into a
    store that exists.
    """
    _refuse(backend, chunk_by_attribute)
    needs_objects = object_ids is not None or object_attributes is not None or groups is not None
    batches = _point_batches(positions, vertex_attributes, object_ids, np.dtype(dtype))
    first, batches = _peek(batches)
    if first is None:
        raise ValueError("Cannot write an empty set of points")
    ndim = first[0][""].shape[1]
    if chunk_shape is None and not append:
        low, high = first[0][""].min(0), first[0][""].max(0)
        side = float((high - low).max()) + abs(float(high.max())) + 1.0
        chunk_shape = (side,) * ndim
    with _writing(
        store_path, append, "point_cloud", ndim, chunk_shape, bin_shape, bounds, out_of_bounds, compressor, shard_shape
    ) as job:
        shape = job.chunk_shape
        per_chunk = _bins_per_chunk(shape, bin_shape or job.bin_shape or shape)
        bins = bin_shape or job.bin_shape or shape
        if not needs_objects:
            job.assembler.bins = prod(per_chunk)
        seen = 0
        next_id = job.old.next_id if job.old is not None else 0
        for columns, ids in batches:
            keep = job.inside(columns[""])
            if keep is not None:
                columns = {name: values[keep] for name, values in columns.items()}
                ids = None if ids is None else ids[keep]
            if needs_objects and ids is None:
                ids = np.arange(next_id + seen, next_id + seen + len(columns[""]), dtype=np.int64)
            seen += len(columns[""])
            batch, fragments = cut_points(columns, shape, bins, per_chunk, ids)
            job.assembler.add(batch, fragments, owned=ids is not None)
        result = job.assembler.finish_points(
            object_attributes, fragment_attributes, groups, group_attributes, owned=needs_objects
        )
    return {
        "vertex_count": seen,
        "chunk_count": result["chunk_count"],
        "object_count": result["object_count"],
        "group_count": len(groups or ()),
        "bins_per_chunk": per_chunk,
    }


def write_polylines(
    store_path: Path,
    polylines: Iterable[Any],
    *,
    chunk_shape: Sequence[float] | None = None,
    bin_shape: Sequence[float] | None = None,
    bounds: tuple[Sequence[float], Sequence[float]] | None = None,
    vertex_attributes: Mapping[str, Iterable[Any]] | None = None,
    object_attributes: Mapping[str, Any] | None = None,
    fragment_attributes: Mapping[str, Mapping[tuple[int, ...], Any]] | None = None,
    groups: Mapping[int, Any] | None = None,
    group_attributes: Mapping[str, Any] | None = None,
    dtype: Any = "float32",
    geometry_type: str = "streamline",
    backend: str | None = None,
    chunk_by_attribute: str | None = None,
    out_of_bounds: str | None = None,
    compressor: Any = None,
    shard_shape: int | Sequence[int] | None = None,
    object_ids: Iterable[int] | None = None,
    append: bool = False,
) -> dict[str, Any]:
    """Write lines, each an array of one row per vertex, cut at the borders of chunks.

    `polylines` and the values of `vertex_attributes` may be any iterables; they are gone through once. Ids are 0, 1, 2,
    ... unless `object_ids` gives others.
    """
    _refuse(backend, chunk_by_attribute)
    if out_of_bounds == "ignore":
        raise ValueError(
            "out_of_bounds='ignore' is not supported for write_polylines: dropping vertices would break lines"
        )
    if geometry_type not in ("streamline", "polyline", "line"):
        raise ValueError(f"geometry_type is 'streamline' or 'polyline', not {geometry_type!r}")
    batches = _line_batches(polylines, vertex_attributes, object_ids, np.dtype(dtype))
    first, batches = _peek(batches)
    if first is None:
        raise ValueError("Cannot write empty polyline list")
    if chunk_shape is None and not append:
        raise TypeError("chunk_shape is needed to write a new store")
    ndim = first[0][""].shape[1]
    count = vertices = 0
    with _writing(
        store_path, append, geometry_type, ndim, chunk_shape, bin_shape, bounds, out_of_bounds, compressor, shard_shape
    ) as job:
        for columns, offsets, ids in batches:
            job.inside(columns[""])
            batch, fragments = cut_lines(columns, offsets, job.chunk_shape)
            job.assembler.add_lines(batch, fragments, len(offsets) - 1, ids)
            count += len(offsets) - 1
            vertices += len(columns[""])
        result = job.assembler.finish_lines(object_attributes, fragment_attributes, groups, group_attributes)
    return {
        "polyline_count": count,
        "vertex_count": vertices,
        "chunk_count": result["chunk_count"],
        "cross_chunk_link_count": result["link_count"],
        "group_count": len(groups or ()),
    }


def _refuse(backend: str | None, chunk_by_attribute: str | None) -> None:
    if backend is not None:
        raise UnsupportedError(f"backend {backend!r}: stores are chosen by their path or URL")
    if chunk_by_attribute is not None:
        raise UnsupportedError("chunk_by_attribute: such stores can be read, not written")


def _bins_per_chunk(shape: Sequence[float], bins: Sequence[float]) -> tuple[int, ...]:
    if len(bins) != len(shape) or any(not side > 0 for side in bins):
        raise ValueError(f"bin_shape must be {len(shape)} positive numbers, got {tuple(bins)}")
    found = []
    for side, edge in zip(shape, bins, strict=True):
        ratio = side / edge
        if abs(ratio - round(ratio)) > 1e-9:
            raise ValueError(f"chunk_shape {tuple(shape)} is not a multiple of bin_shape {tuple(bins)}")
        found.append(round(ratio))
    return tuple(found)


# --- input ----------------------------------------------------------------------------------------------------------


def _peek(items: Iterator[Any]) -> tuple[Any, Iterator[Any]]:
    first = next(items, None)
    return first, itertools.chain([] if first is None else [first], items)


def _is_table(values: Any) -> bool:
    """Whether input is one array rather than a sequence of them."""
    return isinstance(values, np.ndarray) and values.dtype != object


def _rows(values: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype of positions is float32 or float64, not {dtype}")
    rows = np.asarray(values, dtype)
    if rows.ndim != 2 or not 1 <= rows.shape[1] <= 16:
        raise ValueError(f"positions must be a table of one row per vertex, got shape {rows.shape}")
    return rows


def _point_batches(
    positions: Any, attributes: Mapping[str, Any] | None, object_ids: Any, dtype: np.dtype[Any]
) -> Iterator[tuple[dict[str, npt.NDArray[Any]], Ints | None]]:
    whole = _is_table(positions) or (isinstance(positions, (list, tuple)) and np.ndim(positions[:1]) == 2)
    named = dict(attributes or {})
    tables = [positions] if whole else positions
    others = [iter([values] if whole else values) for values in named.values()]
    ids_of = None if object_ids is None else iter([object_ids] if whole else object_ids)
    width: int | None = None
    for table in tables:
        rows = _rows(table, dtype)
        columns = {"": rows}
        for name, values in zip(named, others, strict=True):
            columns[name] = _aligned(name, next(values, None), len(rows))
        ids = None
        if ids_of is not None:
            ids = _aligned("object_ids", next(ids_of, None), len(rows))
            ids = checked_ids(ids)
        width = width or rows.shape[1]
        if rows.shape[1] != width:
            raise ValueError(f"positions of {rows.shape[1]} and of {width} coordinates")
        if len(rows):
            yield columns, ids


def _aligned(name: str, values: Any, rows: int) -> npt.NDArray[Any]:
    if values is None:
        raise ValueError(f"{name!r} ends before the positions do")
    array = np.asarray(values)
    if array.ndim < 1 or len(array) != rows:
        raise ValueError(f"{name!r} has {len(array) if array.ndim else 'no'} rows for {rows} positions")
    return array


def checked_ids(ids: npt.NDArray[Any]) -> Ints:
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise TypeError(f"object ids are integers, got {ids.dtype}")
    if len(ids) and (ids.min() < 0 or ids.max() > 2**63 - 1):
        raise ValueError(f"object ids must be >= 0 and fit a signed 64-bit integer, got {ids.min()} to {ids.max()}")
    return ids.astype(np.int64)


def _line_batches(
    lines: Iterable[Any], attributes: Mapping[str, Iterable[Any]] | None, object_ids: Iterable[int] | None,
    dtype: np.dtype[Any],
) -> Iterator[tuple[dict[str, npt.NDArray[Any]], Ints, Ints | None]]:  # fmt: skip
    named = {name: iter(values) for name, values in (attributes or {}).items()}
    given = None if object_ids is None else iter(object_ids)
    held: list[npt.NDArray[Any]] = []
    values: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in named}
    ids: list[int] = []
    size = 0
    width: int | None = None

    def batch() -> tuple[dict[str, npt.NDArray[Any]], Ints, Ints | None]:
        columns = {"": np.concatenate(held)}
        for name, parts in values.items():
            columns[name] = np.concatenate(parts)
        offsets = np.cumsum([0, *map(len, held)]).astype(np.int64)
        return columns, offsets, None if given is None else checked_ids(np.array(ids))

    for line in lines:
        rows = _rows(line, dtype)
        width = width or rows.shape[1]
        if rows.shape[1] != width:
            raise ValueError(f"lines of {rows.shape[1]} and of {width} coordinates")
        for name, source in named.items():
            values[name].append(_aligned(name, next(source, None), len(rows)))
        if given is not None:
            number = next(given, None)
            if number is None:
                raise ValueError("object_ids end before the lines do")
            ids.append(number)
        held.append(rows)
        size += len(rows)
        if size >= _BATCH_VERTICES:
            yield batch()
            held, ids, size = [], [], 0
            values = {name: [] for name in named}
    if held:
        yield batch()


# --- where it goes --------------------------------------------------------------------------------------------------


class _Job:
    """What is being written, and the store that it goes into."""

    def __init__(self, chunk_shape: Sequence[float], bin_shape: Any, old: Old | None, policy: str) -> None:
        self.chunk_shape = tuple(chunk_shape)
        self.bin_shape = bin_shape
        self.old = old
        self.policy = policy
        self.fixed: tuple[npt.NDArray[Any], npt.NDArray[Any]] | None = None
        self.low: npt.NDArray[Any] | None = None
        self.high: npt.NDArray[Any] | None = None
        self.assembler: Assembler

    def inside(self, positions: npt.NDArray[Any]) -> npt.NDArray[np.bool_] | None:
        """Take note of where positions are; which of them to keep, None for all."""
        keep: npt.NDArray[np.bool_] | None = None
        if self.fixed is not None and self.policy != "expand":
            low, high = (bound.astype(positions.dtype) for bound in self.fixed)
            within = np.logical_and(positions >= low, positions <= high).all(axis=1)
            if not within.all():
                if self.policy == "raise":
                    raise ValueError(
                        f"{int((~within).sum())} of {len(positions)} points are outside store bounds "
                        f"{self.fixed[0].tolist()} to {self.fixed[1].tolist()}"
                    )
                keep = np.asarray(within)
                positions = positions[keep]
        if len(positions):
            low, high = positions.min(0).astype(float), positions.max(0).astype(float)
            self.low = low if self.low is None else np.minimum(self.low, low)
            self.high = high if self.high is None else np.maximum(self.high, high)
        return keep

    def bounds(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Of the store, once everything is in it."""
        lows = [low for low in (self.low, None if self.fixed is None else self.fixed[0]) if low is not None]
        highs = [high for high in (self.high, None if self.fixed is None else self.fixed[1]) if high is not None]
        if not lows:
            raise ValueError("nothing is left to write")
        return np.min(lows, 0), np.max(highs, 0)


@contextmanager
def _writing(
    path: Path, append: bool, geometry: str, ndim: int, chunk_shape: Any, bin_shape: Any, bounds: Any,
    policy: str | None, compressor: Any, shard_shape: Any,
) -> Iterator[_Job]:  # fmt: skip
    if policy not in (None, "raise", "ignore", "expand"):
        raise ValueError(f"out_of_bounds is 'raise', 'ignore' or 'expand', not {policy!r}")
    store = open_store(path, "r+" if append else "w")
    if append:
        parent = Store(store)
        if parent.ndim != ndim:
            raise ValueError(f"positions of {ndim} coordinates for a store of {parent.ndim}")
        if chunk_shape is not None and tuple(map(float, chunk_shape)) != tuple(map(float, parent.chunk_shape)):
            raise ValueError(f"the store's chunk_shape is {parent.chunk_shape}, not {tuple(chunk_shape)}")
        if geometry not in parent.geometry_types:
            raise ValueError(f"the store holds {', '.join(parent.geometry_types)}, not {geometry}")
    elif read_node(store, "") is not None or any(True for _ in store.list("")):
        raise ConflictError(f"{store.root} exists already; append=True writes into it", key="zarr.json")
    shape = parent.chunk_shape if append else _checked_chunk_shape(chunk_shape, ndim)
    if bin_shape is not None:
        _bins_per_chunk(shape, bin_shape)
    if isinstance(store, LocalStore):
        os.makedirs(store.root, exist_ok=True)
        with staging(store) as place:
            made = place.make("0")
            old = Old(Store(store).level(0)) if append else None
            job = _job(store, shape, bin_shape, old, policy, bounds, append)
            job.assembler = Assembler(job, made, geometry, compressor_codecs(compressor), shard_shape)
            try:
                yield job
                _put_root(store, job, geometry, bin_shape)
                place.replace(made)
            finally:
                job.assembler.close()
        return
    if append:
        raise UnsupportedError(f"{store.root}: only stores in local folders can be appended to")
    job = _job(store, shape, bin_shape, None, policy, bounds, append)
    job.assembler = Assembler(job, store.child("0"), geometry, compressor_codecs(compressor), shard_shape)
    try:
        yield job
        _put_root(store, job, geometry, bin_shape)
    finally:
        job.assembler.close()


def _job(
    store: ByteStore, shape: Sequence[float], bin_shape: Any, old: Old | None, policy: str | None, bounds: Any,
    append: bool,
) -> _Job:  # fmt: skip
    job = _Job(shape, bin_shape, old, policy or ("raise" if bounds is not None else "expand"))
    if bounds is None and append:
        parent = Store(store)
        job.bin_shape = bin_shape or parent.metadata.get("base_bin_shape")
        bounds = parent.bounds
    if bounds is not None:
        low, high = (np.array(bound, float) for bound in bounds)
        if low.shape != (len(shape),) or high.shape != low.shape or not (low <= high).all():
            raise ValueError(f"bounds are two corners of {len(shape)} coordinates, got {bounds}")
        job.fixed = (low, high)
    return job


def _checked_chunk_shape(shape: Any, ndim: int) -> tuple[float, ...]:
    sides = tuple(side.item() if isinstance(side, np.generic) else side for side in shape)
    if len(sides) != ndim or not all(isinstance(side, (int, float)) and 0 < side < float("inf") for side in sides):
        raise ValueError(f"chunk_shape must be {ndim} positive numbers, got {sides}")
    return sides


def _put_root(store: ByteStore, job: _Job, geometry: str, bin_shape: Any) -> None:
    node = read_node(store, "")
    low, high = job.bounds()
    if node is None:
        name = os.path.basename(store.root.rstrip("/"))
        document = root_document(name, job.chunk_shape, (low.tolist(), high.tolist()), geometry, bin_shape)
    else:
        document = extend_bounds(node.document, low.tolist(), high.tolist())
    store.put("zarr.json", document_bytes(document))
