"""Annotations, points and tables become each other, and are the same when they come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands import cli
from zvcore.errors import ConflictError, MetadataError, UnsupportedError
from zvcore.precomputed import Ragged, write_annotations

if TYPE_CHECKING:
    from pathlib import Path

NM = {"x": (4e-9, "m"), "y": (4e-9, "m"), "z": (40e-9, "m")}
TYPES = ("point", "line", "axis_aligned_bounding_box", "ellipsoid", "polyline")


def annotations(path: Path, type: str, count: int = 1500) -> Any:
    rng = np.random.default_rng(0)
    a, b = (rng.random((2, count, 3)) * 100).astype("f4")
    columns: dict[str, Any] = {
        "point": {"point": a}, "line": {"point_a": a, "point_b": b},
        "axis_aligned_bounding_box": {"point_a": a, "point_b": b}, "ellipsoid": {"center": a, "radii": b},
        "polyline": {"points": Ragged.of([rng.random((2 + n % 3, 3)) for n in range(count)], "f4", 3)},
    }[type]  # fmt: skip
    columns |= {
        "id": rng.permutation(count).astype("u8") * 2**53, "size": rng.random(count).astype("f4"),
        "kind": np.array(["spine", "shaft", "soma"])[rng.integers(0, 3, count)], "n": rng.integers(-5, 5, count),
        "colour": rng.integers(0, 256, (count, 3)).astype("u1"),
        "segments": [rng.integers(0, 2**64 - 1, n % 3, np.uint64).tolist() for n in range(count)],
    }  # fmt: skip
    write_annotations(path, type, columns, dimensions=NM, relationships=["segments"], limit=200)
    return zvcore.open(path)


def same(one: Any, other: Any, but: tuple[str, ...] = ()) -> None:
    ours, theirs = one.get_many(one.ids()), other.get_many(one.ids())
    for name, column in ours.items():
        if name in but:
            continue
        if isinstance(column, Ragged):
            np.testing.assert_array_equal(column.offsets, theirs[name].offsets)
            np.testing.assert_array_equal(column.values, theirs[name].values)
        else:
            assert column.dtype == theirs[name].dtype or name == "n"
            np.testing.assert_array_equal(column, theirs[name], err_msg=name)


@pytest.mark.parametrize("type", TYPES)
def test_to_parquet_and_back(tmp_path: Path, type: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    found = annotations(tmp_path / "a", type)
    report = zvcore.convert(tmp_path / "a", tmp_path / "t.parquet", format="parquet")
    assert report.counts == {"rows": 1500} and not report.losses
    table = parquet.read_table(tmp_path / "t.parquet")
    assert set(table["kind"].to_pylist()) == {"spine", "shaft", "soma"}
    report = zvcore.convert(tmp_path / "t.parquet", tmp_path / "b", format="precomputed")
    again = zvcore.open(tmp_path / "b")
    assert zvcore.verify(tmp_path / "b").ok and not report.losses
    assert (again.type, again.dimensions) == (type, found.dimensions)
    assert again.properties == found.properties
    same(found, again)


def test_what_a_csv_does_not_keep_is_told_and_planned_and_refused_if_strict(tmp_path: Path) -> None:
    annotations(tmp_path / "a", "axis_aligned_bounding_box", 5)
    losses = zvcore.convert(tmp_path / "a", tmp_path / "t.csv", format="csv").losses
    told = " | ".join(map(str, losses))
    assert "x in 4e-09 m" in told and "axis_aligned_bounding_box" in told and "int32" in told
    assert {loss.where for loss in losses} == {"", "segments", "n", "kind"}
    assert zvcore.plan(tmp_path / "a", tmp_path / "p.csv", format="csv").losses == losses
    with pytest.raises(UnsupportedError, match="would be lost"):
        zvcore.convert(tmp_path / "a", tmp_path / "s.csv", format="csv", strict=True)
    assert not (tmp_path / "s.csv").exists()


def test_a_csv_of_plain_points_loses_nothing(tmp_path: Path) -> None:
    plain = dict.fromkeys("xyz", (1e-09, "m"))
    write_annotations(tmp_path / "a", "point", {"point": np.ones((2, 3)), "f": np.ones(2, "f4")}, dimensions=plain)
    assert not zvcore.convert(tmp_path / "a", tmp_path / "t.csv", format="csv", strict=True).losses


@pytest.mark.parametrize("labels", [["a", "b"], ["1", "0"], ["a", "a"]])
def test_values_without_a_name_of_their_own_are_the_same_after_parquet(tmp_path: Path, labels: list[str]) -> None:
    pytest.importorskip("pyarrow")
    columns = {"point": np.ones((3, 3)), "k": np.array([0, 1, 5], "u1")}
    declared = {"k": {"type": "uint8", "enum_values": [0, 1], "enum_labels": labels}}
    write_annotations(tmp_path / "a", "point", columns, dimensions=NM, properties=declared)
    assert not zvcore.convert(tmp_path / "a", tmp_path / "t.parquet", format="parquet").losses
    zvcore.convert(tmp_path / "t.parquet", tmp_path / "b", format="precomputed")
    again = zvcore.open(tmp_path / "b")
    assert again.get_many([0, 1, 2])["k"].tolist() == [0, 1, 5]
    assert again.properties["k"].enum_labels == tuple(labels)
    zvcore.convert(tmp_path / "t.parquet", tmp_path / "c", format="zvf")
    assert zvcore.open(tmp_path / "c").level(0).read(["k"]).attributes["k"].tolist() == [0, 1, 5]


def test_properties_called_as_coordinates_are_all_kept_and_their_new_names_told(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    columns = {"point": np.ones((2, 3)), "x": np.zeros(2, "f4"), "x_property": np.array([5, 6], "f4")}
    write_annotations(tmp_path / "a", "point", columns, dimensions=NM)
    report = zvcore.convert(tmp_path / "a", tmp_path / "t.parquet", format="parquet")
    assert [loss.where for loss in report.losses] == ["x"]
    zvcore.convert(tmp_path / "t.parquet", tmp_path / "b", format="precomputed")
    found = zvcore.open(tmp_path / "b").get_many([0, 1])
    assert found["x_property"].tolist() == [5, 6] and found["x_property_property"].tolist() == [0, 0]
    assert "x" not in found


@pytest.mark.parametrize("type", TYPES)
def test_to_csv_and_back(tmp_path: Path, type: str) -> None:
    found = annotations(tmp_path / "a", type)
    zvcore.convert(tmp_path / "a", tmp_path / "t.csv", format="csv")
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert len(lines) == 1501 and lines[0].startswith("id,")
    zvcore.convert(
        tmp_path / "t.csv", tmp_path / "b", format="precomputed", kind=type, dimensions=NM, relationships=["segments"]
    )
    again = zvcore.open(tmp_path / "b")
    assert {name: one.type for name, one in again.properties.items()} == {
        "size": "float32", "n": "int32", "kind": "uint8", "colour": "rgb"
    }  # fmt: skip
    assert again.properties["kind"].enum_labels == ("shaft", "soma", "spine")
    same(found, again)


def test_points_to_zarr_vectors_and_back(tmp_path: Path) -> None:
    found = annotations(tmp_path / "a", "point")
    report = zvcore.convert(tmp_path / "a", tmp_path / "v", format="zvf")
    assert report.counts == {"points": 1500}
    assert {loss.where for loss in report.losses} == {"segments", "kind"}
    level = zvcore.open(tmp_path / "v").level(0)
    assert level.vertex_count == 1500 and len(level.chunks()) > 0
    np.testing.assert_allclose(level.read().positions.max(0), found.get_many(found.ids())["point"].max(0) * [4, 4, 40])
    assert "1,500 points, in one piece" in str(zvcore.plan(tmp_path / "v", tmp_path / "b", format="precomputed"))
    report = zvcore.convert(tmp_path / "v", tmp_path / "b", format="precomputed")
    again = zvcore.open(tmp_path / "b")
    assert again.dimensions == dict.fromkeys("xyz", (1e-9, "m"))
    same(found, again, but=("point", "segments"))
    one, other = found.get_many(found.ids())["point"], again.get_many(found.ids())["point"]
    np.testing.assert_allclose(one * np.float32([4, 4, 40]), other, rtol=1e-6)
    with pytest.raises(ConflictError):
        zvcore.convert(tmp_path / "v", tmp_path / "b", format="precomputed")
    zvcore.convert(tmp_path / "v", tmp_path / "b", format="precomputed", overwrite=True)
    lines = annotations(tmp_path / "l", "line", 10)
    with pytest.raises(UnsupportedError, match="only points"):
        zvcore.convert(lines, tmp_path / "w", format="zvf")


def test_a_csv_of_others(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("x,y,z,Type,score\n1,2,3,a,0.5\n4,5,6,b,1\n")
    report = zvcore.convert(path, tmp_path / "a", format="precomputed", limit=10)
    assert any("nanometers" in loss.what for loss in report.losses)
    found = zvcore.open(tmp_path / "a").get_many([0, 1])
    assert found["point"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert found["type"].tolist() == [0, 1] and found["score"].tolist() == [0.5, 1]
    path.write_text("x,y,z\n1,2\n")
    with pytest.raises(MetadataError, match="number of columns"):
        zvcore.convert(path, tmp_path / "b", format="precomputed")
    path.write_text("x,y,z\n1,2,far\n")
    with pytest.raises(MetadataError, match="'z' holds what is no number"):
        zvcore.convert(path, tmp_path / "b", format="precomputed")
    path.write_text("x,x\n1,2\n")
    with pytest.raises(MetadataError, match="the same name"):
        zvcore.convert(path, tmp_path / "b", format="precomputed")
    with pytest.raises(MetadataError, match="no column 'seg'"):
        path.write_text("x,y,z\n")
        zvcore.convert(path, tmp_path / "b", format="precomputed", relationships=["seg"])


def test_empty_lines_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("x,y,z,score\n\n")
    zvcore.convert(path, tmp_path / "none", format="precomputed")
    assert len(zvcore.open(tmp_path / "none")) == 0
    path.write_text("x,y,z,score\n\n1,2,3,nan\n\n4,5,6,0.5\n")
    zvcore.convert(path, tmp_path / "a", format="precomputed")
    found = zvcore.open(tmp_path / "a").get_many([0, 1])
    np.testing.assert_array_equal(found["score"], np.float32([np.nan, 0.5]))
    assert found["point"].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_a_line_of_very_many_points_comes_back_from_csv(tmp_path: Path) -> None:
    """Longer than what Python's own reader takes for a field."""
    points = np.random.default_rng(0).random((9000, 3)).astype("f4")
    write_annotations(
        tmp_path / "a", "polyline", {"points": Ragged.of([points, points[:2]], "f4", 3)}, dimensions=NM, limit=10
    )
    zvcore.convert(tmp_path / "a", tmp_path / "t.csv", format="csv")
    zvcore.convert(tmp_path / "t.csv", tmp_path / "b", format="precomputed", kind="polyline", dimensions=NM)
    same(zvcore.open(tmp_path / "a"), zvcore.open(tmp_path / "b"))


