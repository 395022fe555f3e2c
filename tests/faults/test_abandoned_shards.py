"""Shards that were begun and are not finished leave no temporary files, also while somebody keeps the error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.errors import ZvcoreError

if TYPE_CHECKING:
    from pathlib import Path

# More than is gathered before a file is begun.
VALUES = np.random.default_rng(0).integers(0, 2**16, (128, 128, 128)).astype("u2")


def temporary(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith(".zvtmp")]


@pytest.mark.parametrize("asked", [{"codec": "lz4"}, {}, {"chunks": (32, 32, 32)}])
def test_a_conversion_that_fails(tmp_path: Path, asked: dict[str, Any]) -> None:
    source = zvcore.create(
        tmp_path / "a", format="zarr3", shape=VALUES.shape, dtype="u2", chunks=(16, 16, 16), codec="zstd"
    )
    source[...] = VALUES
    last = tmp_path / "a/c/7/7/7"
    last.unlink()
    last.mkdir()
    with pytest.raises(ZvcoreError) as caught:
        zvcore.convert(tmp_path / "a", tmp_path / "b", format="zarr3", shards=(128, 128, 128), threads=1, **asked)
    assert caught.tb is not None and temporary(tmp_path) == []


def test_a_write_that_fails(tmp_path: Path) -> None:
    array = zvcore.create(
        tmp_path / "a", format="zarr3", shape=VALUES.shape, dtype="f4", chunks=(16, 16, 16), shards=(128, 128, 128),
        filters=[{"name": "numcodecs.delta", "configuration": {"dtype": "<f4"}}],
    )  # fmt: skip
    values = np.random.default_rng(0).random(VALUES.shape, "f4")
    values[112, 112, 112] = np.nan
    with pytest.raises(ZvcoreError) as caught:
        array.write(..., values, threads=1)
    assert caught.tb is not None and temporary(tmp_path) == []
