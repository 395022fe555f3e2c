"""Meshes: zmesh finds the surfaces of the segments of a box and simplifies them; those of a segment are joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from zvcore.forging.craft import Craft
from zvcore.forging.spool import Piece
from zvcore.forging.stitching import SurfacePiece, open_vertices, stitched
from zvcore.precomputed.legacy_meshes import LegacyMeshes, legacy_document
from zvcore.precomputed.mesh_octree import encode_mesh
from zvcore.precomputed.meshes import mesh_document, write_mesh_files
from zvcore.precomputed.shard_writer import write_into_shards
from zvcore.precomputed.simplifying import simplified
from zvcore.precomputed.surfaces import Surface

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from zvcore.boxes import Box
    from zvcore.precomputed.sharding_spec import ShardingSpec
    from zvcore.stores import Store

__all__ = ["MeshCraft"]


@dataclass(frozen=True)
class MeshCraft(Craft[Surface]):
    """Surfaces halfway between the voxels of a segment and others; beyond the border of the volume there are others.

    dust       segments of fewer voxels are left out
    simplify   how many times fewer triangles are aimed at; 1 or less: all are kept
    max_error  how far, in nanometers, simplification may move the surface
    lods       how many levels of detail
    bits       of the numbers that vertices are stored as
    legacy     whether each mesh is one fragment in a file of its own, without levels
    files      whether each has two files of its own in place of a shard
    """

    dust: int
    simplify: int
    max_error: float
    lods: int
    bits: int
    legacy: bool
    files: bool

    what: ClassVar[str] = "meshes"
    member: ClassVar[str] = "mesh"
    extra: ClassVar[str] = "mesh"
    voxel_bytes: ClassVar[int] = 24
    ratio: ClassVar[float] = 5.0

    @property
    def fewest_voxels(self) -> int:
        return self.dust

    @property
    def sharded(self) -> bool:
        return not (self.legacy or self.files)

    def libraries(self) -> Sequence[str]:
        levels = ["DracoPy", *(["fast_simplification"] if self.lods > 1 else [])]
        return ["zmesh", "fastremap", *([] if self.legacy else levels)]

    # --- a box

    def cut(self, unit: int, threads: int | None) -> Iterator[Piece]:
        numbers, ids = self.numbered(unit, threads)
        if not ids:
            return
        box = self.grid.box(unit)
        voxels: dict[int, int] = {}
        if self.dust > 0:
            own = numbers[tuple(slice(stop - first) for first, stop in box)]
            counted = self.library("fastremap").unique(own, return_counts=True)
            voxels = dict(zip(*(column.tolist() for column in counted), strict=True))
        mesher = self.library("zmesh").Mesher(self.labels.resolution)
        padded = self._within_nothing(numbers, box)
        mesher.mesh(padded)
        for number in sorted(mesher.ids(), key=ids.__getitem__):
            piece = self._piece(mesher, number, box, padded.shape)
            mesher.erase(number)
            yield Piece(ids[number], voxels.get(number, 0), piece.to_bytes())

    def _within_nothing(self, numbers: npt.NDArray[Any], box: Box) -> npt.NDArray[Any]:
        """The voxels of a box, with a layer of nothing where that lies at the border of the volume."""
        before = [int(first == 0) for first, _ in box]
        behind = [int(stop == bound) for (_, stop), bound in zip(box, self.grid.shape, strict=True)]
        shape = [b + n + a for b, n, a in zip(before, numbers.shape, behind, strict=True)]
        padded = np.zeros(shape, numbers.dtype, order="F")
        padded[tuple(slice(b, b + n) for b, n in zip(before, numbers.shape, strict=True))] = numbers
        return padded

    def _origin(self, unit: int) -> list[int]:
        """The first voxel that is looked at for a box; it may be one of the nothing in front of the volume."""
        return [first - (first == 0) for first, _ in self.grid.box(unit)]

    def _piece(self, mesher: Any, number: int, box: Box, shape: Sequence[int]) -> SurfacePiece:
        """What zmesh finds of a segment, simplified if that leaves it closed but for where the box ends."""
        shared = np.array(
            [[first > 0, stop < bound] for (first, stop), bound in zip(box, self.grid.shape, strict=True)]
        )
        half = np.array(self.labels.resolution) / 2
        last = 2 * (np.array(shape) - 1)
        for factor in (self.simplify, 0) if self.simplify > 1 else (0,):
            found = mesher.get(number, reduction_factor=factor, max_error=self.max_error)
            ends = open_vertices(found.faces, len(found.vertices))
            places = np.rint(found.vertices[ends] / half).astype(np.int32)
            if (((places == 0) & shared[:, 0]) | ((places == last) & shared[:, 1])).any(1).all():
                break
        inner = np.ones(len(found.vertices), np.bool_)
        inner[ends] = False
        renamed = np.empty(len(inner), np.uint32)
        renamed[ends] = np.arange(len(ends))
        renamed[inner] = np.arange(len(ends), len(inner))
        return SurfacePiece(places, found.vertices[inner], renamed[found.faces])

    # --- a segment

    def join(self, pieces: Sequence[tuple[int, memoryview]]) -> Surface | None:
        placed = [(self._origin(unit), SurfacePiece.from_bytes(data)) for unit, data in pieces]
        surface = stitched(placed, self.labels.resolution, self.labels.corner)
        return surface if len(surface.faces) else None

    def write(self, store: Store, spec: ShardingSpec | None, objects: Iterable[tuple[int, Surface]]) -> None:
        if self.legacy:
            LegacyMeshes(store, "r+").update(objects)
            return
        encoded = (self._encoded(id, surface) for id, surface in objects)
        if spec is None:
            write_mesh_files(store, encoded)
        else:
            write_into_shards(store, spec, encoded)

    def _encoded(self, id: int, surface: Surface) -> tuple[int, bytes, bytes]:
        manifest, fragments = encode_mesh(simplified(surface, self.lods), bits=self.bits)
        return id, manifest.to_bytes(), b"".join(fragments)

    def document(self, spec: ShardingSpec | None) -> dict[str, Any]:
        return legacy_document() if self.legacy else mesh_document(self.bits, spec)
