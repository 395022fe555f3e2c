"""Large shards of which a part is written are rewritten by several threads at once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
from zvcore.engine.buffers import Buffers
from zvcore.placement import Group
from zvcore.stores import LocalStore
from zvcore.zarr3 import shard_writer
from zvcore.zarr3.shard_index import Index
from zvcore.zarr3.shard_writer import ShardWriter

if TYPE_CHECKING:
    from pathlib import Path

SHAPE, CHUNKS, SHARDS = (32, 64, 64), (8, 8, 8), (32, 32, 32)
VALUES = np.random.default_rng(3).integers(0, 60000, SHAPE, "u2")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    zvcore.create(tmp_path / "a", format="zarr3", shape=SHAPE, dtype="u2", chunks=CHUNKS, shards=SHARDS)[...] = VALUES
    return tmp_path / "a"


def left_over(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.suffix in (".zvlock", ".zvtmp")]


def test_two_threads_meet_in_two_shards(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_writer, "_LARGE_SHARD", 1)
    update, both = ShardWriter.update, threading.Barrier(2)

    def meeting(self: ShardWriter, *args: Any) -> None:
        both.wait(30)
        update(self, *args)

    monkeypatch.setattr(ShardWriter, "update", meeting)
    array = zvcore.open(path, mode="r+", threads=2)
    new = VALUES[5] + np.uint16(1)
    array[5] = new
    wanted = VALUES.copy()
    wanted[5] = new
    np.testing.assert_array_equal(zarr.open_array(path, mode="r")[...], wanted)
    zvcore.stores.late_writes.settle()
    assert left_over(path) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_whatever_fails_in_one_of_them_is_raised_and_no_lock_is_left(
    path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(shard_writer, "_LARGE_SHARD", 1)
    put = LocalStore.put_data

    def failing(self: LocalStore, key: str, data: Any) -> None:
        if key.endswith("1/0"):
            raise OSError(28, "no space")
        put(self, key, data)

    array = zvcore.open(path, mode="r+", threads=threads)
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "put_data", failing)
        with pytest.raises(OSError, match="no space"):
            array[5] = 7
    assert not [file for file in left_over(path) if file.suffix == ".zvlock"]
    # Each shard is as it was, or as it was to be.
    found = array[...]
    np.testing.assert_array_equal(np.delete(found, 5, 0), np.delete(VALUES, 5, 0))
    for y in (0, 32):
        for x in (0, 32):
            part, old = found[5, y : y + 32, x : x + 32], VALUES[5, y : y + 32, x : x + 32]
            assert (part == 7).all() or (part == old).all()
    assert (found[5, 32:, :32] == VALUES[5, 32:, :32]).all()
    array[5] = 7
    assert (array[5] == 7).all()


def test_how_many_is_bounded_by_what_they_take(path: Path) -> None:
    placement = zvcore.open(path)._layout.placement
    no_chunks = Buffers(0)

    def at_once(size: int) -> int:
        found = Index(np.empty(0, "u8"), np.empty(0, "u8"), None, size)
        return placement.replaced_at_once([Group("c/0/0/0", np.arange(0), found)] * 4, [no_chunks] * 4)

    assert at_once(1000) == 1
    assert at_once(1 << 20) == 256
    assert at_once(100 << 20) == 2
    assert at_once(1 << 30) == 0
