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
    scale["voxel_offset"][0] = 100.5
    (tmp_path / "info").write_text(json.dumps(info))
    with pytest.raises(MetadataError, match="voxel_offset"):
        zvcore.open(tmp_path, scale=0)


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
