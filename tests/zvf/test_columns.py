"""Attributes of points in annotations and tables: all that a table has no column for is told, and nothing changed."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import zvf
from zvcore.errors import UnfitValueError, UnsupportedError
from zvcore.precomputed import write_annotations

if TYPE_CHECKING:
    from pathlib import Path

POINTS = np.array([[1, 2, 3], [4, 5, 6]], "f4")
NANOMETERS = [{"unit": "nanometer"}] * 3


def points(path: Path, **attributes: Any) -> Path:
    zvf.write_points(path, POINTS, chunk_shape=(50, 50, 50), axes=NANOMETERS, vertex_attributes=attributes)
    return path


def table(source: Path) -> dict[str, list[str]]:
    zvcore.convert(source, source.with_suffix(".csv"))
    with open(source.with_suffix(".csv"), newline="") as file:
        names, *rows = csv.reader(file)
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


@pytest.mark.parametrize("shape", [(2,), (2, 2)])
def test_several_numbers_of_a_point_are_several_columns(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.arange(2 * np.prod(shape), dtype="f4").reshape(2, *shape)
    source = points(tmp_path / "a", v=values)
    wanted = {f"v_{number}": column for number, column in enumerate(values.reshape(2, -1).T)}
    found = table(source)
    for name in wanted:
        assert list(map(float, found[name])) == wanted[name].tolist()
    for format, target in (("precomputed", tmp_path / "b"), ("parquet", tmp_path / "b.parquet")):
        if format == "parquet":
            pytest.importorskip("pyarrow")
        plan = zvcore.plan(source, target, format=format)
        assert f"becomes {len(wanted)} columns" in str(plan.losses[0])
        assert zvcore.convert(source, target, format=format).losses == plan.losses
    for name, column in wanted.items():
        assert zvcore.open(tmp_path / "b").get_many([0, 1])[name].tolist() == column.tolist()


def test_ids_are_ids_in_a_table(tmp_path: Path) -> None:
    source = points(tmp_path / "a", id=np.array([2**64 - 1, 3], "u8"))
    assert table(source)["id"] == [str(2**64 - 1), "3"] and zvcore.plan(source, tmp_path / "b.csv").losses == []


def test_colours_stay_colours(tmp_path: Path) -> None:
    source = points(tmp_path / "a", c=np.array([[255, 0, 0], [0, 0, 255]], "u1"))
    assert table(source)["c"] == ["#ff0000", "#0000ff"]
    zvcore.convert(source, tmp_path / "b", format="precomputed")
    assert zvcore.open(tmp_path / "b").properties["c"].type == "rgb"


def test_an_attribute_that_is_called_as_positions_does_not_replace_them(tmp_path: Path) -> None:
    source = points(tmp_path / "a", point=POINTS + 100)
    report = zvcore.convert(source, tmp_path / "b", format="precomputed")
    assert zvcore.open(tmp_path / "b").get_many([0, 1])["point"].tolist() == POINTS.tolist()
    assert "becomes 3 columns" in str(report.losses)
    report = zvcore.convert(points(tmp_path / "c", point=np.arange(2.0)), tmp_path / "d", format="precomputed")
    assert "'point_property'" in str(report.losses)
    assert zvcore.open(tmp_path / "d").get_many([0, 1])["point_property"].tolist() == [0, 1]


def test_texts_that_differ_from_batch_to_batch_have_one_list_of_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zvcore.zvf.rows._CHUNKS", 1)
    zvf.write_points(
        tmp_path / "a", POINTS * 100, chunk_shape=(50, 50, 50), axes=NANOMETERS,
        vertex_attributes={"kind": np.array(["soma", "axon"])},
    )  # fmt: skip
    zvcore.convert(tmp_path / "a", tmp_path / "b", format="precomputed")
    found = zvcore.open(tmp_path / "b")
    named = [found.properties["kind"].labels[int(value)] for value in found.get_many([0, 1])["kind"]]
    assert named == ["soma", "axon"] and zvcore.plan(tmp_path / "a", tmp_path / "c.csv").losses == []


def test_texts_that_are_missing_are_told_or_refused(tmp_path: Path) -> None:
    source = points(tmp_path / "a", kind=np.array(["a", None], object))
    for do in (zvcore.plan, zvcore.convert):
        with pytest.raises(UnsupportedError, match=r"missing.*kind"):
            do(source, tmp_path / "b", format="precomputed")
        assert "missing are empty texts" in str(do(source, tmp_path / "b.csv").losses)


def test_values_of_a_store_that_annotations_cannot_hold_are_errors_of_zvcore(tmp_path: Path) -> None:
    for number, values in enumerate((np.array([2**64 - 1, 0], "u8"), np.array([1e300, 0]))):
        source = points(tmp_path / f"a{number}", v=values)
        with pytest.raises(UnfitValueError, match="'v'"):
            zvcore.convert(source, tmp_path / "b", format="precomputed")
    source = points(tmp_path / "c", id=np.array([1, 1]))
    with pytest.raises(UnfitValueError, match="more than once"):
        zvcore.convert(source, tmp_path / "b", format="precomputed")


def test_a_count_of_numbers_that_a_document_claims_makes_no_columns(tmp_path: Path) -> None:
    document = points(tmp_path / "a", v=np.arange(2.0)) / "0/vertex_attributes/v/zarr.json"
    document.write_text(document.read_text().replace('"row_shape": []', '"row_shape": [1000000000]'))
    assert "1000000000 numbers for each point" in str(zvcore.plan(tmp_path / "a", tmp_path / "b.csv").losses)


def test_positions_of_tables_keep_their_digits(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x,y,z\n0,10000000.125,1,2\n")
    zvcore.convert(tmp_path / "a.csv", tmp_path / "a.zv", format="zvf")
    assert zvf.open(tmp_path / "a.zv").level(0).read().positions.tolist() == [[10000000.125, 1, 2]]


def test_descriptions_have_no_place_in_a_store(tmp_path: Path) -> None:
    write_annotations(
        tmp_path / "a", "point", {"point": POINTS, "v": np.arange(2)}, dimensions=dict.fromkeys("xyz", (1e-9, "m")),
        properties={"v": {"type": "uint8", "description": "how much"}},
    )  # fmt: skip
    assert "description" in str(zvcore.plan(tmp_path / "a", tmp_path / "b", format="zvf").losses)
