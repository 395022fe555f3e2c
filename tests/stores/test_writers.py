"""Several threads that change parts of the same objects lose nothing, with locks and without."""

from __future__ import annotations

import json
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

import zvcore
from tests.at_once import run_threads
from zvcore.stores import LocalStore, MemoryStore

THREADS = 6
ROUNDS = 20
SHAPE = (24, 24, 4)
INDEX = [{"name": "bytes", "configuration": {"endian": "little"}}]


def sharded(chunks: list[int], codecs: list[Any]) -> list[Any]:
    return [
        {
            "name": "sharding_indexed",
            "configuration": {"chunk_shape": chunks, "codecs": codecs, "index_codecs": INDEX},
        }
    ]


PLAIN = [{"name": "bytes"}]
# Shards in shards, and shards behind a codec: both are read and written as a whole.
DOCUMENTS = {
    "zarr3-nested": sharded([12, 12, 4], sharded([6, 6, 4], PLAIN)),
    "zarr3-compressed": [*sharded([6, 6, 4], PLAIN), {"name": "gzip", "configuration": {"level": 1}}],
}
KINDS: dict[str, dict[str, Any]] = {
    "zarr3": {"format": "zarr3", "chunks": (6, 6, 4)},
    "zarr3-sharded": {"format": "zarr3", "chunks": (6, 6, 4), "shards": (12, 12, 4)},
    "n5": {"format": "n5", "chunks": (6, 6, 4)},
    "precomputed-sharded": {"format": "precomputed", "chunks": (6, 6, 4), "shards": (24, 24, 4)},
}


class Unlocked(MemoryStore):
    can_lock = False


@pytest.fixture(params=["local", "memory", "unlocked"])
def store(request, tmp_path):
    return {"local": lambda: LocalStore(tmp_path), "memory": MemoryStore, "unlocked": Unlocked}[request.param]()


def create(store, kind):
    if kind in KINDS:
        return zvcore.create(store, shape=SHAPE, dtype="u1", **KINDS[kind])
    grid = {"name": "regular", "configuration": {"chunk_shape": [24, 24, 4]}}
    document = {
        "zarr_format": 3, "node_type": "array", "shape": SHAPE, "data_type": "uint8", "chunk_grid": grid,
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "codecs": DOCUMENTS[kind],
    }  # fmt: skip
    store.put("zarr.json", json.dumps(document).encode())
    return zvcore.open(store, "r+")


@pytest.mark.parametrize("kind", [*KINDS, *DOCUMENTS])
def test_writers_of_the_same_objects_lose_nothing(store, kind):
    array = create(store, kind)
    expected = np.zeros(array.shape, np.uint8)
    begin = threading.Barrier(THREADS)
    random = np.random.default_rng(0)
    # Each has rows of its own, in all chunks. Some values are the fill value, so that chunks and shards come and go.
    values = random.integers(0, 3, (THREADS, ROUNDS, *array.shape), np.uint8) * random.integers(
        0, 2, (THREADS, ROUNDS, *[1] * array.ndim), np.uint8
    )

    def write(number: int) -> None:
        mine = zvcore.open(store, "r+")
        mine = mine if isinstance(mine, zvcore.Array) else mine[0]
        begin.wait()
        for turn in range(ROUNDS):
            mine[number::THREADS] = values[number, turn][number::THREADS]

    run_threads([partial(write, number) for number in range(THREADS)])
    for number in range(THREADS):
        expected[number::THREADS] = values[number, -1][number::THREADS]
    assert (array[...] == expected).all()
    assert zvcore.verify(store).ok
