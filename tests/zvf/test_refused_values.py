"""What the writers of lines and points refuse: names, values and rows that would not come out as they went in."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore.zvf as zvf

if TYPE_CHECKING:
    from pathlib import Path

ODD_NAMES = ["a/b", "..", "", "zarr.json", "a\\b", "x/"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_that_no_array_can_have_are_refused(tmp_path: Path, name: str) -> None:
    lines = [np.ones((2, 3), "f4")]
    for options in ({"vertex_attributes": {name: [np.ones(2)]}}, {"object_attributes": {name: [1]}}):
        with pytest.raises(ValueError, match="cannot be called"):
            zvf.write_polylines(tmp_path / "a", lines, chunk_shape=(4, 4, 4), **options)
    with pytest.raises(ValueError, match="cannot be called"):
        zvf.write_points(tmp_path / "a", lines[0], chunk_shape=(4, 4, 4), vertex_attributes={name: np.ones(2)})
    assert not (tmp_path / "a" / "zarr.json").exists()


def test_what_goes_on_after_the_lines_is_not_dropped(tmp_path: Path) -> None:
    lines = [np.ones((2, 3), "f4")] * 2
    values = [np.ones(2)] * 3
    for kind in (list, iter):
        with pytest.raises(ValueError, match="goes on"):
            zvf.write_polylines(tmp_path / "a", lines, chunk_shape=(4, 4, 4), vertex_attributes={"a": kind(values)})
        with pytest.raises(ValueError, match="goes on"):
            zvf.write_points(tmp_path / "a", iter(lines), chunk_shape=(4, 4, 4), vertex_attributes={"a": kind(values)})
    with pytest.raises(ValueError, match="3 object_ids for 2"):
        zvf.write_polylines(tmp_path / "a", lines, chunk_shape=(4, 4, 4), object_ids=[1, 2, 3])
    assert zvf.write_polylines(tmp_path / "a", lines, chunk_shape=(4, 4, 4), object_ids=itertools.count(5))
    assert zvf.open(tmp_path / "a").level(0).object_ids().tolist() == [5, 6]


@pytest.mark.parametrize(("first", "later"), [("i2", 1.5), ("u1", 300), ("u1", -1), ("f4", 2**53 + 1), ("f4", 1e300)])
def test_values_of_later_batches_are_not_bent_to_the_type_of_the_first(tmp_path: Path, first: str, later: Any) -> None:
    points = [np.ones((2, 3), "f4")] * 2
    values = [np.ones(2, first), np.full(2, later)]
    with pytest.raises(ValueError, match="cannot hold"):
        zvf.write_points(tmp_path / "a", iter(points), chunk_shape=(4, 4, 4), vertex_attributes={"a": iter(values)})
    values[1] = np.full(2, 7.0)
    zvf.write_points(tmp_path / "b", iter(points), chunk_shape=(4, 4, 4), vertex_attributes={"a": iter(values)})
    found = zvf.open(tmp_path / "b").level(0).read(attributes=["a"]).attributes["a"]
    assert found.dtype == np.dtype(first) and sorted(found.tolist()) == [1, 1, 7, 7]


def test_missing_values_are_refused(tmp_path: Path) -> None:
    values = [np.ma.masked_equal(np.arange(2.0), 1)]
    with pytest.raises(ValueError, match="missing"):
        zvf.write_polylines(
            tmp_path / "a", [np.ones((2, 3), "f4")], chunk_shape=(4, 4, 4), vertex_attributes={"a": values}
        )


@pytest.mark.parametrize(("groups", "values"), [({0: [1], 1: [0]}, [1.5]), ({2: [1], 5: [0]}, [1.5, 2.5]), ({}, [1.5])])
def test_attributes_of_groups_have_a_row_for_each(tmp_path: Path, groups: Any, values: Any) -> None:
    with pytest.raises(ValueError, match="rows for the groups"):
        zvf.write_polylines(
            tmp_path / "a", [np.ones((2, 3), "f4")] * 2, chunk_shape=(4, 4, 4), groups=groups,
            group_attributes={"a": values},
        )  # fmt: skip


@pytest.mark.parametrize(
    "values",
    [
        [np.array([2**53 + 1]), np.array([0.5], "f4")],
        [np.array([-1]), np.array([2**63], "u8")],
        [np.array([1]), np.array(["1"])],
    ],
)
def test_values_of_several_types_in_a_batch_stay_or_are_refused(tmp_path: Path, values: list[Any]) -> None:
    lines = [np.ones((1, 3), "f4")] * 2
    with pytest.raises(ValueError, match="in different lines"):
        zvf.write_polylines(tmp_path / "a", lines, chunk_shape=(2, 2, 2), vertex_attributes={"n": values})
    mixed = [np.array([2**40]), np.array([0.5], "f4")]
    zvf.write_polylines(tmp_path / "b", lines, chunk_shape=(2, 2, 2), vertex_attributes={"n": mixed})
    assert zvf.open(tmp_path / "b").level(0).read(["n"]).attributes["n"].tolist() == [2**40, 0.5]
    empty = [np.array([2**53 + 1]), np.array([])]
    zvf.write_polylines(
        tmp_path / "c", [lines[0], np.zeros((0, 3))], chunk_shape=(2, 2, 2), vertex_attributes={"n": empty}
    )
    assert zvf.open(tmp_path / "c").level(0).read(["n"]).attributes["n"].tolist() == [2**53 + 1]
