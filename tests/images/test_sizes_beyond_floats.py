"""Sizes of voxels that are numbers, and of which products and other units are none any more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import MetadataError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

DATA = np.arange(64, dtype="u1").reshape(4, 4, 4)


def image(path: Path, scale: float, unit: str = "micrometer", around: float | None = None, place: float = 0) -> Path:
    """An image of OME-Zarr whose voxels have this size."""
    zvcore.open(path, "w", format="zarr3")
    zvcore.create(path / "0", format="zarr3", data=DATA, chunks=(2, 2, 2))
    steps = [{"type": "scale", "scale": [scale] * 3}, {"type": "translation", "translation": [place] * 3}]
    entry: dict[str, Any] = {
        "axes": [{"name": name, "type": "space", "unit": unit} for name in "zyx"],
        "datasets": [{"path": "0", "coordinateTransformations": steps}],
    }
    if around is not None:
        entry["coordinateTransformations"] = [{"type": "scale", "scale": [around] * 3}]
    document = json.loads((path / "zarr.json").read_text())
    document["attributes"] = {"ome": {"version": "0.5", "multiscales": [entry]}}
    (path / "zarr.json").write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(("scale", "around"), [(1e308, 1e308), (1e-308, 1e-308), (5e-324, 0.1)])
def test_products_of_which_nothing_or_no_number_is_left(tmp_path: Path, scale: float, around: float) -> None:
    """Conversions divided by 0, and wrote images whose sizes nobody reads."""
    source = image(tmp_path / "a", scale, around=around)
    assert "beyond what a float can hold" in str(zvcore.verify(source).problems)
    for ending in ("n5", "zarr2", "zarr3"):
        with pytest.raises(MetadataError, match="beyond what a float can hold"):
            zvcore.convert(source, tmp_path / f"b.{ending}", format=ending)


@pytest.mark.parametrize("scale", [0, -1, float("nan"), float("inf")])
def test_sizes_that_are_none(tmp_path: Path, scale: float) -> None:
    assert "scale has a positive number for each axis" in str(zvcore.verify(image(tmp_path / "a", scale)).problems)


def test_levels_whose_size_would_be_infinite_are_not_made(tmp_path: Path) -> None:
    """The image could not be read any more."""
    source = image(tmp_path / "a", 1e308)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UnsupportedError, match="beyond what a float can hold"):
        zvcore.downsample(source, levels=1)
    assert sorted(tmp_path.rglob("*")) == before and zvcore.verify(source).ok
    with pytest.raises(UnsupportedError, match="beyond what a float can hold"):
        zvcore.convert(DATA, tmp_path / "b", format="zarr3", voxel_size=(1e308,) * 3, levels=2)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("scale", "unit", "place"), [(1e308, "meter", 0), (1e-320, "meter", 0), (1, "meter", 1e308), (1e35, "meter", 0)]
)
def test_surfaces_and_lines_are_not_made_of_such_voxels(tmp_path: Path, scale: float, unit: str, place: float) -> None:
    source = image(tmp_path / "a", scale, unit, place=place)
    for number, function in enumerate((zvcore.mesh, zvcore.skeletonize)):
        with pytest.raises(UnsupportedError, match="sizes or places of voxels"):
            function(source, tmp_path / str(number))


def test_views_of_the_server_have_no_infinite_sizes(tmp_path: Path) -> None:
    """These are no JSON, and Neuroglancer showed nothing without a word."""
    from tests.serving.conftest import served

    zvcore.convert(image(tmp_path / "a", 1e308), tmp_path / "served" / "b.n5")
    with served(tmp_path / "served") as client:
        (listed,) = json.loads(client.ask("/.zvcore/datasets.json").body)["datasets"]
        assert listed["view"] is None and "beyond what a float can hold" in listed["why"]
        answer = client.ask("/.zvcore/view/b.n5/-/info")
    assert answer.status == 500 and b"beyond what a float can hold" in answer.body