def test_a_property_without_any_of_its_labels_is_written_as_numbers(tmp_path: Path) -> None:
    columns = {"point": np.ones((2, 3), "f4"), "kind": np.array([0, 1], "u1")}
    declared = {"kind": {"type": "uint8", "enum_values": [], "enum_labels": []}}
    write_annotations(tmp_path / "a", "point", columns, dimensions=NM, properties=declared)
    zvcore.convert(tmp_path / "a", tmp_path / "t.csv", format="csv")
    assert (tmp_path / "t.csv").read_text().splitlines()[1].endswith(",0")


def test_tables_are_for_annotations(tmp_path: Path) -> None:
    zvcore.create(tmp_path / "z", format="zarr3", shape=(4, 4), dtype="u1")
    with pytest.raises(UnsupportedError, match="not for arrays"):
        zvcore.convert(tmp_path / "z", tmp_path / "t.csv", format="csv")
    annotations(tmp_path / "a", "point", 10)
    with pytest.raises(ValueError, match=r"ends with \.csv"):
        zvcore.convert(tmp_path / "a", tmp_path / "t.txt", format="csv")
    (tmp_path / "t.csv").write_text("")
    with pytest.raises(ConflictError):
        zvcore.convert(tmp_path / "a", tmp_path / "t.csv", format="csv")
    assert (tmp_path / "t.csv").read_text() == ""


