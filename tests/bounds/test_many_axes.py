"""Arrays of more axes than the engine has room for: legal, and not supported."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import zvcore
from zvcore.errors import UnsupportedError
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path


def document(format: str, rank: int) -> tuple[str, dict[str, Any]]:
    ones = [1] * rank
    if format == "zarr3":
        return "zarr.json", {
            "zarr_format": 3, "node_type": "array", "shape": ones, "data_type": "uint8", "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": ones}}, "attributes": {},
            "chunk_key_encoding": {"name": "default"}, "codecs": [{"name": "bytes"}],
        }  # fmt: skip
    if format == "zarr2":
        return ".zarray", {
            "zarr_format": 2, "shape": ones, "chunks": ones, "dtype": "|u1", "compressor": None, "filters": None,
            "fill_value": 0, "order": "C",
        }  # fmt: skip
    return "attributes.json", {
        "dimensions": ones, "blockSize": ones, "dataType": "uint8", "compression": {"type": "raw"},
    }  # fmt: skip


@pytest.mark.parametrize("rank", [33, 64, 65, 1000])
@pytest.mark.parametrize("format", ["zarr3", "zarr2", "n5"])
def test_more_axes_than_32_are_not_supported_and_not_unsound(tmp_path: Path, format: str, rank: int) -> None:
    name, content = document(format, rank)
    (tmp_path / name).write_text(json.dumps(content))
    report = zvcore.verify(tmp_path)
    assert report.status == "unsupported", report
    with pytest.raises(UnsupportedError, match="more than 32 dimensions"):
        zvcore.open(tmp_path)[...]
    with pytest.raises(UnsupportedError, match="more than 32 dimensions"):
        zvcore.convert(tmp_path, MemoryStore(), format="zarr3")
