"""Packing chunks into shards and unpacking them: stored bytes are moved, never decoded, never lost.

The functions have the names, arguments and results that the `zarr-vectors` package gives them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import documents, transfer
from zvcore.engine import ABSENT
from zvcore.errors import NotFoundError, UnsupportedError, ZvcoreError
from zvcore.stores.staging import Staging, staging
from zvcore.transfer import OrderedWriter
from zvcore.zarr3.composing import inner_codecs, regular_grid, sharded_codecs
from zvcore.zarr3.consolidating import tell_all
from zvcore.zarr3.metadata import DOCUMENT, ArrayMetadata, parse_document
from zvcore.zarr3.shard_index import ShardIndexForm
from zvcore.zarr3.sharding import ShardLayout, layout_of
from zvcore.zvf.cells import GridCells, coords_key
from zvcore.zvf.nodes import Column, Node, child_nodes, join, read_node
from zvcore.zvf.vector_store import VectorStore, open

if TYPE_CHECKING:
    import os

    from zvcore.engine import Buffers

__all__ = ["get_shard_info", "is_sharded", "reshard", "shard_store", "unshard_store"]

Ints = npt.NDArray[np.int64]
Progress = Callable[[int, int], Any]
ShardShape = int | Sequence[int]

# Families of arrays on the chunk grid, where objects and groups, which are rows, have no place.
FAMILIES = (
    "vertices", "vertex_fragments", "vertex_attributes", "fragment_attributes", "link_fragments", "links",
    "link_attributes",
)  # fmt: skip

# Stored bytes held at a time, per array.
_BATCH_BYTES = 64 << 20
_FIRST_BATCH = 2048
_LARGEST_BATCH = 1 << 16

# Encoded cells up to this size may hold nothing; larger ones need no look.
_MAYBE_EMPTY = 64


def shard_store(
    store_path: str | os.PathLike[str] | VectorStore,
    *,
    shard_shape: ShardShape = 8,
    arrays: Sequence[str] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """Pack every per-chunk array of a store into shards of `shard_shape` chunks.

    Arrays that are packed so already are left alone. With `dry_run` nothing is written and the result says what would
    be. `progress(done, total)` counts cells.
    """
    _check_shape(shard_shape)
    done = _convert(store_path, shard_shape, arrays, dry_run, progress, threads)
    return {
        "arrays_sharded": done.arrays,
        "chunks_packed": done.cells,
        "shard_shape": None if done.shape is None else list(done.shape),
    }


def unshard_store(
    store_path: str | os.PathLike[str] | VectorStore,
    *,
    arrays: Sequence[str] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """Unpack every sharded per-chunk array into one object per chunk."""
    done = _convert(store_path, None, arrays, dry_run, progress, threads)
    return {"arrays_unsharded": done.arrays, "chunks_extracted": done.cells}


def reshard(
    store_path: str | os.PathLike[str] | VectorStore,
    shard_shape: ShardShape | None,
    *,
    arrays: Sequence[str] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """Change the shape of the shards; None unpacks them."""
    if shard_shape is None:
        if not is_sharded(store_path):
            return {"action": "noop", "message": "already unsharded"}
        done = unshard_store(store_path, arrays=arrays, dry_run=dry_run, progress=progress, threads=threads)
        return {"action": "unshard", **done}
    return {
        "action": "shard",
        **shard_store(
            store_path, shard_shape=shard_shape, arrays=arrays, dry_run=dry_run, progress=progress, threads=threads
        ),
    }


def is_sharded(store_path: str | os.PathLike[str] | VectorStore) -> bool:
    """Whether any array of the store is packed into shards; False for what is no store."""
    try:
        store = _opened(store_path, "r")
        return any(node.shard is not None for _, node in per_chunk_arrays(store))
    except ZvcoreError:
        return False


def get_shard_info(store_path: str | os.PathLike[str] | VectorStore) -> dict[str, Any]:
    """Which arrays are packed into shards, of which shape, and how many shards their grids have."""
    found = [
        {
            "name": node.path,
            "grid_shape": list(node.shape),
            "shard_shape": list(node.shard),
            "shard_count": prod(node.metadata.grid),
        }
        for _, node in per_chunk_arrays(_opened(store_path, "r"))
        if node.shard is not None
    ]
    return {"sharded": bool(found), "arrays": found, "shard_count": sum(entry["shard_count"] for entry in found)}


# --- which arrays ---------------------------------------------------------------------------------------------------


def _opened(path: str | os.PathLike[str] | VectorStore, mode: str) -> VectorStore:
    return path if isinstance(path, VectorStore) else open(path, mode)


def per_chunk_arrays(store: VectorStore) -> Iterator[tuple[int, Column]]:
    """(level, array) of every array on a chunk grid, in order of path."""
    for number in store.levels:
        for family in sorted(FAMILIES):
            node = read_node(store.store, join(str(number), family))
            if node is not None:
                yield from ((number, array) for array in _arrays_below(node))


def _arrays_below(node: Node) -> Iterator[Column]:
    if isinstance(node, Column):
        if node.is_rows and node.ndim:
            yield node
        return
    for child in child_nodes(node.store, node.path):
        yield from _arrays_below(child)


def _chosen(store: VectorStore, names: Sequence[str] | None) -> list[Column]:
    found = [node for _, node in per_chunk_arrays(store)]
    if not found and store.levels:
        raise UnsupportedError(f"format {store.version} stores chunks as arrays of their own; there is no grid to pack",
                               key=store.store.root)  # fmt: skip
    if names is None:
        return found
    if isinstance(names, str):
        raise TypeError("arrays is a list of names")
    wanted = []
    for node in found:
        inside = node.path.partition("/")[2]
        if any(inside == name or inside.startswith(name + "/") for name in names):
            wanted.append(node)
    for name in names:
        if not any(node.path.partition("/")[2].startswith(name) for node in wanted):
            raise NotFoundError(f"no level has a per-chunk array {name!r}", key=store.store.root)
    return wanted


def _check_shape(shape: Any) -> None:
    """Refuses what can be refused before a store is opened."""
    if shape is None or isinstance(shape, (bool, str, bytes)):
        raise TypeError(f"shard_shape is a number or one number per axis, not {shape!r}")
    if isinstance(shape, (float, np.floating)):
        raise TypeError(f"{type(shape).__name__!r} object is not iterable: shard_shape is a whole number or several")


def shard_shape_for(shape: ShardShape, ndim: int) -> tuple[int, ...]:
    """The shape of a shard in chunks, one number per axis."""
    if isinstance(shape, (int, np.integer)):
        if shape < 1:
            raise ValueError(f"shard_shape must be >= 1, got {shape}")
        return (int(shape),) * ndim
    if any(isinstance(side, bool) for side in shape):
        raise TypeError(f"shard_shape is a number or one number per axis, not {shape!r}")
    sides = tuple(operator.index(side) for side in shape)
    if len(sides) != ndim:
        raise ValueError(f"shard_shape {sides} has rank {len(sides)} but chunks have rank {ndim}")
    if any(side < 1 for side in sides):
        raise ValueError(f"shard_shape components must be >= 1, got {sides}")
    return sides


# --- converting -----------------------------------------------------------------------------------------------------


@dataclass
class _Done:
    arrays: int = 0
    cells: int = 0
    shape: tuple[int, ...] | None = None


@dataclass
class _Task:
    """One array to be packed again: its stored cells as grid positions, and the shape of its shards to be."""

    node: Column
    cells: Ints
    shape: tuple[int, ...] | None


def _convert(
    path: Any, shape: ShardShape | None, names: Sequence[str] | None, dry_run: bool, progress: Progress | None,
    threads: int | None,
) -> _Done:  # fmt: skip
    store = _opened(path, "r" if dry_run else "r+")
    done = _Done()
    if dry_run:
        for task in _tasks(store, shape, names, done):
            done.cells += len(task.cells)
            done.arrays += 1
        return done
    with staging(store.store) as place:
        tasks = _tasks(store, shape, names, done)
        total = sum(len(task.cells) for task in tasks)
        try:
            for task in tasks:
                before = done.cells
                report = None if progress is None else (lambda count, base=before: progress(base + count, total))
                _repack(task, place, report, threads)
                done.cells += len(task.cells)
                done.arrays += 1
        finally:
            # Of several arrays, those before an error are packed: who reads them as they were told finds nothing.
            tell_all(store.store)
    return done


def _tasks(store: VectorStore, shape: ShardShape | None, names: Sequence[str] | None, done: _Done) -> list[_Task]:
    tasks = []
    for node in _chosen(store, names):
        wanted = None if shape is None else shard_shape_for(shape, node.ndim)
        grid = GridCells(node)
        if shape is None and not node.shard:
            continue
        cells = grid.stored() - grid.origin
        if not len(cells) and shape is not None:
            continue
        done.shape = done.shape or wanted
        if wanted is None or node.shard != wanted:
            tasks.append(_Task(node, cells, wanted))
    return tasks


def _repack(task: _Task, place: Staging, progress: Callable[[int], Any] | None, threads: int | None) -> None:
    node = task.node
    made = place.make(node.path)
    document = _new_document(task)
    metadata = parse_document(document, node.key)
    assert isinstance(metadata, ArrayMetadata)
    cells = task.cells
    if task.shape is not None:
        outer = cells // np.array(task.shape, np.int64)
        cells = cells[np.lexsort((*cells.T[::-1], *outer.T[::-1]))]
    present: list[Ints] = []
    count = 0
    with OrderedWriter(layout_of(made, metadata)) as writer:
        for positions, chunks in _batches(cells, node, threads):
            present.append(positions[_hold_something(node, chunks)])
            writer.add(positions, chunks)
            count += len(positions)
            if progress is not None:
                progress(count)
    coords = np.concatenate([np.zeros((0, node.ndim), np.int64), *present]) + GridCells(node).origin
    listed = sorted(map(coords_key, coords.tolist()))
    document["attributes"] = {**node.attrs, "nonempty_chunks": listed}
    made.put(DOCUMENT, documents.encode(document))
    place.replace(made)


def _new_document(task: _Task) -> dict[str, Any]:
    node = task.node
    codecs = inner_codecs(node.document["codecs"])
    if task.shape is not None:
        form = node.layout.levels[0].form if isinstance(node.layout, ShardLayout) else ShardIndexForm(task.shape)
        codecs = sharded_codecs([1] * node.ndim, codecs, form.to_json())
    return {
        **node.document,
        "codecs": codecs,
        "chunk_grid": regular_grid(task.shape or [1] * node.ndim),
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    }


def _batches(cells: Ints, node: Column, threads: int | None) -> Iterator[tuple[Ints, Buffers]]:
    """(positions, stored bytes) of cells, as many at a time as fit the memory set aside."""
    begin, size = 0, _FIRST_BATCH
    while begin < len(cells):
        positions = cells[begin : begin + size]
        chunks = transfer.read_encoded(node.layout, positions, threads)
        yield positions, chunks
        begin += len(positions)
        size = int(min(_LARGEST_BATCH, max(1, _BATCH_BYTES * len(positions) // max(chunks.nbytes, 1))))


def _hold_something(node: Column, chunks: Buffers) -> npt.NDArray[np.bool_]:
    """Which cells hold bytes: those that are stored without any are kept and not listed as present."""
    sizes = chunks.sizes
    found: npt.NDArray[np.bool_] = sizes != ABSENT
    decode = node.layout.chains[0].codecs[::-1]
    for row in np.flatnonzero(sizes <= (_MAYBE_EMPTY if decode else 8)).tolist():
        raw: Any = chunks[row]
        for codec in decode:
            raw = codec.decode(raw)
        found[row] = len(raw) > 8
    return found
