"""Skeletons of segmentations: whole across boxes, in nanometers, with radii."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.forging.segments import volume
from zvcore.commands import cli
from zvcore.precomputed import Skeletons
from zvcore.precomputed.line_exchange import lines_of

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (120, 40, 40)
# A rod along x with a thinner one across it, and a short one.
BIG = 2**63 + 5


def rods() -> np.ndarray:
    x, y, z = np.indices(SHAPE)
    labels = np.zeros(SHAPE, "uint64")
    labels[((y - 20) ** 2 + (z - 18) ** 2 < 64) & (x > 5) & (x < 115)] = 7
    labels[(abs(x - 60) < 6) & (abs(z - 18) < 6) & (y > 3)] = 7
    labels[(x < 30) & (y < 5) & (z < 5)] = BIG
    return labels


def forge(*arguments: Any, **options: Any) -> Any:
    given = {"threads": 1, "box": (50, 40, 40), "const": 20, "dust": 10}
    return zvcore.skeletonize(*arguments, **{**given, **options})


def components(skeleton: Any) -> int:
    parents = list(range(len(skeleton.vertices)))

    def top(one: int) -> int:
        while parents[one] != one:
            one = parents[one]
        return one

    for a, b in skeleton.edges.tolist():
        parents[top(a)] = top(b)
    return len({top(one) for one in range(len(parents))})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rods") / "seg"
    seg = volume(folder, rods(), resolution=(4, 4, 4), voxel_offset=(10, 20, 30))
    report = forge(seg)
    assert report.ok and report.objects == 2 and report.counts["skeletons"] == 2
    assert report.counts["pieces"] == 3 + 1
    return seg


def test_a_skeleton_is_one_tree_across_boxes(made: Path) -> None:
    skeletons = zvcore.open(made).skeletons()
    assert list(skeletons) == [7, BIG] and skeletons.sharding is not None
    skeleton = skeletons[7]
    assert components(skeleton) == 1 and len(skeleton.edges) == len(skeleton.vertices) - 1
    # The rod from end to end, and the branch that goes out far on one side.
    lengths = sorted(len(line) for line in lines_of(skeleton))
    assert len(lengths) == 3 and lengths[0] >= 12 and lengths[1] > 40
    assert zvcore.verify(made).ok and not zvcore.verify(made).problems


def test_without_shards_the_skeletons_are_the_same_in_files_of_their_own(made: Path, tmp_path: Path) -> None:
    forge(made, tmp_path / "files", sharding=None)
    found, sharded = zvcore.open(tmp_path / "files"), zvcore.open(made).skeletons()
    assert isinstance(found, Skeletons) and found.sharding is None and list(found) == [7, BIG]
    assert all(found.stored(id) == sharded.stored(id) for id in found)
    assert zvcore.verify(tmp_path / "files").problems == []


def test_vertices_and_radii_are_in_nanometers(made: Path) -> None:
    found = zvcore.open(made).skeletons()
    skeleton = found.in_nanometers(7)
    voxels = skeleton.vertices / 4 - np.array([10, 20, 30]) - 0.5
    np.testing.assert_allclose(voxels, np.rint(voxels), atol=1e-4)
    places = np.rint(voxels).astype(int)
    assert (rods()[tuple(places.T)] == 7).all()
    assert places[:, 0].min() <= 9 and places[:, 0].max() >= 111
    inner = (places[:, 0] > 20) & (places[:, 0] < 45)
    assert abs(places[inner][:, 1] - 20).max() <= 2 and abs(places[inner][:, 2] - 18).max() <= 2
    assert 24 <= np.median(skeleton.attributes["radius"][inner]) <= 36
    assert [(one.id, one.data_type) for one in found.vertex_attributes] == [
        ("radius", "float32"), ("vertex_types", "uint8"),
    ]  # fmt: skip


def test_boxes_change_little(made: Path, tmp_path: Path) -> None:
    forge(made, tmp_path / "whole", box=SHAPE)
    whole, boxes = Skeletons(tmp_path / "whole")[7], zvcore.open(made).skeletons()[7]
    apart = np.linalg.norm(whole.vertices[:, None] - boxes.vertices, axis=2)
    for nearest in (apart.min(1), apart.min(0)):
        # At its ends a rod is as wide as it is: there paths end where they will.
        assert np.median(nearest) <= 6 and nearest.max() <= 96


def test_dust_ticks_and_chosen_ids_leave_things_out(made: Path, tmp_path: Path) -> None:
    forge(made, tmp_path / "a", dust=2000)
    assert list(Skeletons(tmp_path / "a")) == [7]
    forge(made, tmp_path / "b", ids=[BIG])
    assert list(Skeletons(tmp_path / "b")) == [BIG]
    report = forge(made, tmp_path / "c", length=200)
    assert list(Skeletons(tmp_path / "c")) == [7]
    assert report.counts["segments of which nothing was left"] == 1
    forge(made, tmp_path / "d", ticks=100)
    assert len(lines_of(Skeletons(tmp_path / "d")[7])) == 1


def test_the_command_makes_skeletons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seg = volume(tmp_path / "seg", rods(), resolution=(4, 4, 4))
    options = ["--threads", "1", "--const", "20", "--dust", "10", "--box", "64,64,64", "--json", "-q"]
    assert cli.main(["skeletonize", str(seg), *options]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["skeletons"] == 2
    assert json.loads((seg / "info").read_text())["skeletons"] == "skeletons"
    assert list(zvcore.open(seg).skeletons()) == [7, BIG]
