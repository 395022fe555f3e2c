"""Consolidated metadata follow the source, between both versions of Zarr and in place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import zarr

import zvcore

if TYPE_CHECKING:
    from pathlib import Path


def source(path: Path, version: Any, consolidated: bool) -> None:
    root = zarr.open_group(path, mode="w", zarr_format=version)
    root.attrs["a"] = 1
    array = root.create_group("in").create_array("deep", shape=(4, 4), chunks=(2, 2), dtype="u2")
    array[...] = 7
    if consolidated:
        zarr.consolidate_metadata(str(path), zarr_format=version)


def tells(path: Path, version: int) -> bool:
    if version == 2:
        return (path / ".zmetadata").exists()
    return json.loads((path / "zarr.json").read_text()).get("consolidated_metadata") is not None


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize(("version", "target"), [(2, 3), (3, 2), (2, 2), (3, 3)])
def test_they_are_kept_where_the_source_had_them(tmp_path: Path, version: int, target: int, consolidated: bool) -> None:
    source(tmp_path / "a", version, consolidated)
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format=f"zarr{target}")
    assert not report.losses
    assert tells(tmp_path / "b", target) == consolidated
    assert zvcore.verify(tmp_path / "b").problems == []
    found: Any = zarr.open_group(tmp_path / "b", mode="r", use_consolidated=consolidated)
    assert found["in/deep"][...].tolist() == [[7] * 4] * 4
    assert dict(found.attrs) == {"a": 1}


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
@pytest.mark.parametrize("asked", [True, False])
def test_they_are_made_or_left_out_as_one_asks(tmp_path: Path, asked: bool) -> None:
    source(tmp_path / "a", 3, not asked)
    zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr2", consolidate=asked)
    assert tells(tmp_path / "b", 2) == asked


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
@pytest.mark.parametrize("consolidated", [True, False])
def test_documents_added_in_place_tell_of_each_other_too(tmp_path: Path, consolidated: bool) -> None:
    source(tmp_path, 2, consolidated)
    before = sorted(tmp_path.rglob("*"))
    zvcore.migrate(tmp_path, format="zarr3")
    assert tells(tmp_path, 3) == consolidated
    assert zvcore.verify(tmp_path).ok
    found: Any = zarr.open_group(tmp_path, mode="r", zarr_format=3)
    assert found["in/deep"].shape == (4, 4)
    zvcore.migrate(tmp_path, format="zarr3", undo=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_neither_places_along_an_axis_nor_zeros_mean_missing(tmp_path: Path) -> None:
    root = zvcore.open(tmp_path / "a", "w", format="zarr3")
    for name in ("time", "other"):
        root.create_array(name, shape=(3,), dtype="i8", chunks=(3,), dimension_names=["time"])[...] = [0, 1, 2]
    zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr2")
    fills = [json.loads((tmp_path / "b" / name / ".zarray").read_text())["fill_value"] for name in ("time", "other")]
    assert fills == [None, None]
    assert zvcore.open(tmp_path / "b/time")[...].tolist() == [0, 1, 2]