def test_the_commands_know_annotations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = annotations(tmp_path / "a", "point", 20)
    for name in ("t.csv", "t.npz"):
        assert cli.main(["get", str(tmp_path / "a"), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / "t.csv").read_text().count("\n") == 21
    with np.load(tmp_path / "t.npz") as arrays:
        assert sorted(arrays["id"].tolist()) == found.ids().tolist()
        assert arrays["segments_lengths"].sum() == len(arrays["segments"])
    assert cli.main(["convert", str(tmp_path / "a"), str(tmp_path / "u.csv"), "--format", "csv"]) == 0
    assert (tmp_path / "u.csv").read_bytes() == (tmp_path / "t.csv").read_bytes()
    capsys.readouterr()


@pytest.mark.parametrize("option", [{"verify": True}, {"chunks": (64, 64, 64)}, {"manifest": True}, {"levels": 2}])
def test_what_is_only_for_arrays_is_refused_rather_than_ignored(tmp_path: Path, option: dict[str, Any]) -> None:
    annotations(tmp_path / "a", "point", 10)
    with pytest.raises(UnsupportedError, match=f"only conversions of arrays take {next(iter(option))}"):
        zvcore.convert(tmp_path / "a", tmp_path / "t.csv", format="csv", **option)
    assert not (tmp_path / "t.csv").exists()
