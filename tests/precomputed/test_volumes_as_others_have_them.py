"""Volumes whose documents others wrote, or users want to say more in: places in nanometers, floats, links."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.commands import cli
from zvcore.errors import MetadataError

if TYPE_CHECKING:
    from pathlib import Path


def made(path: Path, **options: Any) -> Any:
    a = zvcore.create(
        path, format="precomputed", shape=(20, 16, 10, 2), chunks=(8, 8, 8),
        **{"dtype": "uint16", "resolution": (4, 4.5, 40), "voxel_offset": (100, -20, 5), **options},
    )  # fmt: skip
    a[...] = np.arange(a.size, dtype="u2").reshape(a.shape)
    return a


def test_places_in_nanometers(tmp_path: Path) -> None:
    a = made(tmp_path)
    np.testing.assert_array_equal(a.nm[400:440, -90:-72, 200:280, 1], a[:10, :4, :2, 1])
    np.testing.assert_array_equal(a.nm[..., 0], a[..., 0])
    np.testing.assert_array_equal(a.nm[np.float64(404), :, 240.0], a[1, :, 1])
    np.testing.assert_array_equal(a.nm[:408.0], a[:2])
    a.nm[400:404, -90:-85.5, 200:240] = 7
    assert (a[0, 0, 0] == 7).all() and a[1, 0, 0, 0] != 7


@pytest.mark.parametrize("key", [slice(401, 440), slice(400, 439.9), slice(396, 440), slice(400, 440, 2), "x", True])
def test_nothing_is_rounded_in_silence(key: Any, tmp_path: Path) -> None:
    a = made(tmp_path)
    with pytest.raises(IndexError):
        a.nm[key]


def test_touching_takes_whole_voxels(tmp_path: Path) -> None:
    a = made(tmp_path)
    np.testing.assert_array_equal(a.nm.touching[401:439], a[:10])


def test_offsets_that_are_whole_numbers_are_read(tmp_path: Path) -> None:
    a = made(tmp_path)
    info = json.loads((tmp_path / "info").read_text())
    scale = info["scales"][0]
    scale["voxel_offset"] = [float(number) for number in scale["voxel_offset"]]
    (tmp_path / "info").write_text(json.dumps(info))
    np.testing.assert_array_equal(zvcore.open(tmp_path, scale=0)[...], a[...])
    assert zvcore.verify(tmp_path).ok
    for wrong in (float(2**57), "100", None, [100]):
        scale["voxel_offset"][0] = wrong
        (tmp_path / "info").write_text(json.dumps(info))
        with pytest.raises(MetadataError, match="voxel_offset"):
            zvcore.open(tmp_path, scale=0)


@pytest.mark.parametrize("sharding", [None, "advise"])
def test_offsets_with_fractions_are_kept_and_rounded_nowhere(sharding: Any, tmp_path: Path) -> None:
    """Chunks have the names that others give them, who cut the fraction off; places are those of the document."""
    values = made(tmp_path / "a", sharding=sharding)[...]
    info = json.loads((tmp_path / "a/info").read_text())
    info["scales"][0]["voxel_offset"] = [100.5, -20.25, 5]
    (tmp_path / "a/info").write_text(json.dumps(info))
    b = zvcore.open(tmp_path / "a", "r+")[0]
    assert b.voxel_offset == (100.5, -20.25, 5)
    np.testing.assert_array_equal(b[...], values)
    np.testing.assert_array_equal(b.nm[402:442, -91.125:-73.125, 200:280, 1], b[:10, :4, :2, 1])
    with pytest.raises(IndexError, match="not a whole number"):
        b.at[101:105]
    with pytest.raises(IndexError):
        b.nm[400:440]
    b[:3] = 9
    assert (zvcore.open(tmp_path / "a", scale=0)[:3] == 9).all()
    assert json.loads((tmp_path / "a/info").read_text())["scales"][0]["voxel_offset"] == [100.5, -20.25, 5]
    report = zvcore.verify(tmp_path / "a")
    assert report.ok and ["does not begin at a whole voxel" in one.what for one in report.problems] == [True]
    report = zvcore.convert(tmp_path / "a", tmp_path / "b", format="precomputed")
    assert any("not a whole number of voxels" in loss.what for loss in report.losses)
    assert zvcore.inspect(tmp_path / "a")["scales"][0]["voxel_offset"] == (100.5, -20.25, 5)


def test_a_document_of_another_type_is_refused(tmp_path: Path) -> None:
    made(tmp_path)
    info = json.loads((tmp_path / "info").read_text())
    (tmp_path / "info").write_text(json.dumps({**info, "@type": "something_else"}))
    with pytest.raises(MetadataError, match="@type"):
        zvcore.open(tmp_path, format="precomputed")


def test_links_are_made_by_create_and_by_convert(tmp_path: Path) -> None:
    made(tmp_path / "a", mesh="mesh", skeletons="bones", dtype="uint32")
    assert [zvcore.open(tmp_path / "a").attrs[name] for name in ("mesh", "skeletons")] == ["mesh", "bones"]
    with pytest.raises(MetadataError, match="mesh"):
        made(tmp_path / "b", mesh=5)
    source = zvcore.create(tmp_path / "c", format="zarr3", shape=(8, 8, 8), dtype="uint32")
    source[...] = 3
    command = ["convert", tmp_path / "c", tmp_path / "d", "--format", "precomputed", "--set", "mesh=mesh"]
    assert cli.main([*map(str, command), "--set", "segment_properties=props", "--set", "type=segmentation"]) == 0
    info = zvcore.open(tmp_path / "d").info
    assert (info["mesh"], info["segment_properties"], info["type"]) == ("mesh", "props", "segmentation")
