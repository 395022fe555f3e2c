"""What verify says of images, labels and plates whose metadata do not fit what lies there, in both versions of Zarr."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import zvcore

if TYPE_CHECKING:
    from pathlib import Path

AXES = [{"name": "c", "type": "channel"}, *({"name": n, "type": "space", "unit": "micrometer"} for n in "yx")]
SHAPES = ((2, 80, 100), (2, 40, 50))


def scaled(path: str, *scale: float) -> dict[str, Any]:
    return {"path": path, "coordinateTransformations": [{"type": "scale", "scale": [*scale]}]}


def entry(**changes: Any) -> dict[str, Any]:
    return {"axes": AXES, "datasets": [scaled("0", 1, 0.5, 0.5), scaled("1", 1, 1, 1)], **changes}


def group(path: Path, format: str, shapes: Any = SHAPES, **members: Any) -> zvcore.Report:
    """An image, and what verify says of it."""
    made = zvcore.open(path, "w", format=format)
    for number, shape in enumerate(shapes):
        made.create_array(str(number), shape=shape, dtype="u1", chunks=(1, 80, 100)[-len(shape) :])
    members.setdefault("multiscales", [entry()])
    made.attrs.update({"ome": {"version": "0.5", **members}} if format == "zarr3" else members)
    return zvcore.verify(path)


@pytest.fixture(params=["zarr2", "zarr3"])
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_an_image_as_it_should_be_is_sound_without_a_word(tmp_path: Path, format: str) -> None:
    report = group(tmp_path, format, omero={"channels": [{"label": "DAPI"}, {"label": "GFP"}]})
    assert report.ok and not report.problems


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"datasets": [scaled("0", 1, 1, 1), scaled("1", 1, 3, 3)]},
            "level '1' has 40 pixels along y.*3 times as large",
        ),
        ({"datasets": [scaled("1", 1, 1, 1), scaled("0", 1, 1, 1)]}, "more pixels along y"),
        ({"datasets": [scaled("0", 1, 1e300, 1e300), scaled("1", 1, 1e-300, 1e-300)]}, "level '1' has 40 pixels"),
        ({"axes": [AXES[1], AXES[0], AXES[2]]}, "axes are y c x; OME-Zarr has time first, then channels"),
        ({"axes": [AXES[0], AXES[1], AXES[1]]}, "same name"),
        ({"axes": [AXES[0], AXES[0] | {"name": "d"}, AXES[2]]}, "2 channel axes"),
    ],
)
def test_what_measures_wrongly_is_reported(tmp_path: Path, format: str, changes: Any, said: str) -> None:
    report = group(tmp_path, format, multiscales=[entry(**changes)])
    assert report.ok  # every reader opens it
    assert re.search(said, str(report.problems))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"datasets": [scaled("0", 1, 1, 1), scaled("gone", 1, 2, 2)]}, "names the level 'gone', which is not there"),
        ({"datasets": [{"path": ""}]}, "dataset without a path"),
        ({"datasets": [scaled("0", 1, 1)]}, "scale has a positive number for each axis"),
        ({"axes": AXES[1:], "datasets": [scaled("0", 1, 1)]}, "level '0' has 3 axes, and the image is said to have 2"),
    ],
)
def test_what_readers_fail_at_is_damage(tmp_path: Path, format: str, changes: Any, said: str) -> None:
    report = group(tmp_path, format, multiscales=[entry(**changes)])
    assert report.status == "damaged" and said in str(report)


def test_missing_channels_are_reported(tmp_path: Path, format: str) -> None:
    report = group(tmp_path, format, omero={"channels": [{"label": "DAPI"}]})
    assert report.ok and "omero describes 1 channels, and the image has 2" in str(report.problems)


def test_labels_that_point_nowhere_are_damage(tmp_path: Path, format: str) -> None:
    group(tmp_path, format)
    labels = zvcore.open(tmp_path, "r+").create_group("labels")
    labels.attrs.update({"labels": ["cells"]} if format == "zarr2" else {"ome": {"labels": ["cells"]}})
    report = zvcore.verify(tmp_path)
    assert not report.ok and "names the label image 'cells', which is not there" in str(report)
    assert "labels" in report.problems[0].where
    labels.create_group("cells")
    assert zvcore.verify(tmp_path).ok


PLATE = {
    "rows": [{"name": "A"}],
    "columns": [{"name": "1"}, {"name": "2"}],
    "wells": [{"path": "A/1", "rowIndex": 0, "columnIndex": 0}, {"path": "A/2", "rowIndex": 0, "columnIndex": 1}],
}


def test_labels_that_name_no_version_are_told_and_get_one_in_a_copy(tmp_path: Path) -> None:
    # As ome-zarr-py 0.21 writes the group of labels.
    group = zvcore.open(tmp_path / "a", "w", format="zarr3")
    group.create_array("labels/cells/0", shape=(4, 4), dtype="u2")
    zvcore.open(tmp_path / "a" / "labels", "r+").attrs["ome"] = {"labels": ["cells"]}
    [problem] = zvcore.verify(tmp_path / "a").problems
    assert not problem.fatal and "names no version" in problem.what
    assert not zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3").losses
    assert zvcore.open(tmp_path / "b" / "labels").attrs["ome"] == {"version": "0.5", "labels": ["cells"]}
    assert not zvcore.verify(tmp_path / "b").problems


def test_missing_wells_and_fields_are_reported(tmp_path: Path, format: str) -> None:
    plate = zvcore.open(tmp_path, "w", format=format)
    wells = {**PLATE, "wells": [*PLATE["wells"], {"path": "B/7"}]}
    plate.attrs.update({"plate": wells} if format == "zarr2" else {"ome": {"plate": wells}})
    well = plate.create_group("A").create_group("1")
    fields = {"images": [{"path": "0"}]}
    well.attrs.update({"well": fields} if format == "zarr2" else {"ome": {"well": fields}})
    report = zvcore.verify(tmp_path)
    told = str(report.problems)
    assert "the plate names the well 'A/2', which is not there" in told
    assert "a well 'B/7', which is not in one of its rows and columns" in told
    assert "names the field of view '0', which is not there" in told
    assert [problem.where.rpartition("/")[0] for problem in report.problems if problem.fatal] == ["A/1"]


DRAFT = {
    "coordinateSystems": [{"name": "intrinsic", "axes": AXES}, {"name": "world", "axes": AXES}],
    "datasets": [
        {
            "path": "0",
            "coordinateTransformations": [
                {"type": "scale", "scale": [1, 0.5, 0.5], "input": {"path": "0"}, "output": {"name": "intrinsic"}}
            ],
        },
        {
            "path": "1",
            "coordinateTransformations": [
                {
                    "type": "sequence", "input": "1", "output": "intrinsic",
                    "transformations": [
                        {"type": "scale", "scale": [1, 1, 1]}, {"type": "translation", "translation": [0, 0.25, 0.25]},
                    ],
                }
            ],
        },
    ],
    "coordinateTransformations": [{"type": "affine", "affine": [], "input": "intrinsic", "output": "world"}],
}  # fmt: skip


def test_a_draft_of_version_0_6_is_read_and_what_is_not_understood_is_named(tmp_path: Path) -> None:
    made = zvcore.open(tmp_path / "a.zarr", "w", format="zarr3")
    for number, shape in enumerate(SHAPES):
        made.create_array(str(number), shape=shape, dtype="u1", chunks=(1, 80, 100))
    made.attrs["ome"] = {"version": "0.6", "multiscales": [DRAFT]}
    assert zvcore.verify(tmp_path / "a.zarr").ok
    report = zvcore.convert(tmp_path / "a.zarr", tmp_path / "b.zarr", format="zarr3")
    (said,) = zvcore.open(tmp_path / "b.zarr").attrs["ome"]["multiscales"]
    assert [axis["name"] for axis in said["axes"]] == ["c", "y", "x"]
    scales = [level["coordinateTransformations"] for level in said["datasets"]]
    assert [one[0]["scale"] for one in scales] == [[1, 0.5, 0.5], [1, 1, 1]]
    assert scales[1][1]["translation"] == [0, 0.25, 0.25]
    losses = str(report.losses)
    assert "affine" in losses and "world" in losses
