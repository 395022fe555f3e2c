"""Lines of Zarr Vectors become precomputed skeletons, and skeletons lines, with ids and attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import ConflictError, UnsupportedError
from zvcore.precomputed import Skeleton, Skeletons, VertexAttribute, write_annotations, write_skeletons
from zvcore.precomputed.line_exchange import lines_of
from zvcore.zvf import write_polylines

if TYPE_CHECKING:
    from pathlib import Path

EDGES = np.stack([np.arange(19), np.arange(1, 20)], -1).astype("u4")


def streamlines(count: int) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [(generator.random((int(generator.integers(1, 30)), 3)) * 100).astype("f4") for _ in range(count)]


@pytest.mark.parametrize("sharding", [None, "advise"])
def test_lines_become_skeletons_and_lines_again(tmp_path: Path, sharding: Any) -> None:
    lines = streamlines(50)
    ids = [5 + 3 * i for i in range(50)]
    radius = [line[:, 0].astype("f8") for line in lines]
    kinds = [np.arange(len(line), dtype="i2") for line in lines]
    write_polylines(
        tmp_path / "a", lines, chunk_shape=(40, 40, 40), object_ids=ids,
        vertex_attributes={"radius": radius, "kind": kinds},
    )  # fmt: skip
    options = {} if sharding is None else {"sharding": sharding}
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="precomputed", **options)
    assert [str(loss) for loss in report.losses if "radius" in str(loss)]
    bones = zvcore.open(tmp_path / "b")
    assert isinstance(bones, Skeletons) and list(bones) == ids
    assert (bones.sharding is None) == (sharding is None)
    for id, line, kind in zip(ids, lines, kinds, strict=True):
        found = bones[id]
        np.testing.assert_array_equal(found.vertices, line)
        assert found.edges.tolist() == [[i, i + 1] for i in range(len(line) - 1)]
        np.testing.assert_array_equal(found.attributes["kind"], kind)
        np.testing.assert_allclose(found.attributes["radius"], line[:, 0])
    assert zvcore.verify(tmp_path / "b").ok
    report = zvcore.convert(tmp_path / "b", tmp_path / "c", format="zvf")
    assert report.losses == []
    level = zvcore.open(tmp_path / "c").level(0)
    assert sorted(level.object_ids().tolist()) == ids
    back = level.read_objects(ids, ["radius", "kind"])
    np.testing.assert_array_equal(back.positions, np.concatenate(lines))
    np.testing.assert_array_equal(back.attributes["kind"], np.concatenate(kinds))
    with pytest.raises(ConflictError, match="overwrite"):
        zvcore.convert(tmp_path / "b", tmp_path / "c", format="zvf")
    zvcore.convert(tmp_path / "b", tmp_path / "c", format="zvf", overwrite=True)


def test_branches_become_lines_and_say_whose_they_are(tmp_path: Path) -> None:
    star = Skeleton(np.eye(4, 3, dtype="f4") * 10, np.array([[3, 0], [1, 3], [3, 2]]), {"radius": np.arange(4.0)})
    plain = Skeleton(np.ones((1, 3), "f4"), np.zeros((0, 2), "u4"), {"radius": np.zeros(1)})
    empty = Skeleton(np.zeros((0, 3), "f4"), np.zeros((0, 2), "u4"), {"radius": np.zeros(0)})
    transform = [2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0]
    write_skeletons(
        tmp_path / "a",
        {7: star, 8: empty, 9: plain},
        vertex_attributes=[VertexAttribute("radius")],
        transform=transform,
    )
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zvf")
    assert len(report.losses) == 2 and "branches" in str(report.losses[0]) and "left out" in str(report.losses[1])
    level = zvcore.open(tmp_path / "b").level(0)
    assert level.object_attribute("segment").tolist() == [7, 7, 7, 9]
    assert level.read().positions.max() == 20
    with pytest.raises(UnsupportedError, match="branches"):
        zvcore.convert(tmp_path / "a", tmp_path / "c", format="zvf", strict=True)


@pytest.mark.parametrize(
    ("count", "edges", "lines"),
    [
        (3, [[0, 1], [1, 2]], [[0, 1, 2]]),
        (3, [[2, 1], [0, 1], [1, 1], [1, 0]], [[0, 1, 2]]),
        (3, [[0, 1], [1, 2], [2, 0]], [[0, 1, 2, 0]]),
        (5, [[0, 1], [3, 4]], [[0, 1], [2], [3, 4]]),
        (5, [[0, 1], [1, 2], [2, 3], [3, 1], [3, 4]], [[0, 1], [1, 2, 3], [1, 3], [3, 4]]),
        (0, [], []),
    ],
)
def test_the_lines_of_a_graph(count: int, edges: Any, lines: list[list[int]]) -> None:
    found = lines_of(Skeleton(np.zeros((count, 3), "f4"), np.array(edges, "u4").reshape(-1, 2)))
    assert sorted(line.tolist() for line in found) == lines


def test_ids_that_are_too_large_become_an_attribute(tmp_path: Path) -> None:
    line = Skeleton(np.eye(3, dtype="f4"), np.array([[0, 1], [1, 2]]))
    write_skeletons(tmp_path / "a", {2**63 + 1: line, 4: line})
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="zvf")
    assert "2**63" in str(report.losses[0])
    level = zvcore.open(tmp_path / "b").level(0)
    assert level.object_ids().tolist() == [0, 1]
    assert [int(one) for one in level.object_attribute("segment")] == [4, 2**63 + 1]


@pytest.mark.parametrize("format", ["precomputed", "trx"])
def test_strict_refuses_what_only_writing_finds_before_anything_is_written(tmp_path: Path, format: str) -> None:
    place = tmp_path / "a.zv"
    write_polylines(
        place, [np.full((2, 3), 1e7 + 1 / 3)], dtype="float64", chunk_shape=(1e8,) * 3, object_ids=[7], groups={0: [7]}
    )
    dst = tmp_path / f"a.{format}"
    with pytest.raises(UnsupportedError, match=r"would be lost.*(no place|no ids)"):
        zvcore.convert(place, dst, format=format, strict=True)
    assert not dst.exists()
    assert zvcore.convert(place, dst, format=format).losses


def test_strict_converts_lines_of_which_nothing_is_lost(tmp_path: Path) -> None:
    write_polylines(tmp_path / "a.zv", [np.ones((2, 3), "f4")], chunk_shape=(8, 8, 8))
    assert not zvcore.convert(tmp_path / "a.zv", tmp_path / "b", format="precomputed", strict=True).losses
    assert list(zvcore.open(tmp_path / "b")) == [0]


def test_strict_refuses_points_of_which_something_is_lost(tmp_path: Path) -> None:
    columns = {"point": np.ones((2, 3)), "of": [[1], [2]]}
    nm = dict.fromkeys("xyz", (1e-9, "m"))
    write_annotations(tmp_path / "a", "point", columns, dimensions=nm, relationships=["of"])
    with pytest.raises(UnsupportedError, match="related segments"):
        zvcore.convert(tmp_path / "a", tmp_path / "b", format="zvf", strict=True)
    assert not (tmp_path / "b").exists()
    write_annotations(tmp_path / "plain", "point", {"point": np.ones((2, 3))}, dimensions=nm)
    zvcore.convert(tmp_path / "plain", tmp_path / "a.csv", format="csv", strict=True)
    assert (tmp_path / "a.csv").exists()


@pytest.mark.parametrize("format", ["precomputed", "trk", "tck", "trx"])
def test_the_plan_tells_what_lines_lose(tmp_path: Path, format: str) -> None:
    if format in ("trk", "tck"):
        pytest.importorskip("nibabel")
    zvcore.zvf.write_polylines(
        tmp_path / "a.zv", [np.ones((2, 3), "f4")] * 2, chunk_shape=(2, 2, 2),
        vertex_attributes={"n": [np.array([1, 2])] * 2}, object_attributes={"a?b": np.array([1, 2])}, groups={0: [0]},
    )  # fmt: skip
    target = tmp_path / f"b.{format}"
    planned = zvcore.plan(tmp_path / "a.zv", target, format=format).losses
    assert planned and not target.exists()
    assert planned == zvcore.convert(tmp_path / "a.zv", target, format=format).losses


def test_the_plan_tells_what_points_lose(tmp_path: Path) -> None:
    columns = {"point": np.ones((2, 3)), "of": [[1], [2]], "kind": np.array(["a", "b"])}
    write_annotations(
        tmp_path / "a", "point", columns, dimensions=dict.fromkeys("xyz", (1e-9, "m")), relationships=["of"]
    )
    planned = zvcore.plan(tmp_path / "a", tmp_path / "b.zv", format="zvf").losses
    assert {loss.where for loss in planned} == {"of", "kind"}
    assert planned == zvcore.convert(tmp_path / "a", tmp_path / "b.zv", format="zvf").losses


@pytest.mark.parametrize("format", ["precomputed", "trk", "trx"])
def test_attributes_of_several_axes_keep_their_numbers_and_tell_their_shape(tmp_path: Path, format: str) -> None:
    if format == "trk":
        pytest.importorskip("nibabel")
    tables = [np.arange(18, dtype="f4").reshape(2, 3, 3), np.arange(9, dtype="f4").reshape(1, 3, 3)]
    whole = np.arange(8, dtype="f4").reshape(2, 2, 2)
    source, target = tmp_path / "a.zv", tmp_path / f"b.{format}"
    write_polylines(
        source, [np.ones((2, 3), "f4"), np.ones((1, 3), "f4")], chunk_shape=(2, 2, 2),
        vertex_attributes={"m": tables}, object_attributes={"o": whole},
    )  # fmt: skip
    plan = zvcore.plan(source, target, format=format)
    report = zvcore.convert(source, target, format=format)
    assert [str(one) for one in report.losses if "3 x 3" in str(one) or "2 x 2" in str(one)] == [
        "the shape 3 x 3 of the attribute 'm' has no place: each vertex has its numbers in a row",
        "the shape 2 x 2 of the attribute 'o' has no place: each line has its numbers in a row",
    ]
    assert plan.losses == report.losses
    found = zvcore.formats()[format].read_lines(zvcore.open(target))
    assert found is not None
    values = np.concatenate([batch.attributes["m"] for batch in found.batches()])
    np.testing.assert_array_equal(values, np.concatenate(tables).reshape(3, 9))
    if format != "precomputed":
        np.testing.assert_array_equal(found.of_objects["o"], whole.reshape(2, 4))


@pytest.mark.parametrize("format", ["precomputed", "trk", "trx"])
def test_attributes_that_are_names_are_left_out_and_told(tmp_path: Path, format: str) -> None:
    if format == "trk":
        pytest.importorskip("nibabel")
    source, target = tmp_path / "a.zv", tmp_path / f"b.{format}"
    names = {"kind": [np.array(["a", "b"])], "odd": [np.array(["a", None], object)]}
    write_polylines(source, [np.ones((2, 3), "f4")], chunk_shape=(2, 2, 2), vertex_attributes=names)
    plan = zvcore.plan(source, target, format=format)
    assert sum("values are names" in str(one) for one in plan.losses) == 2
    assert zvcore.convert(source, target, format=format).losses == plan.losses


@pytest.mark.parametrize("format", ["trk", "tck", "trx"])
def test_plans_tell_that_ids_have_no_place(tmp_path: Path, format: str) -> None:
    if format in ("trk", "tck"):
        pytest.importorskip("nibabel")
    write_polylines(tmp_path / "a.zv", [np.ones((2, 3), "f4")] * 2, chunk_shape=(2, 2, 2), object_ids=[0, 5])
    bones = {id: Skeleton(np.ones((2, 3), "f4"), np.array([[0, 1]])) for id in (0, 5)}
    write_skeletons(tmp_path / "bones", bones)
    for source in ("a.zv", "bones"):
        target = tmp_path / f"{source}.{format}"
        losses = zvcore.plan(tmp_path / source, target, format=format).losses
        assert any("no ids" in str(one) for one in losses)
        assert zvcore.convert(tmp_path / source, target, format=format).losses == losses


def test_what_is_no_array_is_refused_as_what_it_is(tmp_path: Path) -> None:
    write_polylines(tmp_path / "lines", [np.ones((2, 3), "f4")], chunk_shape=(2, 2, 2))
    for format, target in (("zvf", "b"), ("csv", "b.csv"), ("zarr3", "b")):
        with pytest.raises(UnsupportedError, match="neither an array") as caught:
            zvcore.convert(tmp_path / "lines", tmp_path / target, format=format)
        taken = str(caught.value).rpartition("one of ")[2]
        assert "trx" in taken and "zvf" not in taken and "csv" not in taken


def test_what_an_info_says_besides_is_told(tmp_path: Path) -> None:
    line = Skeleton(np.eye(3, dtype="f4"), np.array([[0, 1], [1, 2]]))
    write_skeletons(tmp_path / "bones", {4: line}, attrs={"segment_properties": "props"})
    write_annotations(
        tmp_path / "notes", "point", {"point": np.ones((2, 3))}, dimensions=dict.fromkeys("xyz", (1e-9, "m")),
        attrs={"mine": 3},
    )  # fmt: skip
    for source, member, formats in (
        ("bones", "segment_properties", ("zvf",)),
        ("notes", "mine", ("zvf", "precomputed")),
    ):
        for format in formats:
            losses = zvcore.plan(tmp_path / source, tmp_path / "b", format=format).losses
            assert f"the member {member!r} of info is left out" in str(losses)


def test_few_vertices_are_cut_into_few_chunks(tmp_path: Path) -> None:
    bones = {id: Skeleton(np.random.default_rng(id).random((20, 3), "f4") * 1000, EDGES) for id in range(200)}
    write_skeletons(tmp_path / "bones", bones)
    zvcore.convert(tmp_path / "bones", tmp_path / "a.zv", format="zvf")
    level = zvcore.open(tmp_path / "a.zv").level(0)
    assert level.vertex_count == 4000 and len(level.chunks()) <= 8
