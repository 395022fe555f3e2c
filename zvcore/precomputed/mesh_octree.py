"""Making multi-resolution meshes: each level is cut along its cells, quantized within them, and encoded.

As Neuroglancer demands: a cell of level l is 2**l times as large as one of the finest; its vertices are whole numbers
from 0 to 2**bits - 1, so that neighbours share the places on their border; in all levels but the finest no triangle
crosses the middle of its cell; above each cell that is stored, those of all coarser levels too, empty if need be.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from zvcore import kernels
from zvcore.precomputed.draco import encode_fragment
from zvcore.precomputed.manifests import Level, Manifest
from zvcore.precomputed.mesh_cutting import Planes, cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from zvcore.precomputed.surfaces import Surface

__all__ = ["encode_mesh"]

# Triangles that are cut at once, and cells along an axis: Morton codes have 64 bits for three.
_AT_ONCE = 1 << 16
_MOST_CELLS = 1 << 21
_CELLS = (_MOST_CELLS,) * 3


def encode_mesh(
    levels: Sequence[Surface],
    *,
    bits: int = 16,
    chunk_shape: Sequence[float] | None = None,
    scales: Sequence[float] | None = None,
    compression_level: int = 7,
) -> tuple[Manifest, list[bytes]]:
    """The manifest and the fragments of a mesh, from its levels, the finest first.

    chunk_shape  the size of the finest cells, in the units of the vertices; by default such that the coarsest level is
                 one cell
    scales       how coarse each level is, in the units of the vertices; by default, the usual length of its edges
    """
    if not levels or not len(levels[0].faces):
        raise ValueError("a mesh needs a finest level with at least one triangle")
    used = [level.vertices[level.faces.reshape(-1)] for level in levels if len(level.faces)]
    low, high = (np.stack([f(one, 0) for one in used]) for f in (np.min, np.max))
    origin = low.min(0)
    shape = _cell_shape(high.max(0).astype(np.float64) - origin, len(levels), chunk_shape)
    coarse = _scales(levels) if scales is None else [float(scale) for scale in scales]
    if len(coarse) != len(levels) or not all(np.isfinite(coarse)) or coarse[0] < 0 or sorted(coarse) != coarse:
        raise ValueError(f"there is one scale for each of {len(levels)} levels, and none less than before: {coarse}")
    stored: list[dict[int, bytes]] = []
    for number, level in enumerate(levels):
        found = _Cut(level, origin, shape.astype(np.float64) * 2.0**number, bits, middle=number > 0)
        stored.append({})
        for code, vertices, faces in found.cells():
            stored[-1][code] = encode_fragment(vertices, faces, compression_level)
    if not stored[0]:
        raise ValueError(
            f"the mesh has no area: no triangle is left where vertices are rounded to {bits} bits within cells of "
            f"{shape.tolist()}"
        )
    _complete(stored, np.ceil((high.max(0).astype(np.float64) - origin) / shape))
    manifest = Manifest(shape, origin, [])
    fragments = []
    for cells, scale in zip(stored, coarse, strict=True):
        codes = sorted(cells)
        positions = _places(codes)
        sizes = np.array([len(cells[code]) for code in codes], np.uint32)
        manifest.levels.append(Level(scale, np.zeros(3, np.float32), positions.astype(np.uint32), sizes))
        fragments += [cells[code] for code in codes]
    return manifest, fragments


def _cell_shape(extent: npt.NDArray[np.float64], levels: int, given: Sequence[float] | None) -> npt.NDArray[np.float32]:
    if given is not None:
        shape = np.asarray(given, np.float32)
        if shape.shape != (3,) or not np.isfinite(shape).all() or not (shape > 0).all():
            raise ValueError(f"chunk_shape is three positive numbers, not {given!r}")
        return shape
    # What is flat has cells as well; and rounding shall not leave the last vertex outside.
    wide = np.where(extent > 0, extent, extent.max() or 1.0) / 2.0 ** (levels - 1)
    shape = wide.astype(np.float32)
    short = shape.astype(np.float64) * 2.0 ** (levels - 1) < extent
    return np.where(short, np.nextafter(shape, np.float32(np.inf)), shape)


def _scales(levels: Sequence[Surface]) -> list[float]:
    """The mean length of the edges of each level, at least that of the level before."""
    found: list[float] = []
    for level in levels:
        sample = level.faces[:: max(1, len(level.faces) // 10_000)]
        corners = level.vertices[sample].astype(np.float64)
        mean = float(np.linalg.norm(corners - np.roll(corners, 1, 1), axis=2).mean()) if len(sample) else 0.0
        found.append(float(np.float32(max(mean, *found, 1e-30))))
    return found


def _complete(stored: list[dict[int, bytes]], ends: npt.NDArray[np.float64]) -> None:
    """Add the empty cells that others need: above each cell, and at the corners of the finest level.

    Neuroglancer takes the bounds of the mesh from the finest level alone, which a coarser one may exceed.
    """
    finest = _places(list(stored[0]))
    last = np.clip(ends - 1, 0, _MOST_CELLS - 1).astype(np.int64)
    if not len(finest) or finest.min(0).any() or (finest.max(0) < last).any():
        for corner in (np.zeros((1, 3), np.int64), last[None]):
            stored[0].setdefault(int(kernels.compressed_morton(corner, _CELLS)[0]), b"")
    for finer, coarser in itertools.pairwise(stored):
        for code in finer:
            coarser.setdefault(code >> 3, b"")


def _places(codes: list[int]) -> npt.NDArray[np.int64]:
    return kernels.compressed_morton_inverse(np.array(codes, np.uint64), _CELLS)


class _Cut:
    """One level, cut along cells of `size` from `origin`; with `middle` also along the middle of each."""

    def __init__(
        self,
        surface: Surface,
        origin: npt.NDArray[np.float32],
        size: npt.NDArray[np.float64],
        bits: int,
        middle: bool,
    ) -> None:
        self.most = 2**bits - 1
        self.planes = Planes(self.most, (self.most + 1) // 2 if middle else None)
        self.faces = surface.faces
        places = (surface.vertices.astype(np.float64) - origin) / size
        self.vertices = np.rint(np.maximum(places, 0) * self.most)
        used = self.vertices[self.faces.reshape(-1)]
        self.count = np.maximum(1, np.ceil(used.max(0, initial=0) / self.most)) if len(used) else np.ones(3)
        if self.count.max() > _MOST_CELLS:
            raise ValueError(f"the mesh has {int(self.count.max())} cells along an axis: at most {_MOST_CELLS}")

    def cells(self) -> Iterator[tuple[int, npt.NDArray[Any], npt.NDArray[Any]]]:
        """(Morton code, vertices within the cell, faces) of each cell that has triangles."""
        cells, corners = [np.zeros((0, 3), np.uint32)], [np.zeros((0, 3), np.uint64)]
        for start in range(0, len(self.faces), _AT_ONCE):
            pieces = cut(self.vertices[self.faces[start : start + _AT_ONCE]], self.planes)
            # A triangle within a border plane belongs to the cell behind it, but for the last plane.
            cell = np.minimum(np.floor(pieces.min(1) / self.most), self.count - 1)
            local = (pieces - (cell * self.most)[:, None]).astype(np.uint64)
            packed = local[:, :, 0] | local[:, :, 1] << np.uint64(16) | local[:, :, 2] << np.uint64(32)
            whole = (packed != np.roll(packed, 1, 1)).all(1)
            cells.append(cell[whole].astype(np.uint32))
            corners.append(packed[whole])
        places, triangles = np.concatenate(cells), np.concatenate(corners)
        codes = kernels.compressed_morton(places.astype(np.int64), _CELLS)
        order = np.argsort(codes, kind="stable")
        bounds = [0, *(np.flatnonzero(np.diff(codes[order])) + 1).tolist(), len(order)]
        for first, last in itertools.pairwise(bounds):
            rows = order[first:last]
            if len(rows):
                packed, faces = np.unique(triangles[rows], return_inverse=True)
                vertices = np.stack([packed >> np.uint64(shift) & np.uint64(0xFFFF) for shift in (0, 16, 32)], 1)
                yield int(codes[rows[0]]), vertices.astype(np.uint32), faces.reshape(-1, 3)
