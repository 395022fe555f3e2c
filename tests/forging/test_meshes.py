"""Meshes of segmentations: closed wherever boxes meet, where they belong in space, of any format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zmesh
from hypothesis import given, settings
from hypothesis import strategies as st

import zvcore
from tests.forging.segments import BOX, OFFSET, RESOLUTION, balls, edges_with_two_faces, triangles, volume
from tests.precomputed import solids
from zvcore.commands import cli
from zvcore.converting.note import FINISHED
from zvcore.errors import ConflictError, CorruptDataError, NotFoundError, UnsupportedError
from zvcore.forging import libraries
from zvcore.forging.spool import FOLDER, Spool
from zvcore.forging.stitching import open_vertices
from zvcore.format import get_format
from zvcore.precomputed import LegacyMeshes, Meshes
from zvcore.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 2**64 - 1


def forge(*arguments: Any, **options: Any) -> Any:
    """In this process; those that start others are tested elsewhere."""
    return zvcore.mesh(*arguments, **{"threads": 1, "box": BOX, **options})


def test_meshes_are_closed_where_boxes_meet_and_at_the_border_of_the_volume(tmp_path: Path) -> None:
    seg = volume(tmp_path / "seg", balls())
    report = forge(seg)
    assert report.ok and report.done and report.objects == 3
    assert report.counts["meshes"] == 3 and report.counts["pieces"] == 8 + 8 + 4
    meshes = zvcore.open(seg).meshes()
    assert isinstance(meshes, Meshes) and meshes.sharding is not None and list(meshes) == [3, 7, LARGEST]
    for id in meshes:
        for lod in range(meshes[id].lods):
            mesh = meshes.get(id, lod=lod)
            assert edges_with_two_faces(mesh.faces), (id, lod)
            voxels = solids.volume(mesh.vertices, mesh.faces) / np.prod(RESOLUTION)
            assert voxels == pytest.approx((balls() == id).sum(), rel=0.4 if lod else 0.1)
    assert meshes[7].lods > 1
    assert zvcore.verify(seg).ok and not zvcore.verify(seg).problems


def test_without_shards_the_meshes_are_the_same_in_files_of_their_own(tmp_path: Path) -> None:
    seg = volume(tmp_path / "seg", balls())
    forge(seg, tmp_path / "sharded")
    forge(seg, tmp_path / "files", sharding=None)
    options = ["--sharding", "none", "--box", "16,15,14", "--threads", "1", "-q"]
    assert cli.main(["mesh", str(seg), str(tmp_path / "cli"), *options]) == 0
    sharded = zvcore.open(tmp_path / "sharded")
    for folder in ("files", "cli"):
        found = zvcore.open(tmp_path / folder)
        assert isinstance(found, Meshes) and found.sharding is None and list(found) == list(sharded)
        for id in found:
            assert found.stored(id) == sharded.stored(id)
            assert all(found[id].fragments(lod) == sharded[id].fragments(lod) for lod in range(found[id].lods))
        assert zvcore.verify(tmp_path / folder).problems == []
    assert not list((tmp_path / "files").glob("*.shard"))
    # From one to the other and back: nothing of the other stays.
    forge(seg, tmp_path / "files", overwrite=True)
    assert {path.suffix for path in (tmp_path / "files").iterdir() if path.name[0].isdigit()} == {".shard"}


def test_vertices_lie_where_the_voxels_do_in_nanometers(tmp_path: Path) -> None:
    labels = np.zeros((20, 20, 20), "uint32")
    labels[5, 6, 7] = 1
    forge(volume(tmp_path / "seg", labels), box=(6, 6, 6), simplify=1)
    mesh = zvcore.open(tmp_path / "seg").meshes()[1]
    corner = np.array([5, 6, 7]) + OFFSET
    np.testing.assert_allclose(mesh.vertices.min(0), corner * RESOLUTION, rtol=1e-6)
    np.testing.assert_allclose(mesh.vertices.max(0), (corner + 1) * RESOLUTION, rtol=1e-6)


@settings(max_examples=12)
@given(seed=st.integers(0, 999), box=st.tuples(*[st.integers(3, 13)] * 3), simplify=st.sampled_from([1, 100]))
def test_any_labels_in_any_boxes_give_closed_meshes(
    seed: int, box: tuple[int, int, int], simplify: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    labels = np.random.default_rng(seed).integers(0, 4, (13, 12, 11)).astype("uint16")
    seg = volume(tmp_path_factory.mktemp("seg") / "seg", labels)
    forge(seg, box=box, simplify=simplify, kind="legacy")
    meshes = zvcore.open(seg).meshes()
    assert list(meshes) == [1, 2, 3]
    assert all(edges_with_two_faces(meshes[id].faces) for id in meshes)


def test_boxes_make_no_difference_to_what_is_not_simplified(tmp_path: Path) -> None:
    seg = volume(tmp_path / "seg", balls())
    forge(seg, tmp_path / "boxes", simplify=1, kind="legacy")
    forge(seg, tmp_path / "whole", simplify=1, kind="legacy", box=(64, 64, 64))
    boxes, whole = LegacyMeshes(tmp_path / "boxes"), LegacyMeshes(tmp_path / "whole")
    theirs = zmesh.Mesher(RESOLUTION)
    theirs.mesh(np.pad(balls(), 1))
    for id in boxes:
        found = theirs.get(id, voxel_centered=True)
        found.vertices += (np.array(OFFSET) - 1) * RESOLUTION
        np.testing.assert_array_equal(triangles(boxes[id]), triangles(whole[id]))
        np.testing.assert_array_equal(triangles(boxes[id]), triangles(found))


def test_simplification_keeps_close_to_the_surface(tmp_path: Path) -> None:
    seg = volume(tmp_path / "seg", balls(), resolution=(4, 4, 4), voxel_offset=(0, 0, 0))
    forge(seg, tmp_path / "all", simplify=1, lods=1)
    forge(seg, tmp_path / "few", lods=1)
    every, few = Meshes(tmp_path / "all")[7], Meshes(tmp_path / "few")[7]
    assert len(few.faces) < len(every.faces) / 2
    middle = (np.array([16, 15, 14]) + 0.5) * 4
    far = np.linalg.norm(few.vertices - middle, axis=1)
    assert far.min() > 4 * (9.5 - 1.5) and far.max() < 4 * (9.5 + 1.5)
    assert solids.volume(few.vertices, few.faces) == pytest.approx(solids.volume(every.vertices, every.faces), rel=0.03)


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_segmentations_of_other_formats_lie_at_the_same_place(format: str, tmp_path: Path) -> None:
    seg = volume(tmp_path / "seg", balls())
    zvcore.convert(seg, tmp_path / "other", format=format)
    options: dict[str, Any] = {"kind": "legacy", "simplify": 1}
    forge(seg, tmp_path / "ours", **options)
    forge(tmp_path / "other", tmp_path / "theirs", **options)
    ours, theirs = LegacyMeshes(tmp_path / "ours"), LegacyMeshes(tmp_path / "theirs")
    assert list(ours) == list(theirs) == [3, 7, LARGEST]
    for id in ours:
        np.testing.assert_array_equal(triangles(ours[id]), triangles(theirs[id]))


def test_a_coarser_level_lies_at_the_same_place(tmp_path: Path) -> None:
    seg = volume(tmp_path / "seg", balls())
    zvcore.downsample(seg, levels=1, factors=(2, 2, 2))
    for level in (0, 1):
        forge(seg, tmp_path / str(level), level=level, simplify=1)
    fine, coarse = (Meshes(tmp_path / str(level))[7] for level in (0, 1))
    voxel = 2 * np.array(RESOLUTION)
    assert (np.abs(fine.vertices.min(0) - coarse.vertices.min(0)) <= voxel).all()
    assert (np.abs(fine.vertices.max(0) - coarse.vertices.max(0)) <= voxel).all()
    assert solids.volume(coarse.vertices, coarse.faces) == pytest.approx(
        solids.volume(fine.vertices, fine.faces), rel=0.1
    )
    with pytest.raises(IndexError, match="2 levels; 2 is none"):
        forge(seg, tmp_path / "2", level=2)


def test_the_size_of_voxels_is_asked_for_where_nothing_says_it(tmp_path: Path) -> None:
    array = zvcore.create(tmp_path / "a.zarr", format="zarr3", shape=(6, 7, 8), dtype="uint8", chunks=(8, 8, 8))
    array[2, 3, 4] = 9
    forge(tmp_path / "a.zarr", tmp_path / "meshes", voxel_size="0.04,0.008,0.004um", simplify=1)
    mesh = Meshes(tmp_path / "meshes")[9]
    np.testing.assert_allclose(mesh.vertices.min(0), [16, 24, 80], rtol=1e-6)
    np.testing.assert_allclose(mesh.vertices.max(0), [20, 32, 120], rtol=1e-6)


def test_chosen_segments_alone_are_made(tmp_path: Path) -> None:
    forge(volume(tmp_path / "seg", balls()), ids=[LARGEST, 3, 99])
    assert list(zvcore.open(tmp_path / "seg").meshes()) == [3, LARGEST]
    forge(tmp_path / "seg", tmp_path / "none", ids=[])
    assert list(Meshes(tmp_path / "none")) == []


def test_dust_counts_the_voxels_of_the_whole_segment(tmp_path: Path) -> None:
    labels = balls()
    fewest = int((labels == LARGEST).sum())
    seg = volume(tmp_path / "seg", labels)
    # Every box has fewer voxels of it: none of its pieces is left out.
    forge(seg, tmp_path / "kept", dust=fewest)
    forge(seg, tmp_path / "dropped", dust=fewest + 1)
    assert LARGEST in Meshes(tmp_path / "kept") and LARGEST not in Meshes(tmp_path / "dropped")
    assert edges_with_two_faces(Meshes(tmp_path / "kept")[LARGEST].faces)


def test_an_array_in_memory_is_taken(tmp_path: Path) -> None:
    labels = np.ascontiguousarray(balls().T)
    forge(labels, tmp_path / "meshes", voxel_size="40,8,4nm", simplify=1, lods=1)
    seg = volume(tmp_path / "seg", balls(), voxel_offset=(0, 0, 0))
    forge(seg, simplify=1, lods=1)
    ours, theirs = Meshes(tmp_path / "meshes"), zvcore.open(seg).meshes()
    assert list(ours) == list(theirs) == [3, 7, LARGEST]
    for id in ours:
        np.testing.assert_array_equal(triangles(ours[id]), triangles(theirs[id]))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "bool"])
def test_labels_of_any_whole_numbers_are_taken(dtype: str, tmp_path: Path) -> None:
    array = zvcore.create(tmp_path / "a.zarr", format="zarr3", shape=(9, 9, 9), dtype=dtype, chunks=(4, 4, 4))
    array[2:7, 2:7, 2:7] = 1
    forge(tmp_path / "a.zarr", tmp_path / "meshes", box=(4, 4, 4))
    assert list(Meshes(tmp_path / "meshes")) == [1]
    assert edges_with_two_faces(Meshes(tmp_path / "meshes")[1].faces)


def test_what_are_no_segments_is_refused(tmp_path: Path) -> None:
    array = zvcore.create(tmp_path / "n.zarr", format="zarr3", shape=(4, 4, 4), dtype="int32", chunks=(4, 4, 4))
    array[0, 0, 0] = -5
    with pytest.raises(UnsupportedError, match="no negative ids") as found:
        forge(tmp_path / "n.zarr", tmp_path / "m")
    assert found.value.found == -5
    zvcore.create(tmp_path / "f.zarr", format="zarr3", shape=(4, 4, 4), dtype="float32", chunks=(4, 4, 4))
    with pytest.raises(UnsupportedError, match="whole numbers"):
        forge(tmp_path / "f.zarr", tmp_path / "x")
    with pytest.raises(ValueError, match="say where"):
        forge(tmp_path / "f.zarr")


def test_an_empty_volume_gives_an_empty_set(tmp_path: Path) -> None:
    for kind in ("multires", "legacy"):
        seg = volume(tmp_path / kind, np.zeros((9, 9, 9), "uint32"))
        report = forge(seg, kind=kind)
        assert report.objects == 0 and "nothing" in str(report)
        assert list(zvcore.open(seg).meshes()) == [] and zvcore.verify(seg).ok


def test_the_volume_names_its_meshes(tmp_path: Path) -> None:
    seg = volume(tmp_path / "seg", balls())
    forge(seg)
    assert json.loads((seg / "info").read_text())["mesh"] == "mesh"
    # So `serve` finds segments to show.
    assert get_format("precomputed").first_segments(open_store(seg), 9) == ["3", "7", str(LARGEST)]
    # What is named already stays so.
    forge(seg, seg / "other", kind="legacy")
    assert json.loads((seg / "info").read_text())["mesh"] == "mesh"
    inside = volume(tmp_path / "seg2", balls())
    forge(zvcore.open(inside), inside / "a" / "b")
    assert json.loads((inside / "info").read_text())["mesh"] == "a/b"
    outside = volume(tmp_path / "seg3", balls())
    forge(outside, tmp_path / "beside")
    assert "mesh" not in json.loads((outside / "info").read_text())


def test_what_is_there_is_replaced_only_when_asked_and_only_if_it_is_such(tmp_path: Path) -> None:
    seg = volume(tmp_path / "seg", balls())
    forge(seg)
    before = {path: path.read_bytes() for path in (seg / "mesh").rglob("*") if path.is_file()}
    assert forge(seg).already_finished
    with pytest.raises(ConflictError, match="overwrite=True"):
        forge(seg, lods=1)
    assert {path: path.read_bytes() for path in (seg / "mesh").rglob("*") if path.is_file()} == before
    forge(seg, lods=1, overwrite=True)
    assert zvcore.open(seg).meshes()[7].lods == 1
    forge(seg, kind="legacy", overwrite=True)
    assert sorted(path.name for path in (seg / "mesh").iterdir()) == sorted(
        [FINISHED, "info", *(f"{id}:0{end}" for id in (3, 7, LARGEST) for end in ("", ":0"))]
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    for overwrite in (False, True):
        with pytest.raises(ConflictError):
            forge(seg, tmp_path / "mine", overwrite=overwrite)
    with pytest.raises(ConflictError, match="neither meshes nor skeletons"):
        forge(seg, volume(tmp_path / "seg4", balls()), overwrite=True)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


def test_a_dry_run_tells_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seg = volume(tmp_path / "seg", balls())
    before = sorted(tmp_path.rglob("*"))
    report = forge(seg, dry_run=True)
    assert not report.done and report.plan.boxes == 27 and report.plan.resolution == RESOLUTION
    assert cli.main(["mesh", str(seg), "--box", "16,15,14", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == report.plan.to_json()
    assert cli.main(["mesh", str(seg), str(tmp_path / "m"), "--dry-run", "--level", "3"]) == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_the_command_makes_meshes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seg = volume(tmp_path / "seg", balls())
    options = ["--box", "16,15,14", "--threads", "1", "-q", "--ids", "7,3"]
    assert cli.main(["mesh", str(seg), *options]) == 0
    assert list(zvcore.open(seg).meshes()) == [3, 7]
    assert cli.main(["mesh", str(seg), str(tmp_path / "old"), "--legacy", "--json", *options]) == 0
    assert json.loads(capsys.readouterr().out)["objects"] == 2
    assert list(LegacyMeshes(tmp_path / "old")) == [3, 7]


def test_a_missing_package_is_named_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seg = volume(tmp_path / "seg", balls())

    def gone(name: str) -> Any:
        raise ImportError(f"no module {name}")

    monkeypatch.setattr(libraries, "import_module", gone)
    with pytest.raises(UnsupportedError, match=r"zmesh: pip install zvcore\[mesh\]"):
        forge(seg)
    with pytest.raises(UnsupportedError, match=r"kimimaro: pip install zvcore\[skeletonize\]"):
        zvcore.skeletonize(seg)
    assert not (seg / "mesh").exists() and not (seg / "skeletons").exists()


@pytest.mark.parametrize("harm", ["cut", "list", "gone"])
def test_pieces_that_are_damaged_meanwhile_are_named(harm: str, tmp_path: Path) -> None:
    seg = volume(tmp_path / "seg", balls())

    class Stop(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done == total == 27:
            raise Stop

    with pytest.raises(Stop):
        forge(seg, progress=stop)
    pieces = seg / "mesh" / FOLDER / "pieces" / "0"
    if harm == "cut":
        pieces.write_bytes(pieces.read_bytes()[:-5])
    elif harm == "list":
        (seg / "mesh" / FOLDER / "catalog.json").write_text('{"objects": "many"}')
    else:
        pieces.unlink()
    with pytest.raises((CorruptDataError, NotFoundError)) as found:
        forge(seg)
    assert (FOLDER in str(found.value) and "overwrit" in str(found.value)) or harm == "cut"
    assert "run again, resumes it" in found.value.__notes__[0]
    assert forge(seg, overwrite=True, resume=False).objects == 3
    assert not (seg / "mesh" / FOLDER).exists() and Spool(open_store(seg / "mesh")).catalog() is None


def test_open_vertices_are_those_at_the_rim() -> None:
    faces = np.array([[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 1]])
    assert open_vertices(faces, 5).tolist() == [1, 2, 3, 4]
    closed = np.concatenate([faces, [[5, 2, 1], [5, 3, 2], [5, 4, 3], [5, 1, 4]]])
    assert open_vertices(closed, 6).tolist() == []
    assert open_vertices(np.zeros((0, 3), np.uint32), 0).tolist() == []
