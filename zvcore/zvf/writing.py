"""Writing points and lines: new stores, and more of the same into stores that exist.

Input may be arrays or anything that yields them; vertices are kept aside in a file beyond a quarter of a gigabyte. A
level is written beside the one it replaces and put in its place as a whole.
"""

from __future__ import annotations

import itertools
import os
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.errors import UnsupportedError
from zvcore.stores import Store
from zvcore.zvf.batches import cut_lines, cut_points
from zvcore.zvf.inputs import Belongings, line_batches, point_batches
from zvcore.zvf.jobs import Wanted, bins_per_chunk, positions_dtype, writing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zvcore.zvf.jobs import Job

__all__ = ["write_points", "write_polylines"]

Path = str | os.PathLike[str] | Store


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
    dtype: Any = None,
    backend: str | None = None,
    chunk_by_attribute: str | None = None,
    out_of_bounds: str | None = None,
    compressor: Any = None,
    shard_shape: int | Sequence[int] | None = None,
    append: bool = False,
    overwrite: bool = False,
    axes: Sequence[Mapping[str, str]] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write points, as objects if `object_ids` (or something that belongs to objects) is given.

    `positions` is an array of one row per point, or an iterable of such arrays; then `vertex_attributes` and
    `object_ids` are iterables of arrays of the same lengths. `out_of_bounds` says what happens to points outside
    `bounds`: "raise" (the default when bounds are given), "ignore" or "expand". With `append` the points go into a
    store that exists; with `overwrite` they take its place, once all are written. Positions are float32 unless `dtype`
    says float64, or, with `append`, what the store has. A new store may have `axes` ({"name": "x", "unit":
    "micrometer"} for each coordinate) and further attributes.
    """
    _refuse(backend, chunk_by_attribute, append and overwrite)
    belongings = Belongings.of(object_attributes, fragment_attributes, groups, group_attributes)
    owned = object_ids is not None or object_attributes is not None or groups is not None
    batches = point_batches(positions, vertex_attributes, object_ids, positions_dtype(store_path, append, dtype))
    first, batches = _peek(batches)
    if first is None:
        raise ValueError("Cannot write an empty set of points")
    if chunk_shape is None and not append:
        chunk_shape = _around(first[0][""])
    wanted = Wanted(
        store_path, "point_cloud", append, chunk_shape, bin_shape, bounds, out_of_bounds, compressor, shard_shape,
        overwrite, axes, attrs,
    )  # fmt: skip
    with writing(wanted, first[0][""].shape[1]) as job:
        bins = job.bin_shape or job.chunk_shape
        per_chunk = bins_per_chunk(job.chunk_shape, bins)
        seen = _add_points(job, batches, bins, per_chunk, owned)
        result = job.assembler.finish_points(belongings, owned)
    return {
        "vertex_count": seen,
        "chunk_count": result["chunk_count"],
        "object_count": result["object_count"],
        "group_count": len(belongings.groups),
        "bins_per_chunk": per_chunk,
    }


def _around(positions: npt.NDArray[Any]) -> tuple[float, ...]:
    """A chunk that is certain to hold these positions."""
    low, high = positions.min(0), positions.max(0)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError("positions must be finite")
    side = float((high - low).max()) + abs(float(high.max())) + 1.0
    return (side,) * len(low)


def _add_points(job: Job, batches: Iterator[Any], bins: Sequence[float], per_chunk: Sequence[int], owned: bool) -> int:
    """How many points were added."""
    if not owned:
        job.assembler.bins = prod(per_chunk)
    seen, next_id = 0, 0 if job.old is None else job.old.next_id
    for columns, ids in batches:
        keep = job.extent.inside(columns[""])
        if keep is not None:
            columns = {name: values[keep] for name, values in columns.items()}
            ids = None if ids is None else ids[keep]
        if owned and ids is None:
            ids = np.arange(next_id + seen, next_id + seen + len(columns[""]), dtype=np.int64)
        seen += len(columns[""])
        batch, fragments = cut_points(columns, job.chunk_shape, bins, per_chunk, ids)
        job.assembler.add(batch, fragments, owned=ids is not None)
    return seen


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
    dtype: Any = None,
    geometry_type: str = "streamline",
    backend: str | None = None,
    chunk_by_attribute: str | None = None,
    out_of_bounds: str | None = None,
    compressor: Any = None,
    shard_shape: int | Sequence[int] | None = None,
    object_ids: Iterable[int] | None = None,
    append: bool = False,
    overwrite: bool = False,
    axes: Sequence[Mapping[str, str]] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write lines, each an array of one row per vertex, cut at the borders of chunks.

    `polylines` and the values of `vertex_attributes` may be any iterables; they are gone through once. Ids are 0, 1, 2,
    ... unless `object_ids` gives others. Positions are float32 unless `dtype` says float64, or, with `append`, what the
    store has. With `overwrite` the lines take the place of what is there, once all are written. A new store may have
    `axes` ({"name": "x", "unit": "micrometer"} for each coordinate) and further attributes.
    """
    _refuse(backend, chunk_by_attribute, append and overwrite)
    if out_of_bounds == "ignore":
        raise ValueError(
            "out_of_bounds='ignore' is not supported for write_polylines: dropping vertices would break lines"
        )
    if geometry_type not in ("streamline", "polyline", "line"):
        raise ValueError(f"geometry_type is 'streamline' or 'polyline', not {geometry_type!r}")
    belongings = Belongings.of(object_attributes, fragment_attributes, groups, group_attributes)
    batches = line_batches(polylines, vertex_attributes, object_ids, positions_dtype(store_path, append, dtype))
    first, batches = _peek(batches)
    if first is None:
        raise ValueError("Cannot write empty polyline list")
    if chunk_shape is None and not append:
        raise TypeError("chunk_shape is needed to write a new store")
    wanted = Wanted(
        store_path, geometry_type, append, chunk_shape, bin_shape, bounds, out_of_bounds, compressor, shard_shape,
        overwrite, axes, attrs,
    )  # fmt: skip
    count = vertices = 0
    with writing(wanted, first[0][""].shape[1]) as job:
        for columns, offsets, ids in batches:
            job.extent.inside(columns[""])
            batch, fragments = cut_lines(columns, offsets, job.chunk_shape)
            job.assembler.add_lines(batch, fragments, len(offsets) - 1, ids)
            count += len(offsets) - 1
            vertices += len(columns[""])
        result = job.assembler.finish_lines(belongings)
    return {
        "polyline_count": count,
        "vertex_count": vertices,
        "chunk_count": result["chunk_count"],
        "cross_chunk_link_count": result["link_count"],
        "group_count": len(belongings.groups),
    }


def _refuse(backend: str | None, chunk_by_attribute: str | None, both: bool) -> None:
    if both:
        raise ValueError("append adds to what overwrite removes: give one of them")
    if backend is not None:
        raise UnsupportedError(f"backend {backend!r}: stores are chosen by their path or URL")
    if chunk_by_attribute is not None:
        raise UnsupportedError("chunk_by_attribute: such stores can be read, not written")


def _peek(items: Iterator[Any]) -> tuple[Any, Iterator[Any]]:
    first = next(items, None)
    return first, itertools.chain([] if first is None else [first], items)
