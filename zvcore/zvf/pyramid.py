"""A coarser level from a finer one: fewer vertices per object, equal pieces stored once, objects left out by id."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from zvcore import documents
from zvcore.errors import ConflictError, UnsupportedError
from zvcore.kernels import fragments as fragment_kernel
from zvcore.stores import LocalStore, open_store
from zvcore.stores.staging import staging
from zvcore.zarr3.consolidating import tell_all
from zvcore.zarr3.metadata import DOCUMENT
from zvcore.zvf.batches import chunk_coords
from zvcore.zvf.building import LevelBuilder
from zvcore.zvf.cells import GridCells
from zvcore.zvf.composing import dataset, level_attributes
from zvcore.zvf.manifests import ManifestTable
from zvcore.zvf.reading import Vectors, unique_cells
from zvcore.zvf.vector_store import Level, VectorStore

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["write_coarser_level"]

Ints = npt.NDArray[np.int64]


def write_coarser_level(
    store_path: str | os.PathLike[str],
    *,
    every: int = 2,
    snap: Sequence[float] | None = None,
    keep: Any = None,
) -> dict[str, int]:
    """Add a level to a store of lines or of points with objects.

    Each object keeps every `every`-th vertex, lines also their last. `snap` moves vertices to the centres of bins of
    that shape and drops those that then repeat the one before; pieces of objects that are equal afterwards are stored
    once and shared. `keep` is the ids of the objects to keep; the others keep their id with an empty manifest.
    """
    if every < 1 or every != int(every):
        raise ValueError(f"every must be a whole number of at least 1, got {every!r}")
    byte_store = open_store(store_path, "r+")
    store = VectorStore(byte_store)
    numbers = store.levels
    if not numbers or not isinstance(byte_store, LocalStore):
        raise UnsupportedError("a coarser level is added to a store in a local folder", key=byte_store.root)
    fine = store.level(numbers[-1])
    number = fine.number + 1
    if not isinstance(fine.vertices, GridCells) or fine.grid_ndim != fine.ndim:
        raise UnsupportedError("only levels of format 0.9 without attribute bins can be made coarser", key=fine.path)
    objects = fine.require_objects()
    ids = objects.ids
    wanted = np.ones(len(ids), bool) if keep is None else np.isin(ids, np.asarray(keep, np.int64))
    if not wanted.any():
        raise ValueError("no object is kept")
    found = fine.read_objects(ids[wanted])
    reduced = _decimated(found, every, store.is_lines)
    if snap is not None:
        reduced = _snapped(reduced, snap, fine)
    with staging(byte_store) as place:
        made = place.make(str(number))
        if os.path.exists(os.path.join(os.fsencode(byte_store.root), str(number).encode())):
            raise ConflictError(f"there is a level {number} already", key=str(number))
        result = _write(made, fine, reduced, ids, wanted, number)
        shared = result["shared_fragment_count"]
        # The level first: a store that declares a level that is not there would be broken.
        place.replace(made)
        capabilities = ["preserved_object_ids"] * (keep is not None) + ["shared_fragments"] * (shared > 0)
        _state_level(byte_store, store, number, capabilities)
    tell_all(byte_store)
    return result


def _decimated(found: Vectors, every: int, lines: bool) -> Vectors:
    lengths = np.diff(found.offsets)
    within = np.arange(len(found.positions)) - np.repeat(found.offsets[:-1], lengths)
    chosen = within % every == 0
    if lines:
        chosen[found.offsets[1:][lengths > 0] - 1] = True
    return _chosen(found, chosen)


def _chosen(found: Vectors, chosen: npt.NDArray[np.bool_]) -> Vectors:
    sums = np.concatenate([[0], np.cumsum(chosen)]).astype(np.int64)
    return Vectors(found.positions[chosen], sums[found.offsets], found.object_ids)


def _snapped(found: Vectors, snap: Sequence[float], level: Level) -> Vectors:
    bins = np.asarray(snap, float)
    if bins.shape != (level.ndim,) or not (bins > 0).all():
        raise ValueError(f"snap is {level.ndim} positive numbers, got {tuple(snap)}")
    cells = np.floor(found.positions / bins)
    moved = ((cells + 0.5) * bins).astype(found.positions.dtype)
    row = np.repeat(np.arange(len(found)), np.diff(found.offsets))
    chosen = np.ones(len(moved), bool)
    chosen[1:] = (cells[1:] != cells[:-1]).any(1) | (row[1:] != row[:-1])
    return _chosen(Vectors(moved, found.offsets, found.object_ids), chosen)


def _write(
    made: LocalStore, fine: Level, found: Vectors, ids: Ints, wanted: npt.NDArray[np.bool_], number: int
) -> dict[str, int]:
    assert isinstance(fine.vertices, GridCells)
    coords = chunk_coords(found.positions, fine.chunk_shape)
    row = np.repeat(np.arange(len(found)), np.diff(found.offsets))
    begins = np.ones(len(coords), bool)
    begins[1:] = (coords[1:] != coords[:-1]).any(1) | (row[1:] != row[:-1])
    starts = np.flatnonzero(begins)
    counts = np.diff(np.append(starts, len(coords)))
    chunks, which = unique_cells(coords[starts])
    origin = np.minimum(fine.vertices.origin, chunks.min(0)) if len(chunks) else fine.vertices.origin
    ends = fine.vertices.origin + np.array(fine.vertices.node.shape)
    grid = np.maximum(ends, chunks.max(0) + 1) - origin if len(chunks) else ends - origin
    builder = LevelBuilder(
        made, grid.tolist(), origin.tolist(), fine.vertices.node.compressor, fine.vertices.node.shard
    )
    dtype = found.positions.dtype
    little = dtype.newbyteorder("<")
    fragment = np.empty(len(starts), np.int64)
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(len(chunks) + 1))
    total = shared = 0
    kind = {"zv_array": "vertices", "dtype": dtype.name, "encoding": "raw"}
    index = {"zv_array": "vertex_fragments", "encoding": "fragment_index_v1"}
    with builder.cells("vertices", kind) as vertices, builder.cells("vertex_fragments", index) as indices:
        for k in builder.order(chunks).tolist():
            mine = order[bounds[k] : bounds[k + 1]]
            known: dict[bytes, int] = {}
            sizes: list[int] = []
            for piece in mine.tolist():
                rows = found.positions[starts[piece] : starts[piece] + counts[piece]]
                data = np.ascontiguousarray(rows, little).tobytes()
                at = known.setdefault(data, len(known))
                fragment[piece] = at
                if at == len(sizes):
                    sizes.append(int(counts[piece]))
                else:
                    shared += 1
            lengths = np.array(sizes, np.int64)
            vertices.add(chunks[k].tolist(), b"".join(known))
            indices.add(chunks[k].tolist(), fragment_kernel.encode_ranges(np.cumsum(lengths) - lengths, lengths))
            total += int(lengths.sum())
    offsets = np.zeros(len(ids) + 1, np.int64)
    per_object = np.zeros(len(ids), np.int64)
    per_object[wanted] = np.bincount(row[starts], minlength=len(found))
    np.cumsum(per_object, out=offsets[1:])
    builder.object_index(ManifestTable.from_csr(offsets, chunks[which], fragment, ids))
    for name in fine.object_attribute_names():
        builder.object_attribute(name, fine.object_attribute(name)[: len(ids)])
    more: dict[str, Any] = {"object_sparsity": float(wanted.mean()), "coarsening_method": "decimate",
                            "parent_level": fine.number, "preserves_object_ids": True,
                            "shared_fragments": shared > 0}  # fmt: skip
    if fine.metadata.get("chunk_shape") is not None:
        more["chunk_shape"] = fine.metadata["chunk_shape"]
    builder.group("", level_attributes(number, total, ["vertices", "object_index"], True, **more))
    return {"vertex_count": total, "object_count": int(wanted.sum()), "shared_fragment_count": shared}


def _state_level(byte_store: LocalStore, store: VectorStore, number: int, capabilities: Sequence[str]) -> None:
    """The root's list of levels, and the capabilities that readers of this store need."""
    half = [side / 2 for side in store.chunk_shape]

    def changed(document: dict[str, Any] | None) -> dict[str, Any]:
        assert document is not None
        attributes = document["attributes"]
        metadata = attributes["zarr_vectors"]
        metadata["format_capabilities"] = [*dict.fromkeys([*metadata.get("format_capabilities", []), *capabilities])]
        scales = attributes.get("multiscales")
        if scales:
            entry = dataset(number, [1.0] * store.ndim, half)
            scales[0]["datasets"] = [*scales[0].get("datasets", []), entry]
        ome = attributes.get("ome")
        if isinstance(ome, dict) and isinstance(ome.get("nodes"), list):
            ome["nodes"].append({"type": "zv:level", "name": str(number)})
        return document

    documents.change(byte_store, DOCUMENT, changed)
