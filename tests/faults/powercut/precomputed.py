"""Writes of precomputed volumes, and of values by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.faults.powercut.kind import STEPS, Kind, check_create, new, nothing, rewritten, step_create, value_of
from zvcore.precomputed import ShardedStore, ShardingSpec, write_sharded

if TYPE_CHECKING:
    from pathlib import Path

    from zvcore.stores import LocalStore

SPEC = ShardingSpec(0, "murmurhash3_x86_128", 1, 1, "raw", "raw")
IDS = range(24)


def begin_values(path: Path) -> None:
    write_sharded(path, SPEC, dict.fromkeys(IDS, b"1" * 60))


def step_update(store: LocalStore, value: int) -> None:
    ShardedStore(store, SPEC, mode="r+").update(dict.fromkeys(IDS, b"%d" % value * (60 + value)))


def step_write_sharded(store: LocalStore, value: int) -> None:
    write_sharded(store, SPEC, dict.fromkeys(IDS, b"%d" % value * (60 + value)), overwrite=True)


def check_values(path: Path) -> list[int]:
    store = ShardedStore(path, SPEC)
    found: dict[int, list[int]] = {0: [], 1: []}
    for id in IDS:
        data = store.get(id)
        shard = int(SPEC.locate(np.array([id], np.uint64))[0][0])
        if data is None:
            found[shard].append(0)
            continue
        assert len(set(data)) == 1 and data.isdigit() and len(data) in (60, 62, 63), "neither old nor new"
        found[shard].append(int(chr(data[0])))
        assert len(data) == 60 + (found[shard][-1] if found[shard][-1] > 1 else 0)
    return [value_of(values) for values in found.values()]


def step_delete_values(store: LocalStore, value: int) -> None:
    ShardedStore(store, SPEC, mode="r+").delete([value])


def check_delete_values(path: Path) -> list[int]:
    store = ShardedStore(path, SPEC)
    for id in IDS:
        if id not in STEPS:
            assert store[id] == b"1" * 60
    return [3 if 3 not in store else 2 if 2 not in store else 1]


def kinds() -> list[Kind]:
    volume = {"format": "precomputed", "shape": (32, 32, 16), "chunks": (16, 16, 8), "codec": None}
    shards = volume | {"shards": (32, 32, 16)}
    return [
        new("precomputed chunks, new", volume, (16, 16, 8, 1)),
        new("precomputed shards, new", shards, (32, 32, 16, 1)),
        rewritten("precomputed chunks", volume, (16, 16, 8, 1)),
        rewritten("precomputed shards", shards, (32, 32, 16, 1)),
        Kind("precomputed array, created", nothing, step_create("precomputed"), check_create),
        Kind("precomputed values, updated", begin_values, step_update, check_values),
        Kind("precomputed values, deleted", begin_values, step_delete_values, check_delete_values),
        Kind("precomputed values, write_sharded", begin_values, step_write_sharded, check_values),
        Kind("precomputed values, write_sharded new", nothing, step_write_sharded, check_values),
    ]
