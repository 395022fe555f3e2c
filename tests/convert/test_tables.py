"""Tables that do not hold what they should, and what becomes of columns on their way into files."""

from __future__ import annotations

import csv
import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands import cli
from zvcore.errors import MetadataError, UnsupportedError, ZvcoreError
from zvcore.precomputed import write_annotations
from zvcore.zvf import write_points

if TYPE_CHECKING:
    from pathlib import Path

NM = dict.fromkeys("xyz", (1e-9, "m"))


def taken(path: Path, content: str | bytes, **options: Any) -> Any:
    """What becomes of a CSV file."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    zvcore.convert(path, path.parent / "made", format="precomputed", overwrite=True, **options)
    return zvcore.open(path.parent / "made")


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b"x,y,z,n\n1,2,3,\xe9\n", {}),
        ("x,y,z,s\n1,2,3,abc\n", {"relationships": ["s"]}),
        ("x,y,z,s\n1,2,3,-4\n", {"relationships": ["s"]}),
        ("x,y,z,s\n1,2,3,99999999999999999999999\n", {"relationships": ["s"]}),
        ("points\n1 2 3;a b c\n", {}),
        ("id,points\n1,\n", {}),
        ("points\n1 2 3;1 2\n", {}),
        ("id,x,y,z\n18446744073709551616,1,2,3\n", {}),
        ("id,x,y,z\n1.5,1,2,3\n", {}),
        ("id,x,y,z\n1,1,2,3\n1,1,2,3\n", {}),
        ("x,y,z\n1,2,nan\n", {}),
        ("x,y,z,v\n1,2,3,99999999999\n", {}),
    ],
    ids=str,
)
def test_what_is_wrong_in_a_csv_file_is_an_error_that_names_it(tmp_path: Path, content: Any, options: Any) -> None:
    with pytest.raises(MetadataError, match=r"t\.csv"):
        taken(tmp_path / "t.csv", content, **options)


def test_options_that_are_wrong_are_not_the_fault_of_the_file(tmp_path: Path) -> None:
    for options in ({"kind": "foo"}, {"dimensions": {"x": 5}}):
        with pytest.raises(ValueError, match=r"foo|dimensions are") as caught:
            taken(tmp_path / "t.csv", "x,y,z\n1,2,3\n", **options)
        assert not isinstance(caught.value, ZvcoreError)


@pytest.mark.parametrize(("content", "count"), [("x,y,z\n\n\n", 0), ("x,y,z\n1,2,3\n\n", 1), ("x,y,z\n", 0), ("", 0)])
def test_empty_lines_are_no_rows(tmp_path: Path, content: str, count: int) -> None:
    assert len(taken(tmp_path / "t.csv", content)) == count


def test_colours_of_different_kinds_are_names(tmp_path: Path) -> None:
    found = taken(tmp_path / "t.csv", "x,y,z,c\n1,2,3,#aabbcc\n1,2,3,#aabbccdd\n")
    assert found.properties["c"].enum_labels == ("#aabbcc", "#aabbccdd")


def test_a_line_of_many_points_comes_back_from_a_csv_file(tmp_path: Path) -> None:
    line = np.arange(90_000, dtype="f4").reshape(-1, 3)
    write_annotations(tmp_path / "a", "polyline", {"points": [line]}, dimensions=NM)
    zvcore.convert(tmp_path / "a", tmp_path / "t.csv", format="csv")
    limit = csv.field_size_limit()
    assert (tmp_path / "t.csv").stat().st_size > limit
    found = taken(tmp_path / "t.csv", (tmp_path / "t.csv").read_bytes())
    assert np.array_equal(found.get_many(found.ids())["points"][0], line)
    assert csv.field_size_limit() == limit


def test_a_property_that_is_called_as_a_coordinate_is_kept(tmp_path: Path) -> None:
    columns = {"point": np.ones((2, 3), "f4"), "x": np.array([7, 8], "u1")}
    write_annotations(tmp_path / "a", "point", columns, dimensions=NM)
    zvcore.convert(tmp_path / "a", tmp_path / "t.csv", format="csv")
    assert (tmp_path / "t.csv").read_text().splitlines() == [
        "id,x,y,z,x_property",
        "0,1.0,1.0,1.0,7",
        "1,1.0,1.0,1.0,8",
    ]


@pytest.mark.parametrize(
    "note",
    [
        {"dimensions": 5}, {"dimensions": {"x": [1]}}, {"dimensions": {"x": ["a", "m"]}}, {"relationships": 5},
        {"relationships": ["none"]}, {"properties": [1]}, {"properties": {"k": 5}}, {"type": "foo"}, {"type": ["x"]},
        {"properties": {"k": {"type": "uint8", "enum_labels": 5}}},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_what_a_parquet_file_says_of_its_columns_is_checked(tmp_path: Path, note: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"x": [1.0], "y": [1.0], "z": [1.0], "k": ["a"]})
    pytest.importorskip("pyarrow.parquet").write_table(
        table.replace_schema_metadata({"zvcore": json.dumps(note)}), tmp_path / "t.parquet"
    )
    with pytest.raises(MetadataError, match=r"t\.parquet"):
        zvcore.convert(tmp_path / "t.parquet", tmp_path / "a", format="precomputed")


def test_a_parquet_file_that_is_damaged_or_lacks_values_is_named(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    places = {"x": [1.0, 2.0], "y": [1.0, 2.0], "z": [1.0, 2.0]}
    parquet.write_table(pyarrow.table({**places, "k": ["a", "b"]}), path)
    good = path.read_bytes()
    damaged = [b"PAR1 and nothing else", good[: len(good) // 2], good[:20] + bytes(40) + good[60:]]
    for column in (["a", None], [1, None], [{"a": 1}, {"a": 2}]):
        parquet.write_table(pyarrow.table({**places, "k": column}), path)
        damaged.append(path.read_bytes())
    parquet.write_table(pyarrow.table({**places, "id": [0.5, 1.5]}), path)
    for content in [*damaged, path.read_bytes()]:
        path.write_bytes(content)
        with pytest.raises(ZvcoreError, match=r"t\.parquet"):
            zvcore.convert(path, tmp_path / "a", format="precomputed")


@pytest.mark.parametrize("fsync", [True, False])
def test_a_table_is_as_durable_as_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: bool) -> None:
    write_annotations(tmp_path / "a", "point", {"point": np.ones((2, 3), "f4")}, dimensions=NM)
    synced = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.fstat(file).st_ino), sync(file)))
    (tmp_path / "t").mkdir()
    zvcore.convert(tmp_path / "a", tmp_path / "t/t.csv", format="csv", fsync=fsync)
    durable = [(tmp_path / "t/t.csv").stat().st_ino, (tmp_path / "t").stat().st_ino]
    assert synced == (durable if fsync else [])


def test_get_says_what_a_table_does_not_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_points(tmp_path / "v", np.ones((3, 3), "f4"), chunk_shape=(2.0,) * 3)
    assert cli.main(["get", str(tmp_path / "v"), "-o", str(tmp_path / "t.csv")]) == 0
    assert "lost: coordinates are taken to be nanometers" in capsys.readouterr().err


def test_what_cannot_become_points_replaces_none(tmp_path: Path) -> None:
    write_points(tmp_path / "v", np.ones((3, 3), "f4"), chunk_shape=(2.0,) * 3)
    (tmp_path / "t.csv").write_text("x,y,z\n")
    with pytest.raises(ZvcoreError, match="at least one point"):
        zvcore.convert(tmp_path / "t.csv", tmp_path / "v", format="zvf", overwrite=True)
    assert zvcore.open(tmp_path / "v").level(0).vertex_count == 3


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_becomes_points_of_zarr_vectors(tmp_path: Path, kind: str) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id,x,y,z,n,name,colour\n5,1,2,3,-7,b,#ff0001\n9,4,5,6,8,a,#000203\n")
    if kind == "parquet":
        pytest.importorskip("pyarrow.parquet")
        zvcore.convert(table, tmp_path / "a", format="precomputed")
        table = tmp_path / "t.parquet"
        zvcore.convert(tmp_path / "a", table, format="parquet")
    report = zvcore.convert(table, tmp_path / "v", format="zvf", chunk_shape=(10, 10, 10))
    assert "name" in {loss.where for loss in report.losses}
    found = zvcore.open(tmp_path / "v").level(0).read(["id", "n", "name", "colour"])
    order = np.argsort(found.attributes["id"])
    assert found.positions[order].tolist() == [[1, 2, 3], [4, 5, 6]]
    said = {name: column[order].tolist() for name, column in found.attributes.items()}
    assert said == {"id": [5, 9], "n": [-7, 8], "name": [1, 0], "colour": [[255, 0, 1], [0, 2, 3]]}
    (tmp_path / "u.csv").write_text("x,y\n1,2\n")
    with pytest.raises(MetadataError, match="no column 'z'"):
        zvcore.convert(tmp_path / "u.csv", tmp_path / "w", format="zvf", dimensions=NM)


def test_a_conversion_of_a_table_says_how_many_rows_it_carried(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("x,y,z\n1,2,3\n4,5,6\n")
    report = zvcore.convert(tmp_path / "p.csv", tmp_path / "p.zvf", format="zvf")
    assert "2 points" in str(report)
    assert "chunks" not in str(report)


def test_positions_that_are_no_numbers_are_refused_as_such(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("x,y,z\n1,2,nan\n4,5,6\n")
    with pytest.raises(MetadataError, match="positions must be finite"):
        zvcore.convert(tmp_path / "p.csv", tmp_path / "p.zvf", format="zvf")


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_table_is_not_made_of_another_one(tmp_path: Path, ending: str) -> None:
    (tmp_path / "a.csv").write_text("id,x,y,z\n1,1.0,2.0,3.0\n")
    with pytest.raises(UnsupportedError, match="no other table"):
        zvcore.convert(tmp_path / "a.csv", tmp_path / f"b{ending}")
    assert not (tmp_path / f"b{ending}").exists()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_names_that_are_no_text_are_refused(tmp_path: Path, ending: str) -> None:
    """JSON can name half a character, and a file of text cannot hold it."""
    named = (np.arange(2, dtype="u1"), {"type": "uint8", "enum_values": [0, 1], "enum_labels": ["\ud800", "b"]})
    write_annotations(tmp_path / "a", "point", {"point": np.zeros((2, 3))}, dimensions=NM, properties={"kind": named})
    with pytest.raises(UnsupportedError, match="is no text"):
        zvcore.convert(tmp_path / "a", tmp_path / f"a.{ending}")
    assert not (tmp_path / f"a.{ending}").exists()


@pytest.mark.parametrize("place", ["s3://bucket/a.csv", "memory://a.csv"])
def test_a_table_is_not_written_to_a_url(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_annotations("a", "point", {"point": np.ones((2, 3))}, dimensions=dict.fromkeys("xyz", (1e-9, "m")))
    for do in (zvcore.plan, zvcore.convert):
        with pytest.raises(UnsupportedError, match="not written to a URL"):
            do("a", place, format="csv")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
