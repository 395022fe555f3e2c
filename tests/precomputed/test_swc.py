"""Skeletons in SWC files: trees of rows, in any order, in units that the file does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from osteoid import Skeleton as TheirSkeleton

import zvcore
from zvcore.commands import cli
from zvcore.errors import CorruptDataError, UnsupportedError, ZvcoreError
from zvcore.precomputed import SWC_ATTRIBUTES, Skeleton, VertexAttribute, read_swc, write_skeletons, write_swc
from zvcore.precomputed.swc import encode_swc, parse_swc

if TYPE_CHECKING:
    from pathlib import Path

# Two trees, with gaps, parents that come later, tabs, an unknown radius, and a vertex alone.
OTHERS = (
    b"# of some tool\n\n 5 3 1 0 0  0.5 2\n2\t1\t0 0 0 2 -1 # soma\n9 2 2 0 0 NA 5\n11 0 7 7 7 1 -1\n"
    b"12 0.0 8 8 8 1 11.0\n"
)


def tree(count: int, seed: int = 0) -> Skeleton:
    generator = np.random.default_rng(seed)
    parents = [int(generator.integers(0, child)) for child in range(1, count)]
    edges = np.array([[parent, child] for child, parent in enumerate(parents, 1)], "u4").reshape(-1, 2)
    return Skeleton(
        (generator.random((count, 3)) * 1e5).astype("f4"), edges,
        {"radius": generator.random(count, np.float32), "vertex_types": generator.integers(0, 5, count, np.uint8)},
    )  # fmt: skip


def lengths(skeleton: Skeleton) -> np.ndarray:
    ends = skeleton.vertices[skeleton.edges.astype(int)]
    return np.sort(np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1))


def test_files_of_others() -> None:
    found = parse_swc(OTHERS)
    assert found.vertices.tolist() == [[1000, 0, 0], [0, 0, 0], [2000, 0, 0], [7000] * 3, [8000] * 3]
    assert sorted(found.edges.tolist()) == [[0, 2], [1, 0], [3, 4]]
    assert found.attributes["vertex_types"].tolist() == [3, 1, 2, 0, 0]
    assert found.attributes["radius"].tolist() == [500, 2000, 0, 1000, 1000]


@pytest.mark.parametrize("unit", ["nm", "um", "mm"])
@pytest.mark.parametrize("count", [0, 1, 2, 300])
def test_trees_come_back(tmp_path: Path, unit: str, count: int) -> None:
    skeleton = tree(count)
    assert write_swc(tmp_path / "a.swc", skeleton, unit=unit) == []
    found = read_swc(tmp_path / "a.swc", unit=unit)
    np.testing.assert_allclose(np.sort(found.vertices, 0), np.sort(skeleton.vertices, 0), rtol=1e-6)
    np.testing.assert_allclose(lengths(found), lengths(skeleton), rtol=1e-3, atol=1)
    np.testing.assert_allclose(np.sort(found.attributes["radius"]), np.sort(skeleton.attributes["radius"]), rtol=1e-6)
    # Parents stand before their children, in the rows of one branch.
    assert not count or (found.edges[:, 0] < found.edges[:, 1]).all()


def test_a_cycle_loses_an_edge_and_says_so() -> None:
    ring = Skeleton(np.eye(3, dtype="f4"), np.array([[0, 1], [1, 2], [2, 0], [2, 2], [1, 0]]), {"x": np.zeros(3)})
    data, losses = encode_swc(ring)
    assert len(parse_swc(data).edges) == 2
    assert losses == [
        "SWC holds trees: 1 edges that close cycles are left out", "SWC has no place for the vertex attribute 'x'",
    ]  # fmt: skip


def test_osteoid_reads_ours_and_we_read_its(tmp_path: Path) -> None:
    skeleton = tree(40)
    write_swc(tmp_path / "ours.swc", skeleton, unit="nm")
    theirs = TheirSkeleton.from_swc((tmp_path / "ours.swc").read_text())
    np.testing.assert_allclose(np.sort(theirs.vertices, 0), np.sort(skeleton.vertices, 0), rtol=1e-6)
    assert len(theirs.edges) == 39
    back = parse_swc(theirs.to_swc().encode(), unit="nm")
    np.testing.assert_allclose(np.sort(back.vertices, 0), np.sort(skeleton.vertices, 0), rtol=1e-5)
    assert len(back.edges) == 39


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"1 2 3\n", "columns"), (b"1 0 a 0 0 1 -1\n", "number"), (b"1 0 0 0 0 1 7\n", "parent"),
        (b"1 0 0 0 0 1 1\n", "parent"), (b"1 0 0 0 0 1 -1\n1 0 0 0 0 1 -1\n", "same number"),
        (b"1 999 0 0 0 1 -1\n", "line 1"), (b"1 0 inf 0 0 1 -1\n", "line 1"), (b"1 0 1e38 0 0 1 -1\n", "float32"),
    ],
)  # fmt: skip
def test_broken_files_are_refused_with_the_line(data: bytes, text: str) -> None:
    with pytest.raises(CorruptDataError, match=text):
        parse_swc(data)


def test_units_are_known_ones() -> None:
    with pytest.raises(UnsupportedError, match="furlong"):
        parse_swc(OTHERS, unit="furlong")


@given(data=st.data())
def test_any_file_is_a_skeleton_or_an_error(data: st.DataObject) -> None:
    content = bytearray(OTHERS)
    for _ in range(data.draw(st.integers(0, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.sampled_from(list(b"0159 \n-.eN#\xff")))
    try:
        found = parse_swc(bytes(content))
    except ZvcoreError:
        return
    found.to_bytes(SWC_ATTRIBUTES)


def test_get_writes_a_skeleton_in_micrometers_with_the_transform_applied(tmp_path: Path) -> None:
    skeleton = Skeleton(
        np.array([[0, 0, 0], [1000, 0, 0]], "f4"), np.array([[0, 1]]),
        {"radius": np.array([100, 200.0]), "vertex_types": np.array([1, 2])},
    )  # fmt: skip
    transform = [4, 0, 0, 500, 0, 4, 0, 0, 0, 0, 4, 0]
    zvcore.create(tmp_path / "v", format="precomputed", shape=(8, 8, 8), dtype="uint32", type="segmentation")
    zvcore.open(tmp_path / "v", "r+").attrs["skeletons"] = "bones"
    write_skeletons(tmp_path / "v/bones", {7: skeleton}, vertex_attributes=SWC_ATTRIBUTES, transform=transform)
    for path in ("v", "v/bones"):
        assert cli.main(["get", str(tmp_path / path), "--id", "7", "-o", str(tmp_path / "x.swc")]) == 0
        found = read_swc(tmp_path / "x.swc")
        assert found.vertices.tolist() == [[500, 0, 0], [4500, 0, 0]]
        assert found.attributes["radius"].tolist() == [400, 800]
    assert cli.main(["get", str(tmp_path / "v/bones"), "--id", "7", "-o", str(tmp_path / "x.bin")]) == 0
    assert (tmp_path / "x.bin").read_bytes() == (tmp_path / "v/bones/7").read_bytes()
    assert cli.main(["get", str(tmp_path / "v"), "--id", "8", "-o", str(tmp_path / "x.swc")]) == 1


def test_stretched_space_leaves_radii_alone() -> None:
    skeleton = Skeleton(np.ones((1, 3), "f4"), np.zeros((0, 2), "u4"), {"radius": np.array([3.0])})
    found = skeleton.in_nanometers(np.array([[4, 0, 0, 0], [0, 4, 0, 0], [0, 0, 40, 0.0]]))
    assert found.vertices.tolist() == [[4, 4, 40]] and found.attributes["radius"].tolist() == [3]


def test_a_link_to_a_file_stays_one(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far/real.swc").write_bytes(b"old")
    (tmp_path / "link.swc").symlink_to("far/real.swc")
    write_swc(tmp_path / "link.swc", tree(5))
    assert (tmp_path / "link.swc").is_symlink()
    assert (tmp_path / "far/real.swc").read_bytes() == encode_swc(tree(5))[0]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["far", "link.swc"]


def test_get_tells_what_an_swc_has_no_place_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ring = Skeleton(
        np.eye(3, dtype="f4"), np.array([[0, 1], [1, 2], [2, 0]]),
        {"radius": np.ones((3, 2), "f4"), "vertex_types": np.array([0, 1.5, np.nan], "f4"), "other": np.ones(3, "f4")},
    )  # fmt: skip
    declared = [VertexAttribute("radius", "float32", 2), VertexAttribute("vertex_types"), VertexAttribute("other")]
    write_skeletons(tmp_path / "bones", {7: ring}, vertex_attributes=declared)
    assert cli.main(["get", str(tmp_path / "bones"), "--id", "7", "-o", str(tmp_path / "7.swc")]) == 0
    said = capsys.readouterr().err
    for loss in ("1 edges that close cycles", "2 values of 'vertex_types'", "attribute 'radius'", "attribute 'other'"):
        assert said.count(loss) == 1
    assert read_swc(tmp_path / "7.swc").attributes["vertex_types"].tolist() == [0, 0, 0]


def test_a_segment_without_a_skeleton_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_skeletons(tmp_path / "bones", {7: tree(3)}, vertex_attributes=SWC_ATTRIBUTES)
    for name in ("8.swc", "8"):
        assert cli.main(["get", str(tmp_path / "bones"), "--id", "8", "-o", str(tmp_path / name)]) == 1
        assert "there is no skeleton of segment 8" in capsys.readouterr().err
