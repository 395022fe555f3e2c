"""Volumes of every encoding that CloudVolume writes: it reads ours, and we read its."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from cloudvolume import CloudVolume

import zvcore
from tests.precomputed.test_encodings_of_libraries import values

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = (40, 36, 20)
# Encoding, data type, channels, and by how much values may differ.
CASES = [
    ("raw", "uint16", 2, 0), ("compressed_segmentation", "uint64", 1, 0), ("compresso", "uint64", 1, 0),
    ("crackle", "uint32", 1, 0), ("fpzip", "float32", 1, 0), ("fpzip", "float32", 2, 0),
    ("kempressed", "float32", 1, 1e-6),
    ("kempressed", "float32", 2, 1e-6), ("zfpc", "float32", 1, 0), ("jpeg", "uint8", 1, 120), ("png", "uint8", 1, 0),
    ("jxl", "uint8", 1, 120),
]  # fmt: skip


@pytest.mark.parametrize(("encoding", "dtype", "channels", "error"), CASES)
def test_we_read_theirs_and_they_read_ours(
    encoding: str, dtype: str, channels: int, error: float, tmp_path: Path
) -> None:
    kind = "segmentation" if encoding in ("compressed_segmentation", "compresso", "crackle") else "image"
    info = CloudVolume.create_new_info(
        num_channels=channels, layer_type=kind, data_type=dtype, encoding=encoding, resolution=[4, 4, 40],
        voxel_offset=[10, 20, 30], volume_size=list(SHAPE), chunk_size=[16, 16, 16],
    )  # fmt: skip
    # Of other arrays, CloudVolume's own kempressed chunks are wrong.
    written = np.asfortranarray(values((*SHAPE, channels), dtype))
    theirs = CloudVolume(f"file://{tmp_path / 'theirs'}", info=info, progress=False)
    theirs.commit_info()
    theirs[...] = written
    found = zvcore.open(tmp_path / "theirs", scale=0)
    read = found[...]
    np.testing.assert_allclose(read.astype(float), written.astype(float), atol=error)
    np.testing.assert_array_equal(read, np.asarray(theirs[...]))
    ours = zvcore.create(
        tmp_path / "ours", format="precomputed", shape=written.shape, dtype=dtype, type=kind, chunks=(16, 16, 16),
        encoding=encoding, resolution=(4, 4, 40), voxel_offset=(10, 20, 30),
    )  # fmt: skip
    ours[...] = written
    back = np.asarray(CloudVolume(f"file://{tmp_path / 'ours'}", progress=False)[...])
    np.testing.assert_allclose(back.astype(float), written.astype(float), atol=error)
    np.testing.assert_array_equal(back, ours[...])


@pytest.mark.parametrize("encoding", ["crackle", "compresso"])
def test_sharded_labels_of_ours(encoding: str, tmp_path: Path) -> None:
    ours = zvcore.create(
        tmp_path, format="precomputed", shape=SHAPE, dtype="uint64", type="segmentation", chunks=(16, 16, 16),
        encoding=encoding, sharding="advise",
    )  # fmt: skip
    ours[...] = values(ours.shape, "uint64")
    np.testing.assert_array_equal(np.asarray(CloudVolume(f"file://{tmp_path}", progress=False)[...]), ours[...])
