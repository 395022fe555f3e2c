"""Packing chunks into shards and unpacking them: stored bytes are moved, never decoded, never lost.

The functions have the names, arguments and results that the `zarr-vectors` package gives them.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore.codecs.chain import CodecChain
from zvcore.engine import ABSENT, StaleSourcesError, fetch
from zvcore.errors import ConflictError, CorruptDataError, NotFoundError, UnsupportedError, ZvcoreError
from zvcore.zarr3.shard_format import ShardAssembler
from zvcore.zarr3.shard_index import ShardIndexForm
from zvcore.zvf.cells import GridCells, coords_key
from zvcore.zvf.nodes import ArrayNode, Node, child_nodes, document_bytes, join, read_node
from zvcore.zvf.staging import Staging, staging
from zvcore.zvf.store import Store, open

if TYPE_CHECKING:
    from zvcore.engine import Buffers

__all__ = ["get_shard_info", "is_sharded", "reshard", "shard_store", "unshard_store"]

Ints = npt.NDArray[np.int64]
Progress = Callable[[int, int], Any]
ShardShape = int | Sequence[int]

# Families of arrays on the chunk grid. Objects and groups are rows and have no place there.
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
    store_path: str | os.PathLike[str] | Store,
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
    store_path: str | os.PathLike[str] | Store,
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
    store_path: str | os.PathLike[str] | Store,
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


def is_sharded(store_path: str | os.PathLike[str] | Store) -> bool:
    """Whether any array of the store is packed into shards; False for what is no store."""
    try:
        store = _opened(store_path, "r")
        return any(node.sharded for _, node in per_chunk_arrays(store))
    except ZvcoreError:
        return False


def get_shard_info(store_path: str | os.PathLike[str] | Store) -> dict[str, Any]:
    """Which arrays are packed into shards, of which shape, and how many shards their grids have."""
    found = [
        {
            "name": node.path,
            "grid_shape": list(node.shape),
            "shard_shape": list(node.outer_chunk),
            "shard_count": prod(node.outer_grid),
        }
        for _, node in per_chunk_arrays(_opened(store_path, "r"))
        if node.sharded
    ]
    return {"sharded": bool(found), "arrays": found, "shard_count": sum(entry["shard_count"] for entry in found)}


# --- which arrays ---------------------------------------------------------------------------------------------------


def _opened(path: str | os.PathLike[str] | Store, mode: str) -> Store:
    return path if isinstance(path, Store) else open(path, mode)


def per_chunk_arrays(store: Store) -> Iterator[tuple[int, ArrayNode]]:
    """(level, array) of every array on a chunk grid, in order of path."""
    for number in store.levels:
        for family in sorted(FAMILIES):
            node = read_node(store.store, join(str(number), family))
            if node is not None:
                yield from ((number, array) for array in _arrays_below(node))


def _arrays_below(node: Node) -> Iterator[ArrayNode]:
    if isinstance(node, ArrayNode):
        if node.is_rows and node.ndim:
            yield node
        return
    for child in child_nodes(node.store, node.path):
        yield from _arrays_below(child)


def _chosen(store: Store, names: Sequence[str] | None) -> list[ArrayNode]:
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
    """What can be refused before a store is opened."""
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
        for task in tasks:
            before = done.cells
            report = None if progress is None else (lambda count, base=before: progress(base + count, total))
            _repack(task, place, report, threads)
            done.cells += len(task.cells)
            done.arrays += 1
    return done


@dataclass
class _Task:
    """One array to be packed anew: its stored cells as grid positions, and the shape of its shards to be."""

    node: ArrayNode
    cells: Ints
    shape: tuple[int, ...] | None


def _tasks(store: Store, shape: ShardShape | None, names: Sequence[str] | None, done: _Done) -> list[_Task]:
    tasks = []
    for node in _chosen(store, names):
        wanted = None if shape is None else shard_shape_for(shape, node.ndim)
        grid = GridCells(node)
        if shape is None and not node.sharded:
            continue
        cells = grid.stored() - grid.origin
        if not len(cells) and shape is not None:
            continue
        done.shape = done.shape or wanted
        if node.sharded and wanted is not None and node.outer_chunk == wanted:
            continue
        tasks.append(_Task(node, cells, wanted))
    return tasks


def _repack(task: _Task, place: Staging, progress: Callable[[int], Any] | None, threads: int | None) -> None:
    node = task.node
    made = place.make(node.path)
    prefix = os.path.join(made, b"c")
    nonempty = np.ones(len(task.cells), bool)
    with ThreadPoolExecutor(threads or 2) as pool:
        if task.shape is None:
            _write_flat(task, prefix, nonempty, pool, progress, threads)
        else:
            form = _index_form(node, task.shape)
            _write_shards(task, task.shape, form, prefix, nonempty, progress, threads)
    document = _new_document(task, nonempty)
    with _file(os.path.join(made, b"zarr.json")) as file:
        file.write(document_bytes(document))
    place.replace(made)


def _index_form(node: ArrayNode, shape: tuple[int, ...]) -> ShardIndexForm:
    """The index is written as the array has it already, or as Zarr does by default."""
    if not node.sharded:
        return ShardIndexForm(shape)
    return ShardIndexForm.from_json(node.index_form.to_json(), shape, node.key)


def _new_document(task: _Task, nonempty: npt.NDArray[np.bool_]) -> dict[str, Any]:
    node = task.node
    document = dict(node.document)
    inner = node.inner_codecs
    cell = [1] * node.ndim
    if task.shape is None:
        document["codecs"] = inner
    else:
        form = _index_form(node, task.shape).to_json()
        configuration = {"chunk_shape": cell, "codecs": inner, **form}
        document["codecs"] = [{"name": "sharding_indexed", "configuration": configuration}]
    shape = cell if task.shape is None else list(task.shape)
    document["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": shape}}
    document["chunk_key_encoding"] = {"name": "default", "configuration": {"separator": "/"}}
    coords = (task.cells + GridCells(node).origin)[nonempty]
    present = sorted(map(coords_key, coords.tolist()))
    document["attributes"] = {**node.attrs, "nonempty_chunks": present}
    return document


def _batches(cells: Ints, node: ArrayNode, order: Ints, threads: int | None) -> Iterator[tuple[Ints, Buffers]]:
    """Stored bytes of cells, as many at a time as fit the memory set aside: (rows of `cells`, bytes)."""
    begin, size = 0, _FIRST_BATCH
    while begin < len(order):
        rows = order[begin : begin + size]
        buffers = _stored(node, cells[rows], threads)
        yield rows, buffers
        begin += len(rows)
        size = int(min(_LARGEST_BATCH, max(1, _BATCH_BYTES * len(rows) // max(buffers.nbytes, 1))))


def _stored(node: ArrayNode, positions: Ints, threads: int | None) -> Buffers:
    for _ in range(20):
        try:
            return fetch(node.store, node.locate(positions), CodecChain(), count=len(positions), threads=threads)
        except StaleSourcesError:
            continue
    raise ConflictError("the array changes while it is being packed", key=node.path)


def _note_empty(node: ArrayNode, rows: Ints, buffers: Buffers, nonempty: npt.NDArray[np.bool_]) -> None:
    """Cells that are stored but hold no bytes are kept and not listed as present."""
    sizes = buffers.sizes
    nonempty[rows[sizes == ABSENT]] = False
    plain = not len(node.chain)
    for i in np.flatnonzero(sizes <= (8 if plain else _MAYBE_EMPTY)).tolist():
        raw: Any = buffers[i]
        for codec in reversed(node.chain.codecs):
            raw = codec.decode(raw)
        if len(raw) <= 8:
            nonempty[rows[i]] = False


def _write_flat(
    task: _Task, prefix: bytes, nonempty: npt.NDArray[np.bool_], pool: ThreadPoolExecutor,
    progress: Callable[[int], Any] | None, threads: int | None,
) -> None:  # fmt: skip
    made: set[tuple[int, ...]] = set()
    count = 0
    for rows, buffers in _batches(task.cells, task.node, np.arange(len(task.cells)), threads):
        _note_empty(task.node, rows, buffers, nonempty)
        positions = task.cells[rows].tolist()
        for position in positions:
            folder = tuple(position[:-1])
            if folder not in made:
                made.add(folder)
                os.makedirs(os.path.join(prefix, *(b"%d" % i for i in folder)), exist_ok=True)

        def write(begin: int, positions: Any = positions, buffers: Buffers = buffers) -> None:
            for i in range(begin, min(begin + 256, len(positions))):
                data = buffers[i]
                if data is not None:
                    _write_file(prefix + b"/" + b"/".join(b"%d" % n for n in positions[i]), data)

        list(pool.map(write, range(0, len(positions), 256)))
        count += len(rows)
        if progress is not None:
            progress(count)


def _write_shards(
    task: _Task, shape: tuple[int, ...], form: ShardIndexForm, prefix: bytes, nonempty: npt.NDArray[np.bool_],
    progress: Callable[[int], Any] | None, threads: int | None,
) -> None:  # fmt: skip
    per = np.array(shape, np.int64)
    grid = tuple(-(-size // side) for size, side in zip(task.node.shape, shape, strict=True))
    outer = task.cells // per
    shard = np.ravel_multi_index(tuple(outer.T), grid).astype(np.int64)
    inner = np.ravel_multi_index(tuple((task.cells - outer * per).T), shape).astype(np.int64)
    order = np.lexsort((inner, shard)).astype(np.int64)
    writer: _ShardWriter | None = None
    count = 0
    for rows, buffers in _batches(task.cells, task.node, order, threads):
        _note_empty(task.node, rows, buffers, nonempty)
        sizes = buffers.sizes
        pool, begins = buffers.joined()
        edges = np.flatnonzero(np.diff(shard[rows])) + 1
        for part in np.split(np.arange(len(rows)), edges):
            number = int(shard[rows[part[0]]])
            if writer is None or writer.number != number:
                if writer is not None:
                    writer.close()
                place = np.unravel_index(number, grid)
                writer = _ShardWriter(number, prefix + b"/" + b"/".join(b"%d" % int(i) for i in place), form)
            view = pool.data[begins[part[0]] : begins[part[-1] + 1]]
            writer.add(inner[rows[part]], sizes[part], view)
        count += len(rows)
        if progress is not None:
            progress(count)
    if writer is not None:
        writer.close()


class _ShardWriter:
    """One shard being written: chunks one after the other, the index when they are all there."""

    def __init__(self, number: int, path: bytes, form: ShardIndexForm) -> None:
        self.number = number
        self._assembler = ShardAssembler(form)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._file = _file(path)

    def add(self, inner: Ints, sizes: npt.NDArray[np.uint64], data: Any) -> None:
        at = self._assembler.add(inner, sizes)
        if len(data) != self._assembler.end - at:
            raise CorruptDataError(
                "chunks of another size than said", expected=self._assembler.end - at, found=len(data)
            )
        self.write_at(at, data)

    def write_at(self, offset: int, data: Any) -> None:
        self._file.seek(offset)
        self._file.write(data)

    def close(self) -> None:
        self._assembler.finish_in(self)
        self._file.close()


def _file(path: bytes) -> Any:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb")


def _write_file(path: bytes, data: Any) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        view = memoryview(data)
        while len(view):
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
