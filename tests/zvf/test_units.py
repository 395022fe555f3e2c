"""Units of the axes of a store: they are heeded and written by conversions, and what is not carried is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore import zvf
from zvcore.precomputed import Skeleton, write_annotations, write_skeletons

if TYPE_CHECKING:
    from pathlib import Path

LINE = np.array([[1, 2, 3], [4, 5, 6]], "f4")


def axes(*units: str | None) -> list[dict[str, str]]:
    return [{"name": name, **({} if unit is None else {"unit": unit})} for name, unit in zip("xyz", units, strict=True)]


def lines(path: Path, *units: str | None, **options: Any) -> Path:
    zvf.write_polylines(path, [LINE], chunk_shape=(10, 10, 10), axes=axes(*units), **options)
    return path


@pytest.mark.parametrize(
    ("units", "scale"),
    [
        (("micrometer",) * 3, (1e3,) * 3), (("mm",) * 3, (1e6,) * 3),
        (("nanometer", "micrometer", "nanometer"), (1, 1e3, 1)),
    ],
)  # fmt: skip
def test_lines_become_skeletons_in_the_units_of_their_store(tmp_path: Path, units: Any, scale: Any) -> None:
    report = zvcore.convert(lines(tmp_path / "a", *units), tmp_path / "b", format="precomputed")
    np.testing.assert_allclose(zvcore.open(tmp_path / "b")[0].vertices, LINE * scale, rtol=1e-6)
    assert report.losses == report.notes == []


def test_lines_become_streamlines_in_millimeters(tmp_path: Path) -> None:
    zvcore.convert(lines(tmp_path / "a", *["micrometer"] * 3), tmp_path / "b.trx", format="trx")
    (batch,) = zvcore.open(tmp_path / "b.trx").batches()
    np.testing.assert_allclose(batch.positions, LINE / 1e3, rtol=1e-6)


def test_a_unit_that_is_missing_or_unknown_is_told(tmp_path: Path) -> None:
    for name, units, told in (("a", (None,) * 3, "note"), ("b", ("furlong",) * 3, "lost")):
        lines(tmp_path / name, *units)
        plan = zvcore.plan(tmp_path / name, tmp_path / f"{name}.trx")
        report = zvcore.convert(tmp_path / name, tmp_path / f"{name}.trx")
        assert plan.notes == report.notes and plan.losses == report.losses
        assert ("nanometers" in str(report.notes)) == (told == "note")
        assert ("furlong" in str(report.losses)) == (told == "lost")


def test_points_become_annotations_in_the_units_of_their_store_and_back(tmp_path: Path) -> None:
    zvf.write_points(tmp_path / "a", LINE, axes=axes("micrometer", "micrometer", "millimeter"))
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="precomputed")
    found = zvcore.open(tmp_path / "b")
    assert found.dimensions == {"x": (1e-6, "m"), "y": (1e-6, "m"), "z": (1e-3, "m")} and report.losses == []
    zvcore.convert(tmp_path / "b", tmp_path / "c", format="zvf")
    again = zvcore.convert(tmp_path / "c", tmp_path / "d", format="precomputed")
    assert zvcore.open(tmp_path / "d").dimensions == dict.fromkeys("xyz", (1e-9, "m"))
    assert "nanometers" not in str(again.losses)
    positions = zvcore.open(tmp_path / "d").get_many([0, 1])["point"]
    np.testing.assert_allclose(positions, LINE * (1e3, 1e3, 1e6), rtol=1e-6)


def test_names_and_times_of_annotations_are_axes(tmp_path: Path) -> None:
    dimensions = {"a": (4e-9, "m"), "b": (4e-9, "m"), "time": (0.5, "s")}
    write_annotations(tmp_path / "a", "point", {"point": LINE}, dimensions=dimensions)
    zvcore.convert(tmp_path / "a", tmp_path / "b", format="zvf")
    (scale,) = zvf.open(tmp_path / "b").node.attrs["multiscales"]
    assert [(one["name"], one["unit"]) for one in scale["axes"]] == [
        ("a", "nanometer"), ("b", "nanometer"), ("time", "second"),
    ]  # fmt: skip
    zvcore.convert(tmp_path / "b", tmp_path / "c", format="precomputed")
    assert zvcore.open(tmp_path / "c").dimensions == {"a": (1e-9, "m"), "b": (1e-9, "m"), "time": (1.0, "s")}


def test_what_is_made_says_its_units(tmp_path: Path) -> None:
    write_skeletons(tmp_path / "a", {7: Skeleton(LINE, np.array([[0, 1]], "u4"))})
    zvcore.convert(tmp_path / "a", tmp_path / "b", format="zvf")
    assert zvf.open(tmp_path / "b").nanometers == [1, 1, 1]
    zvcore.convert(tmp_path / "b", tmp_path / "c.trx")
    zvcore.convert(tmp_path / "c.trx", tmp_path / "d", format="zvf")
    for name, unit in (("b", "nanometer"), ("d", "millimeter")):
        document = json.loads((tmp_path / name / "zarr.json").read_text())["attributes"]
        said = [document["multiscales"][0], document["ome"]["attributes"]["scene"]["coordinateSystems"][0]]
        assert [[axis["unit"] for axis in one["axes"]] for one in said] == [[unit] * 3] * 2


@pytest.mark.parametrize("wrong", [[{}] * 2, [{"name": "x"}] * 3, [{"unit": 3}] * 3, [{"scale": 3}] * 3])
def test_axes_that_are_none_are_refused_before_anything_is_written(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(ValueError, match="axes"):
        zvf.write_polylines(tmp_path / "a", [LINE], chunk_shape=(10, 10, 10), axes=wrong)
    assert not (tmp_path / "a").exists()
    lines(tmp_path / "a", None, None, None)
    with pytest.raises(TypeError, match="appended"):
        zvf.write_polylines(tmp_path / "a", [LINE], axes=axes("mm", "mm", "mm"), append=True)


@pytest.mark.parametrize("said", [None, [], 3, [3], [{"axes": 3}], [{"axes": [{"unit": 3}] * 3}], [{"axes": [{}]}]])
def test_documents_that_say_odd_things_of_axes_say_nothing(tmp_path: Path, said: Any) -> None:
    document = lines(tmp_path / "a", *["micrometer"] * 3) / "zarr.json"
    found = json.loads(document.read_text())
    found["attributes"]["multiscales"] = said
    document.write_text(json.dumps(found))
    assert "nanometers" in str(zvcore.convert(tmp_path / "a", tmp_path / "b.trx").notes)


def test_what_goes_into_no_other_format_is_told(tmp_path: Path) -> None:
    place = lines(tmp_path / "a", *["nm"] * 3, groups={0: [0]}, group_attributes={"colour": np.arange(1)},
                  vertex_attributes={"fa": [np.zeros(2)]}, attrs={"made_by": "us"})  # fmt: skip
    document = place / "0/vertex_attributes/fa/zarr.json"
    found = json.loads(document.read_text())
    found["attributes"]["unit"] = "volt"
    document.write_text(json.dumps(found))
    plan = zvcore.plan(place, tmp_path / "b.trx")
    told = [str(loss) for loss in plan.losses]
    for what in ("'colour' of groups", "unit of the attribute 'fa'", "'made_by'"):
        assert [what in one for one in told].count(True) == 1
    assert zvcore.convert(place, tmp_path / "b.trx").losses == plan.losses


def test_what_makes_more_of_points_than_points_is_told(tmp_path: Path) -> None:
    zvf.write_points(tmp_path / "a", LINE, object_ids=[5, 6], object_attributes={"size": np.ones(2)}, groups={0: [5]},
                     axes=axes("nm", "nm", "nm"))  # fmt: skip
    told = [str(loss) for loss in zvcore.plan(tmp_path / "a", tmp_path / "b.csv").losses]
    for what in ("which object", "'size' of objects", "groups of objects"):
        assert [what in one for one in told].count(True) == 1


@pytest.mark.filterwarnings("ignore")
def test_edges_of_graphs_are_told(tmp_path: Path) -> None:
    pytest.importorskip("zarr_vectors")
    from zarr_vectors.types.graphs import write_graph

    write_graph(
        str(tmp_path / "a"), np.eye(3, dtype="f4"), np.array([[0, 1], [1, 2]]), chunk_shape=(8.0,) * 3,
        link_attributes={"weight": np.ones(2)},
    )  # fmt: skip
    told = [str(loss) for loss in zvcore.plan(tmp_path / "a", tmp_path / "b.csv").losses]
    for what in ("links between vertices", "'weight' of links"):
        assert [what in one for one in told].count(True) == 1
