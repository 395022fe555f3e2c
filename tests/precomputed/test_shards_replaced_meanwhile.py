"""Shards that another writer replaces after their index was read and before the rest of it is: looked at once more."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import zvcore
from zvcore.precomputed import ShardedStore, ShardingSpec, write_sharded
from zvcore.precomputed.shard_reader import ShardReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Each shard is replaced by a copy right after the first look at it; their keys."""
    keys: list[str] = []
    look = ShardReader.file

    def file(reader: ShardReader, shard: int, fresh: bool = True) -> Any:
        found = look(reader, shard, fresh)
        key = reader.key(shard)
        if found is not None and key not in keys:
            keys.append(key)
            path = os.path.join(reader.store.root, key)
            shutil.copy(path, f"{path}.new")
            os.utime(f"{path}.new", ns=(1, 1))
            os.replace(f"{path}.new", path)
        return found

    monkeypatch.setattr(ShardReader, "file", file)
    yield keys
    assert keys


@pytest.mark.parametrize("minishard_bits", [1, 9])
def test_ids(tmp_path: Path, replaced: list[str], minishard_bits: int) -> None:
    spec = ShardingSpec(0, "identity", minishard_bits, 2)
    write_sharded(tmp_path, spec, dict.fromkeys(range(4096), b"x"))
    replaced.clear()
    kv = ShardedStore(tmp_path, spec)
    assert len(kv.first_ids(10)) == 10
    replaced.clear()
    assert sorted(kv.shard_ids(1).tolist()) == [id for id in range(4096) if id >> minishard_bits & 3 == 1]


def test_what_is_told_of_a_shard(tmp_path: Path, replaced: list[str]) -> None:
    spec = ShardingSpec(0, "identity", 6, 1)
    zvcore.create(
        tmp_path, format="precomputed", shape=(16, 16, 16), chunks=(2, 2, 2), dtype="u1", sharding=spec, data=7
    )
    for ask in (zvcore.inspect, zvcore.verify, zvcore.compact):
        replaced.clear()
        ask(tmp_path / "1_1_1" / "0.shard")
    assert zvcore.verify(tmp_path).ok


def test_chunks_that_are_stored(tmp_path: Path, replaced: list[str]) -> None:
    spec = ShardingSpec(0, "identity", 6, 1)
    array = zvcore.create(
        tmp_path, format="precomputed", shape=(16, 16, 16), chunks=(2, 2, 2), dtype="u1", sharding=spec
    )
    array[...] = 1
    replaced.clear()
    layout = array.layout
    found = np.concatenate([layout.stored_chunks_in(one) for one in layout.stored_objects()])
    assert len(found) == 512 == len(np.unique(found, axis=0))
