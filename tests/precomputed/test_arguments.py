"""What a caller gives to make a volume of: made as asked, or refused by name before anything is written."""

from __future__ import annotations

import numpy as np
import pytest

import zvcore
from zvcore.errors import MetadataError

VOLUME = {"format": "precomputed", "shape": (4, 4, 4), "dtype": "uint8", "chunks": (2, 2, 2)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("type", "picture"), ("type", 5), ("type", True), ("type", ""),
        ("key", ""),
        ("chunks", 0), ("chunks", ()), ("chunks", (True, 2, 2)),
        ("shape", (True, 4, 4)),
        ("voxel_offset", (True, 0, 0)),
        ("resolution", "8nm"), ("resolution", ("8", "8", "8")), ("resolution", (True, 1, 1)), ("resolution", 8),
        ("resolution", (1j, 1, 1)),
        ("fill_value", np.zeros(2)),
    ],
    ids=repr,
)  # fmt: skip
def test_what_no_volume_can_be_made_of(tmp_path, name, value):
    with pytest.raises(MetadataError, match="zeros" if name == "fill_value" else name):
        zvcore.create(tmp_path / "v", **{**VOLUME, name: value})
    assert not (tmp_path / "v" / "info").exists()


def test_numbers_of_numpy(tmp_path):
    a = zvcore.create(
        tmp_path / "v", **{**VOLUME, "chunks": np.array([2, 2, 4]), "shape": np.array([4, 4, 4], "u1")},
        resolution=np.array([8, 8.5, 40], "f4"), voxel_offset=np.array([1, 2, -3]), type="Segmentation",
    )  # fmt: skip
    assert a.shape == (4, 4, 4, 1) and a.chunks == (2, 2, 4, 1) and a.voxel_offset == (1, 2, -3)
    assert a.resolution == (8, 8.5, 40) and zvcore.open(tmp_path / "v").attrs["type"] == "segmentation"
