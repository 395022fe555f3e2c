"""Shards of more chunks than there is memory for their indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import zvcore
from zvcore.errors import OutOfMemoryError
from zvcore.zarr3 import shard_levels

if TYPE_CHECKING:
    from pathlib import Path


def test_an_index_too_large_for_memory_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError("Unable to allocate 8.00 GiB")  # as numpy says it

    array = zvcore.create(tmp_path / "a", format="zarr3", shape=(64,), dtype="u1", chunks=(1,), shards=(64,))
    monkeypatch.setattr(shard_levels, "cell_order", full)
    with pytest.raises(OutOfMemoryError, match="a shard of 64 chunks"):
        array[0] = 1
