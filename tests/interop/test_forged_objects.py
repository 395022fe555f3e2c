"""What is made of segmentations, read by CloudVolume: both kinds of meshes, and skeletons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cloudvolume import CloudVolume

import zvcore
from tests.forging.segments import BOX, OFFSET, RESOLUTION, balls, edges_with_two_faces, volume
from tests.precomputed import solids

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 2**64 - 1


@pytest.fixture
def seg(tmp_path: Path) -> Path:
    return volume(tmp_path / "seg", balls())


def opened(seg: Path) -> Any:
    return CloudVolume(f"file://{seg}", progress=False)


def bounds(id: int) -> tuple[np.ndarray, np.ndarray]:
    """(lowest corner, highest corner) of a segment in nanometers, by its voxels."""
    places = np.argwhere(balls() == id) + np.array(OFFSET)
    return places.min(0) * RESOLUTION, (places.max(0) + 1) * RESOLUTION


def area(vertices: np.ndarray, faces: np.ndarray) -> float:
    a, b, c = vertices.astype("f8")[faces.T]
    return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)


@pytest.mark.parametrize("kind", ["multires", "legacy"])
def test_cloud_volume_reads_the_meshes_closed_and_in_their_place(kind: str, seg: Path) -> None:
    zvcore.mesh(seg, box=BOX, threads=1, kind=kind, simplify=1, lods=2)
    for id in (3, 7, LARGEST):
        found = opened(seg).mesh.get(id)
        mesh = found[id] if isinstance(found, dict) else found
        ours = zvcore.open(seg).meshes()[id]
        assert len(mesh.faces) == len(ours.faces)
        # Others keep the vertices that fragments share once in each of them; here they are one, and nothing is lost.
        alone = mesh.consolidate()
        assert len(mesh.vertices) >= len(alone.vertices) == len(ours.vertices)
        nearest = np.sort(alone.vertices, 0) - np.sort(ours.vertices, 0)
        assert np.abs(nearest).max() < 0.01
        assert edges_with_two_faces(ours.faces) and edges_with_two_faces(alone.faces)
        assert area(mesh.vertices, mesh.faces) == pytest.approx(area(ours.vertices, ours.faces), rel=1e-5)
        mesh = mesh.deduplicate_vertices(is_chunk_aligned=True) if kind == "multires" else mesh.consolidate()
        low, high = bounds(id)
        np.testing.assert_allclose(mesh.vertices.min(0), low, atol=0.05)
        np.testing.assert_allclose(mesh.vertices.max(0), high, atol=0.05)
        assert solids.volume(mesh.vertices, mesh.faces) == pytest.approx(
            solids.volume(ours.vertices, ours.faces), rel=1e-3
        )
        if kind == "legacy":
            assert edges_with_two_faces(mesh.faces)


def test_cloud_volume_reads_the_skeletons_with_their_radii(seg: Path) -> None:
    zvcore.skeletonize(seg, box=(64, 64, 64), threads=1, const=20, dust=10)
    skeletons = zvcore.open(seg).skeletons()
    assert 7 in skeletons
    for id in skeletons:
        theirs, ours = opened(seg).skeleton.get(id), skeletons[id]
        np.testing.assert_array_equal(theirs.vertices, ours.vertices)
        np.testing.assert_array_equal(np.sort(theirs.edges, 0), np.sort(ours.edges, 0))
        np.testing.assert_array_equal(theirs.radius, ours.attributes["radius"])
        np.testing.assert_array_equal(theirs.vertex_types, ours.attributes["vertex_types"])
        low, high = bounds(id)
        assert (theirs.vertices > low).all() and (theirs.vertices < high).all()
