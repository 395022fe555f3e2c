"""Skeletons and meshes against CloudVolume."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import DracoPy
import numpy as np
import pytest
from cloudvolume import CloudVolume
from cloudvolume import Skeleton as TheirSkeleton
from cloudvolume.datasource.precomputed.mesh.multilod import MultiLevelPrecomputedMeshManifest

import zvcore
from zvcore.precomputed import (
    Level,
    Manifest,
    Meshes,
    ShardingSpec,
    Skeleton,
    Skeletons,
    VertexAttribute,
    write_mesh_fragments,
    write_skeletons,
)

if TYPE_CHECKING:
    from pathlib import Path

SPEC = ShardingSpec(0, "murmurhash3_x86_128", 2, 1, "gzip", "gzip")
RAW = ShardingSpec(0, "murmurhash3_x86_128", 2, 1, "gzip", "raw")
ATTRIBUTES = (VertexAttribute("radius"), VertexAttribute("vertex_types", "uint8"))


def volume(path: Path, **members: str) -> None:
    zvcore.create(path, format="precomputed", shape=(64, 64, 64), dtype="uint64", type="segmentation")
    document = json.loads((path / "info").read_text())
    (path / "info").write_text(json.dumps({**document, **members}))


@pytest.mark.parametrize("sharding", [None, SPEC])
def test_cloud_volume_reads_our_skeletons(tmp_path: Path, sharding: ShardingSpec | None) -> None:
    volume(tmp_path, skeletons="skeletons")
    vertices = np.random.default_rng(0).random((6, 3), np.float32)
    edges = np.array([[0, 1], [1, 2], [2, 3], [1, 4], [4, 5]], "u4")
    ours = Skeleton(vertices, edges, {"radius": np.arange(6, dtype="f4"), "vertex_types": np.arange(6, dtype="u1")})
    write_skeletons(tmp_path / "skeletons", {7: ours, 9: ours}, vertex_attributes=ATTRIBUTES, sharding=sharding)
    theirs = CloudVolume(f"file://{tmp_path}", progress=False).skeleton.get(7)
    np.testing.assert_array_equal(theirs.vertices, vertices)
    np.testing.assert_array_equal(theirs.edges, edges)
    np.testing.assert_array_equal(theirs.radius, ours.attributes["radius"])
    np.testing.assert_array_equal(theirs.vertex_types, ours.attributes["vertex_types"])


def test_ours_reads_skeletons_of_cloud_volume(tmp_path: Path) -> None:
    volume(tmp_path, skeletons="skeletons")
    cv = CloudVolume(f"file://{tmp_path}", progress=False)
    vertices = np.random.default_rng(0).random((4, 3), np.float32)
    theirs = TheirSkeleton(vertices, np.array([[0, 1], [1, 2], [2, 3]], "u4"), np.arange(4, dtype="f4"), segid=7)
    cv.skeleton.meta.commit_info()
    cv.skeleton.upload(theirs)
    found = Skeletons(tmp_path / "skeletons")
    assert list(found) == [7]
    np.testing.assert_array_equal(found[7].vertices, vertices)
    np.testing.assert_array_equal(found[7].edges, theirs.edges)
    np.testing.assert_array_equal(found[7].attributes["radius"], np.arange(4))


def draco() -> tuple[bytes, np.ndarray]:
    points = np.array([[0, 0, 0], [60000, 0, 0], [0, 60000, 0], [0, 0, 60000]], "u4")
    faces = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]], "u4")
    data = DracoPy.encode(
        points, faces, quantization_bits=16, quantization_range=2**16 - 1, quantization_origin=[0, 0, 0]
    )
    return data, points


def made(count: int) -> tuple[Manifest, list[bytes]]:
    data, _ = draco()
    zero = np.zeros(3, "f4")
    positions = np.array([[i, 0, 0] for i in range(count)], "u4")
    levels = [
        Level(1.0, zero, positions, np.full(count, len(data), "u4")),
        Level(2.0, zero, positions[:1], np.array([len(data)], "u4")),
    ]
    return Manifest(np.array([8, 8, 8], "f4"), zero, levels), [data] * (count + 1)


@pytest.mark.parametrize("sharding", [None, RAW])
def test_cloud_volume_reads_our_meshes(tmp_path: Path, sharding: ShardingSpec | None) -> None:
    volume(tmp_path, mesh="mesh")
    manifest, fragments = made(2)
    meshes = [(id, manifest, fragments) for id in (5, 6, 77)]
    write_mesh_fragments(tmp_path / "mesh", meshes, sharding=sharding)
    cv = CloudVolume(f"file://{tmp_path}", progress=False)
    for level, count in ((0, 2), (1, 1)):
        theirs = cv.mesh.get(77, lod=level, concat=False)[77]
        assert len(theirs) == count
        assert all(mesh.faces.shape == (4, 3) for mesh in theirs)
    # After another mesh has changed.
    Meshes(tmp_path / "mesh", "r+").update([(6, *made(1))])
    assert len(CloudVolume(f"file://{tmp_path}", progress=False).mesh.get(77, lod=0, concat=False)[77]) == 2


def test_manifests_are_those_of_cloud_volume() -> None:
    manifest, _ = made(3)
    theirs = MultiLevelPrecomputedMeshManifest.from_binary(manifest.to_bytes(), segment_id=5, shard_offset=0, path="")
    assert theirs.num_lods == 2
    for number, level in enumerate(manifest.levels):
        np.testing.assert_array_equal(np.asarray(theirs.fragment_positions[number]).reshape(level.positions.shape),
                                      level.positions)  # fmt: skip
        np.testing.assert_array_equal(theirs.fragment_offsets[number], level.sizes)
    # What it writes; levels of different lengths are more than it can.
    manifest.levels[1:] = []
    theirs = MultiLevelPrecomputedMeshManifest.from_binary(manifest.to_bytes(), segment_id=5, shard_offset=0, path="")
    assert Manifest.from_bytes(theirs.to_binary()).to_bytes() == manifest.to_bytes()
