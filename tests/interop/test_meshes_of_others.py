"""Meshes against CloudVolume: it reads both kinds of ours as the surfaces that they are, and we read what it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cloudvolume import CloudVolume
from cloudvolume import Mesh as TheirMesh

import zvcore
from tests.precomputed import solids
from zvcore.precomputed import ShardingSpec, verify, write_meshes

if TYPE_CHECKING:
    from pathlib import Path

SPEC = ShardingSpec(0, "murmurhash3_x86_128", 2, 1, "gzip", "raw")
SPHERE = solids.sphere(16)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    array = zvcore.create(
        tmp_path / "seg", format="precomputed", shape=(64, 64, 64), dtype="uint64", type="segmentation",
        resolution=(4, 4, 40),
    )  # fmt: skip
    zvcore.open(tmp_path / "seg", "r+").attrs["mesh"] = "mesh"
    assert array.shape
    return tmp_path / "seg"


def rows(vertices: np.ndarray) -> np.ndarray:
    return vertices[np.lexsort(vertices.T)]


@pytest.mark.parametrize("sharding", [None, "advise", SPEC])
def test_cloud_volume_reads_our_levels_as_we_do(volume: Path, sharding: Any) -> None:
    vertices = SPHERE[0] / np.float32([4, 4, 40])
    transform = [4, 0, 0, 0, 0, 4, 0, 0, 0, 0, 40, 0]
    write_meshes(
        volume / "mesh", {7: (vertices, SPHERE[1]), 2**63: (vertices, SPHERE[1])}, lods=3, sharding=sharding,
        transform=transform,
    )  # fmt: skip
    theirs = CloudVolume(f"file://{volume}", progress=False)
    ours = zvcore.open(volume).meshes()
    for lod in range(3):
        for id in (7, 2**63):
            found, mesh = theirs.mesh.get(id, lod=lod)[id], ours.get(id, lod=lod)
            assert len(found.faces) == len(mesh.faces)
            np.testing.assert_allclose(found.vertices.min(0), mesh.vertices.min(0), atol=0.02)
            np.testing.assert_allclose(found.vertices.max(0), mesh.vertices.max(0), atol=0.02)
            wanted = solids.volume(mesh.vertices, mesh.faces)
            np.testing.assert_allclose(solids.volume(found.vertices, found.faces), wanted, rtol=1e-3)


def test_cloud_volume_reads_our_legacy_meshes(volume: Path) -> None:
    write_meshes(volume / "mesh", {7: SPHERE}, kind="legacy")
    found = CloudVolume(f"file://{volume}", progress=False).mesh.get(7)
    np.testing.assert_array_equal(rows(found.vertices), rows(SPHERE[0]))
    assert solids.closed(found.faces)


@pytest.mark.parametrize("compress", [True, False])
def test_we_read_legacy_meshes_of_cloud_volume(volume: Path, compress: bool) -> None:
    theirs = CloudVolume(f"file://{volume}", progress=False)
    theirs.mesh.meta.info["@type"] = "neuroglancer_legacy_mesh"
    theirs.mesh.put(TheirMesh(*SPHERE, segid=7), compress=compress)
    ours = zvcore.open(volume).meshes()
    assert list(ours) == [7]
    np.testing.assert_array_equal(rows(ours[7].vertices), rows(SPHERE[0]))
    assert solids.closed(ours[7].faces)
    assert verify(volume).ok


@pytest.mark.parametrize("suffix", [".obj", ".ply"])
def test_cloud_volume_and_we_read_each_others_files(tmp_path: Path, suffix: str) -> None:
    from zvcore.precomputed import Surface, read_surface, write_surface

    mesh = TheirMesh(*SPHERE)
    (tmp_path / f"theirs{suffix}").write_bytes(mesh.to_obj() if suffix == ".obj" else mesh.to_ply())
    found = read_surface(tmp_path / f"theirs{suffix}")
    np.testing.assert_allclose(found.vertices, SPHERE[0], atol=1e-4)
    np.testing.assert_array_equal(found.faces, SPHERE[1])
    if suffix == ".obj":
        write_surface(tmp_path / "ours.obj", Surface(*SPHERE))
        back = TheirMesh.from_obj((tmp_path / "ours.obj").read_text())
        np.testing.assert_array_equal(back.vertices, SPHERE[0])
        np.testing.assert_array_equal(back.faces, SPHERE[1])
