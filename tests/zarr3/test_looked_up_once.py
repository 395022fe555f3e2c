"""Nothing about a shard is looked up twice in one write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zvcore
from zvcore.precomputed.shard_reader import ShardReader
from zvcore.stores import LocalStore, MemoryStore
from zvcore.zarr3.sharding import ShardLayout


class Unlocked(MemoryStore):
    can_lock = False


@pytest.fixture(params=["local", "memory", "unlocked"])
def store(request, tmp_path):
    return {"local": lambda: LocalStore(tmp_path), "memory": MemoryStore, "unlocked": Unlocked}[request.param]()


def counted(monkeypatch, owner: Any, name: str) -> list[Any]:
    calls: list[Any] = []
    real = getattr(owner, name)

    def count(self: Any, *arguments: Any, **named: Any) -> Any:
        calls.append(arguments)
        return real(self, *arguments, **named)

    monkeypatch.setattr(owner, name, count)
    return calls


@pytest.mark.parametrize("mode", ["rewrite", "append", "inplace"])
def test_an_index_is_looked_up_once_in_a_write(store, monkeypatch, mode):
    if mode != "rewrite" and not store.can_lock:
        return
    zvcore.create(store, format="zarr3", shape=(32, 32), dtype="u2", chunks=(4, 4), shards=(16, 16), codec="raw")
    array = zvcore.open(store, "r+", write_mode=mode)
    expected = np.arange(32 * 32, dtype="u2").reshape(32, 32)
    array[...] = expected
    calls = counted(monkeypatch, ShardLayout, "index")
    array[2:5, 2:9] = expected[2:5, 2:9] = 7
    assert len(calls) == 1, "a part of some chunks"
    calls.clear()
    array[0:4, 0:4] = expected[0:4, 0:4] = 8
    assert len(calls) == 1, "a whole chunk"
    calls.clear()
    array[0:16, 0:16] = expected[0:16, 0:16] = 9
    assert len(calls) == (0 if mode == "rewrite" else 1), "a whole shard"
    calls.clear()
    array[...] = expected
    assert len(calls) == (0 if mode == "rewrite" else 4), "everything"
    assert (zvcore.open(store)[...] == expected).all()


def test_a_shard_of_a_volume_is_looked_up_once_in_a_write(store, monkeypatch):
    array = zvcore.create(
        store, format="precomputed", shape=(32, 32, 32), dtype="u1", chunks=(8, 8, 8), shards=(32, 32, 32)
    )
    expected = np.random.default_rng(0).integers(0, 255, array.shape, np.uint8)
    array[...] = expected
    calls = counted(monkeypatch, ShardReader, "file")
    array[3:5, 3:5, 3:5] = expected[3:5, 3:5, 3:5] = 7
    assert len(calls) == 1
    assert (zvcore.open(store)[0][...] == expected).all()
