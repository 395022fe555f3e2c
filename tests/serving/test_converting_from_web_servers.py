"""Conversions of what web servers have, which do not list it: of images, documents tell; of the rest, the report."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from tests.serving.conftest import served
from zvcore.errors import UnsupportedError
from zvcore.stores.base import UnlistedError

if TYPE_CHECKING:
    from pathlib import Path

VALUES = np.random.default_rng(0).integers(1, 200, (32, 24, 16), np.uint8)
UNKNOWN = "does not list what it has"


def pyramid(path: Path, format: str) -> list[str]:
    """An image of three levels, and the paths of these."""
    source = path.with_name("values.n5")
    if not source.exists():
        zvcore.create(source, format="n5", data=VALUES, chunks=(8, 8, 8))
    zvcore.convert(source, path, format=format, levels=2, chunks=(8, 8, 8), voxel_size="1,1,2um")
    return [f"s{number}" if format == "n5" else str(number) for number in range(3)]


def with_labels(path: Path, format: str, names: Any) -> None:
    """Label images beside the levels, as OME-Zarr has them, of which `names` are told."""
    labels = path / "labels"
    shutil.copytree(path, labels / "cells")
    if format == "zarr3":
        document = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": {"version": "0.5", "labels": names}}}
        (labels / "zarr.json").write_text(json.dumps(document))
    else:
        (labels / ".zgroup").write_text('{"zarr_format": 2}')
        (labels / ".zattrs").write_text(json.dumps({"labels": names}))


@pytest.mark.parametrize("names", [5, {"a": 1}])
def test_label_images_that_are_told_wrongly_are_refused(tmp_path: Path, names: Any) -> None:
    pyramid(tmp_path / "image", "zarr3")
    with_labels(tmp_path / "image", "zarr3", names)
    with served(tmp_path) as client, pytest.raises(UnsupportedError):
        zvcore.convert(f"{client.server.url}image", tmp_path / "out", format="zarr3")


@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_an_image_is_converted_and_the_rest_is_told(tmp_path: Path, format: str) -> None:
    levels = pyramid(tmp_path / "image", format)
    there = zvcore.open(tmp_path / "image")
    with served(tmp_path) as client:
        url = f"{client.server.url}image"
        report = zvcore.convert(url, tmp_path / "out", format="zarr3")
        assert [UNKNOWN in loss.what for loss in report.losses] == [True]
        with pytest.raises(UnsupportedError, match=UNKNOWN):
            zvcore.convert(url, tmp_path / "strict", format="zarr3", strict=True)
        alone = zvcore.convert(url, tmp_path / "alone", format="zarr3", image="", strict=True)
        assert not alone.losses
    assert not (tmp_path / "strict").exists()
    for out in ("out", "alone"):
        found = zvcore.open(tmp_path / out)
        for path in levels:
            expected = there[path][...]
            np.testing.assert_array_equal(found[path][...], expected.T if format == "n5" else expected)


@pytest.mark.parametrize(("format", "odd"), [("zarr3", 7), ("zarr2", "cells")])
def test_label_images_that_are_told_come_along(tmp_path: Path, format: str, odd: Any) -> None:
    pyramid(tmp_path / "image", format)
    with_labels(tmp_path / "image", format, ["cells", "", "..", "a/b", odd])
    with served(tmp_path) as client:
        report = zvcore.convert(f"{client.server.url}image", tmp_path / "out", format="zarr3")
    assert all(UNKNOWN in loss.what for loss in report.losses)
    found = zvcore.open(tmp_path / "out")
    np.testing.assert_array_equal(found["labels/cells/1"][...], found["1"][...])


def test_label_images_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    pyramid(tmp_path / "image", "zarr3")
    with_labels(tmp_path / "image", "zarr3", ["cells", "gone"])
    with served(tmp_path) as client, pytest.raises(UnsupportedError, match="labels/gone"):
        zvcore.convert(f"{client.server.url}image", tmp_path / "out", format="zarr3")


def test_a_group_that_tells_of_nothing_is_refused(tmp_path: Path) -> None:
    group = zvcore.open(tmp_path / "g.zarr", "w", format="zarr3")
    group.create_array("a", shape=(4,), dtype="u1", chunks=(2,))[...] = 7
    with served(tmp_path) as client, pytest.raises(UnlistedError):
        zvcore.convert(f"{client.server.url}g.zarr", tmp_path / "out", format="zarr3")
