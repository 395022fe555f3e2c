"""Meshes and skeletons that igneous made (data/make_igneous.py), read here and by CloudVolume."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import zvcore
from zvcore.errors import CorruptDataError
from zvcore.precomputed.draco import decode_fragment

BALL, BAR = 1001, 2**40 + 7
KINDS = ("sharded", "unsharded")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("igneous")
    with zipfile.ZipFile(Path(__file__).parent / "data/igneous.zip") as archive:
        archive.extractall(folder)
    return folder


def triangles(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """The corners of each triangle from the least on, sorted, rounded to what quantization leaves."""
    corners = np.round(np.asarray(vertices, np.float64)[np.asarray(faces)], 1)
    found = []
    for three in corners:
        first = min(range(3), key=lambda number: tuple(three[number]))
        found.append(np.roll(three, -first, 0).reshape(-1))
    return np.array(sorted(map(tuple, found)))


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_igneous_made_is_sound_and_its_own_files_are_no_damage(made: Path, kind: str) -> None:
    report = zvcore.verify(made / kind)
    assert report.ok
    assert report.problems == []


@pytest.mark.parametrize("kind", KINDS)
def test_meshes_of_igneous_are_those_that_cloudvolume_reads(made: Path, kind: str) -> None:
    cloudvolume = pytest.importorskip("cloudvolume")
    ours = zvcore.open(made / kind).meshes()
    theirs = cloudvolume.CloudVolume(f"file://{made / kind}", progress=False).mesh
    assert ours.ids().tolist() == [BALL, BAR]
    for id in ours:
        assert ours[id].lods >= 1
        for lod in range(ours[id].lods):
            mine, other = ours.get(id, lod=lod), theirs.get(id, lod=lod)[id]
            assert mine is not None
            assert np.allclose(triangles(mine.vertices, mine.faces), triangles(other.vertices, other.faces), atol=0.15)
    # Its voxels are 3 to 21, of 8 nm.
    assert np.allclose(ours[BALL].vertices.min(0)[:2], 3 * 8, atol=4)
    assert np.allclose(ours[BALL].vertices.max(0)[:2], 22 * 8, atol=4)


@pytest.mark.parametrize("kind", KINDS)
def test_skeletons_of_igneous_are_those_that_cloudvolume_reads(made: Path, kind: str) -> None:
    cloudvolume = pytest.importorskip("cloudvolume")
    ours = zvcore.open(made / kind).skeletons()
    theirs = cloudvolume.CloudVolume(f"file://{made / kind}", progress=False).skeleton
    assert ours.ids().tolist() == [BALL, BAR]
    for id in ours:
        other = theirs.get(id)
        assert len(ours[id].vertices) > 3
        assert np.allclose(ours.in_nanometers(id).vertices, other.vertices)
        assert np.array_equal(ours[id].edges, other.edges)
        assert np.allclose(ours[id].attributes["radius"], other.radius)


def test_metadata_in_a_fragment_are_passed_over_and_may_not_claim_more_than_is_there(made: Path) -> None:
    """igneous notes in each fragment how its vertices were quantized."""
    (data,) = zvcore.open(made / "sharded").meshes()[BAR].fragments(0)[:1]
    assert b"quantization_bits" in data
    vertices, faces = decode_fragment(data, 16)
    assert len(vertices)
    assert len(faces)
    # Numbers of entries, and of attributes with entries, that go on beyond the end; entries within entries.
    for metadata in (
        b"\x00\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\x0f",
        b"\x00\x00" + b"\x7f\x00" * 500,
        b"\x00\x01",
    ):
        with pytest.raises(CorruptDataError):
            decode_fragment(data[:11] + metadata, 16)


def test_the_triangles_of_a_fragment_are_refused_behind_metadata_too(made: Path) -> None:
    (data,) = zvcore.open(made / "sharded").meshes()[BAR].fragments(0)[:1]
    head = data.index(b"quantization_range") + len(b"quantization_range") + 1 + 8 + 1 + 1
    claimed = data[:head] + b"\xff\xff\xff\xff\x07" * 2 + data[head + 2 :]
    with pytest.raises(CorruptDataError, match="claims more than it can hold"):
        decode_fragment(claimed, 16)
