"""What lies beside the arrays of a source, such as meshes: within a format it is copied, else it is named as lost."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import zvcore
from zvcore.converting import companions
from zvcore.converting.companions import Companion, CopyingObjects
from zvcore.errors import UnsupportedError
from zvcore.stores import open_store


def files(path):
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


@pytest.fixture
def segments(tmp_path):
    """A volume with meshes, skeletons, segment properties and annotations, as igneous and cloud-volume leave it."""
    made = zvcore.create(
        tmp_path / "seg", format="precomputed", shape=(32, 32, 32), dtype="u8", chunks=(16, 16, 16),
        type="segmentation", resolution=(8, 8, 8),
    )  # fmt: skip
    made[...] = 3
    path = tmp_path / "seg" / "info"
    info = json.loads(path.read_text())
    info.update({"mesh": "mesh", "skeletons": "skels/a", "segment_properties": "props"})
    path.write_text(json.dumps(info))
    for folder, name in (("mesh", "info"), ("skels/a", "info"), ("props", "info"), ("annotations/by_id", "7")):
        (tmp_path / "seg" / folder).mkdir(parents=True)
        (tmp_path / "seg" / folder / name).write_text(json.dumps({"@type": folder}))
    for i in range(300):
        (tmp_path / "seg" / "mesh" / f"{i}:0").write_bytes(bytes([i % 256]) * i)
    (tmp_path / "seg" / "provenance").write_text("{}")
    return tmp_path / "seg"


def test_a_volume_is_copied_with_everything_that_lies_beside_its_scales(segments, tmp_path):
    plan = zvcore.plan(segments, tmp_path / "dst", format="precomputed", sharding="advise")
    assert [(one.path, one.objects) for one in plan.companions] == [
        ("annotations", 1), ("mesh", 301), ("props", 1), ("skels", 1), ("provenance", 1),
    ]  # fmt: skip
    assert "mesh: 301 objects beside the arrays" in str(plan) and plan.to_json()["companions"][1]["objects"] == 301
    report = zvcore.convert(segments, tmp_path / "dst", format="precomputed", sharding="advise", verify=True)
    assert report.ok and report.verified and report.losses == [] and report.objects == 305
    assert report.units == plan.units
    before, after = files(segments), files(tmp_path / "dst")
    beside = {name: data for name, data in before.items() if not name.startswith("8_8_8/") and name != "info"}
    assert {name: after.get(name) for name in beside} == beside
    info = zvcore.open(tmp_path / "dst").info
    assert (info["mesh"], info["skeletons"], info["segment_properties"]) == ("mesh", "skels/a", "props")


@pytest.mark.parametrize("format", ["zarr3", "n5"])
def test_what_has_no_place_elsewhere_is_named(segments, tmp_path, format):
    report = zvcore.convert(segments, tmp_path / "dst", format=format)
    told = [f"{loss.where} {loss.what}" for loss in report.losses]
    for name in ("mesh", "skeletons", "segment_properties"):
        assert any(f"the {name} that it names" in one for one in told)
    for name in ("mesh/", "skels/", "props/", "annotations/", "provenance"):
        assert any(one.startswith(f"{name} ") for one in told)
    assert "mesh" not in zvcore.open(tmp_path / "dst").attrs
    with pytest.raises(UnsupportedError, match="mesh/"):
        zvcore.convert(segments, tmp_path / "other", format=format, strict=True)


def test_a_part_of_a_volume_has_not_the_meshes_of_the_whole(segments, tmp_path):
    region = np.s_[:16, :16, :16]
    report = zvcore.convert(segments, tmp_path / "dst", format="precomputed", region=region)
    assert {loss.where for loss in report.losses} >= {"mesh/", "provenance"}
    assert "mesh" not in zvcore.open(tmp_path / "dst").info


def test_a_link_that_leads_out_of_a_volume_is_named_and_an_address_is_kept(segments, tmp_path):
    path = segments / "info"
    info = json.loads(path.read_text())
    info.update({"mesh": "../elsewhere", "skeletons": "https://example.org/skeletons"})
    path.write_text(json.dumps(info))
    report = zvcore.convert(segments, tmp_path / "dst", format="precomputed")
    assert ["../elsewhere" in loss.what for loss in report.losses] == [True]
    info = zvcore.open(tmp_path / "dst").info
    assert "mesh" not in info and info["skeletons"] == "https://example.org/skeletons"


def test_an_old_scale_that_is_in_the_way_of_a_new_one_is_named(segments, tmp_path):
    (segments / "16_16_16").mkdir()
    (segments / "16_16_16" / "old").write_text("old")
    report = zvcore.convert(segments, tmp_path / "dst", format="precomputed", levels=1)
    assert [loss.where for loss in report.losses] == ["16_16_16/"]
    assert zvcore.open(tmp_path / "dst")[1][...].all() and not (tmp_path / "dst/16_16_16/old").exists()


@pytest.mark.parametrize("format", ["zarr3", "n5"])
def test_files_in_groups_go_along_within_a_format_but_for_documents_of_others(format, tmp_path):
    group = zvcore.open(tmp_path / "src", "w", format=format)
    group.create_dataset("a/b", shape=(4, 4), dtype="u1", chunks=(2, 2))[...] = 1
    (tmp_path / "src" / "OME").mkdir(exist_ok=True)
    (tmp_path / "src" / "OME" / "METADATA.ome.xml").write_text("<OME/>")
    (tmp_path / "src" / "a" / "README").write_text("read me")
    (tmp_path / "src" / ".zmetadata").write_text("{}")
    report = zvcore.convert(tmp_path / "src", tmp_path / "dst", format=format, verify=True)
    assert [(loss.where, loss.fatal) for loss in report.losses] == [(".zmetadata", False)]
    after = files(tmp_path / "dst")
    assert after["OME/METADATA.ome.xml"] == b"<OME/>" and after["a/README"] == b"read me"
    other = "n5" if format == "zarr3" else "zarr3"
    report = zvcore.convert(tmp_path / "src", tmp_path / "other", format=other)
    assert len(report.losses) == 3


def test_the_work_is_cut_into_units_that_each_know_their_objects_without_a_list_of_all(segments, tmp_path, monkeypatch):
    store = open_store(segments, "r")
    assert companions.counted(store, "mesh") == 301
    monkeypatch.setattr(companions, "_COUNTED", 100)
    assert companions.counted(store, "mesh") is None
    target = open_store(tmp_path / "dst", "w")
    work = pickle.loads(pickle.dumps(CopyingObjects(Companion("m", store, "mesh", True, None), target)))
    assert len(work) == 64
    keys = [key for unit in range(len(work)) for key in work.keys(unit)]
    assert sorted(keys) == sorted(store.list("mesh"))
    assert [work.run(unit, 1).objects for unit in range(64)] == [len([*work.keys(unit)]) for unit in range(64)]
    assert sorted(target.list()) == sorted(key.replace("mesh/", "m/", 1) for key in keys)


def test_an_interrupted_copy_of_meshes_is_resumed(segments, tmp_path, monkeypatch):
    seen = []
    copy = companions.copy_object

    def failing(source, key, target, to):
        if len(seen) == 150:
            raise OSError("the disk is full")
        seen.append(key)
        return copy(source, key, target, to)

    monkeypatch.setattr(companions, "copy_object", failing)
    with pytest.raises(OSError, match="full"):
        zvcore.convert(segments, tmp_path / "dst", format="precomputed", threads=1)
    assert any(problem.status == "unfinished" for problem in zvcore.verify(tmp_path / "dst").problems)
    monkeypatch.setattr(companions, "copy_object", copy)
    report = zvcore.convert(segments, tmp_path / "dst", format="precomputed", threads=1, verify=True)
    assert report.resumed > 10 and 0 < report.objects < 305 and report.verified
    after = files(tmp_path / "dst")
    assert {name: data for name, data in files(segments).items() if name != "info"}.items() <= after.items()


def test_a_copy_that_differs_from_the_source_is_reported(segments, tmp_path, monkeypatch):
    copy = companions.copy_object

    def wrong(source, key, target, to):
        nbytes = copy(source, key, target, to)
        if key == "mesh/77:0":
            target.put(to, b"?" * nbytes)
        return nbytes

    monkeypatch.setattr(companions, "copy_object", wrong)
    report = zvcore.convert(segments, tmp_path / "dst", format="precomputed", verify=True)
    assert not report.verified and [problem.where for problem in report.problems] == ["mesh/77:0"]
