"""Skeletons: kimimaro traces the segments of a box; all paths of a segment are joined, and cleaned of loops."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from zvcore.forging.craft import Craft
from zvcore.forging.spool import Piece, damaged
from zvcore.precomputed.objects import SegmentFiles
from zvcore.precomputed.set_files import put_objects
from zvcore.precomputed.shard_writer import write_into_shards
from zvcore.precomputed.skeletons import Skeleton, skeleton_document
from zvcore.precomputed.swc import SWC_ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from zvcore.precomputed.sharding_spec import ShardingSpec
    from zvcore.stores import Store

__all__ = ["TEASAR", "SkeletonCraft"]

# As kimimaro's command line has them.
TEASAR: Mapping[str, Any] = {
    "pdrf_exponent": 4, "pdrf_scale": 100_000, "soma_detection_threshold": 1100, "soma_acceptance_threshold": 3500,
    "soma_invalidation_scale": 1.0, "soma_invalidation_const": 300, "max_paths": None,
}  # fmt: skip

_HEAD = struct.Struct("<II")


@dataclass(frozen=True)
class SkeletonCraft(Craft[Skeleton]):
    """Paths along the middle of segments, with their distance from the surface as `radius`.

    dust    connected parts within a box of fewer voxels are left out
    teasar  the parameters of kimimaro's tracing
    length  components of which all paths together are shorter, in nanometers, are left out
    ticks   branches that are shorter, in nanometers, are cut off
    files   whether each has a file of its own in place of a shard
    """

    dust: int
    teasar: Mapping[str, Any]
    length: float
    ticks: float
    files: bool

    what: ClassVar[str] = "skeletons"
    member: ClassVar[str] = "skeletons"
    extra: ClassVar[str] = "skeletonize"
    voxel_bytes: ClassVar[int] = 32
    ratio: ClassVar[float] = 1.5
    data_encoding: ClassVar[str] = "gzip"

    @property
    def sharded(self) -> bool:
        return not self.files

    def libraries(self) -> Sequence[str]:
        return ["kimimaro", "osteoid", "fastremap"]

    # --- a box

    def cut(self, unit: int, threads: int | None) -> Iterator[Piece]:
        numbers, ids = self.numbered(unit, threads)
        if not ids:
            return
        size = np.array(self.labels.resolution)
        found = self.library("kimimaro").skeletonize(
            numbers, teasar_params=dict(self.teasar), anisotropy=self.labels.resolution, dust_threshold=self.dust,
            fix_branching=True, fix_borders=True, progress=False, parallel=1, in_place=True,
        )  # fmt: skip
        for number in sorted(found, key=ids.__getitem__):
            if len(found[number].vertices):
                yield Piece(ids[number], 0, _packed(found[number], size))

    # --- a segment

    def join(self, pieces: Sequence[tuple[int, memoryview]]) -> Skeleton | None:
        size, corner = np.array(self.labels.resolution), np.array(self.labels.corner)
        places, edges, radii, types = _joined([
            (np.array([first for first, _ in self.grid.box(unit)], np.int64), data) for unit, data in pieces
        ])  # fmt: skip
        # Counted from the skeleton's own corner: float32, in which the library counts, is fine there.
        low = places.min(0)
        near = ((places - low) * size).astype(np.float32)
        theirs = self.library("osteoid").Skeleton(near, edges.astype(np.uint32), radii, types)
        done = self.library("kimimaro").postprocess(theirs, dust_threshold=self.length, tick_threshold=self.ticks)
        if not len(done.vertices):
            return None
        vertices = (done.vertices.astype(np.float64) + (low + 0.5) * size + corner).astype(np.float32)
        values = {"radius": done.radii.astype(np.float32), "vertex_types": done.vertex_types.astype(np.uint8)}
        return Skeleton(vertices, done.edges.astype(np.uint32), values)

    def write(self, store: Store, spec: ShardingSpec | None, objects: Iterable[tuple[int, Skeleton]]) -> None:
        encoded = ((id, one.to_bytes(SWC_ATTRIBUTES)) for id, one in objects)
        if spec is not None:
            write_into_shards(store, spec, encoded)
            return
        files = SegmentFiles(store)
        put_objects(store, (((files.key(id), data),) for id, data in encoded))

    def document(self, spec: ShardingSpec | None) -> dict[str, Any]:
        return skeleton_document(SWC_ATTRIBUTES, spec)


def _packed(skeleton: Any, size: npt.NDArray[np.float64]) -> bytes:
    """A piece: its vertices as the voxels that they are, counted from the first of the box."""
    places = np.rint(skeleton.vertices / size).astype("<i4")
    return b"".join([
        _HEAD.pack(len(places), len(skeleton.edges)),
        places.tobytes(),
        np.asarray(skeleton.edges, "<u4").tobytes(),
        np.asarray(skeleton.radii, "<f4").tobytes(),
        np.asarray(skeleton.vertex_types, "u1").tobytes(),
    ])  # fmt: skip


def _joined(pieces: Sequence[tuple[npt.NDArray[np.int64], Any]]) -> tuple[Any, Any, Any, Any]:
    """(voxels, edges, radii, types) of all pieces: those in the same voxel are one vertex, with the larger radius."""
    places, edges, radii, types = [], [], [], []
    at = 0
    for origin, data in pieces:
        count, edge_count = _HEAD.unpack_from(data) if len(data) >= _HEAD.size else (0, 0)
        end = _HEAD.size
        if len(data) != end + 17 * count + 8 * edge_count:
            raise damaged(data, end + 17 * count + 8 * edge_count)
        places.append(np.frombuffer(data, "<i4", 3 * count, end).reshape(-1, 3) + origin)
        end += 12 * count
        edges.append(np.frombuffer(data, "<u4", 2 * edge_count, end).reshape(-1, 2).astype(np.int64) + at)
        end += 8 * edge_count
        radii.append(np.frombuffer(data, "<f4", count, end))
        types.append(np.frombuffer(data, "u1", count, end + 4 * count))
        at += count
    found, number = np.unique(np.concatenate(places), axis=0, return_inverse=True)
    number = number.reshape(-1)
    radius, type = np.zeros(len(found), np.float32), np.zeros(len(found), np.uint8)
    np.maximum.at(radius, number, np.concatenate(radii))
    np.maximum.at(type, number, np.concatenate(types))
    ends = np.sort(number[np.concatenate(edges)], 1)
    return found, np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0), radius, type
