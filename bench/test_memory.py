"""Arrays in memory, read and written as a whole and in part, beside the memory stores of tensorstore and zarr-python.

    pytest bench/test_memory.py --benchmark-enable      times
    python -m bench.test_memory [word]                  ratios, the competitors taking turns

Electron microscopy as 16 bits in Zarr v3, written by zarr-python; each competitor has the same objects in a memory of
its own.
"""

from __future__ import annotations

import asyncio
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import zarr
import zarr.storage

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.scale import pick
from zvcore.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

SIDE = pick(256, 64)
CHUNK = SIDE // 4
CODECS: dict[str, Any] = {"raw": None, "zstd": zarr.codecs.ZstdCodec(level=1)}
# The shapes of chunks and shards.
KINDS = {"chunks": (CHUNK, None), "shards": (CHUNK // 2, (SIDE // 2,) * 3)}
Calls = dict[str, "Callable[[], Any]"]

AT = SIDE // 3
BOX = (slice(SIDE // 16 + 1, SIDE // 16 + 1 + 2 * SIDE // 5),) * 3
PARTS: dict[str, tuple[Any, ...]] = {
    "all": (slice(None),) * 3,
    "a plane": (AT,),
    "a box": BOX,
    "a chunk": (slice(CHUNK),) * 3,
    "a chunk of a shard": (slice(CHUNK // 2),) * 3,
    "an item": (slice(AT, AT + 1),) * 3,
}
# What is read and written of arrays of either kind, under its name.
TASKS = {
    "chunks": {
        "all of chunks": "all", "a plane of chunks": "a plane", "a box of chunks": "a box", "a chunk": "a chunk",
        "an item of chunks": "an item",
    },
    "shards": {
        "all of shards": "all", "a plane of shards": "a plane", "a box of shards": "a box",
        "a chunk of a shard": "a chunk of a shard", "an item of shards": "an item",
    },
}  # fmt: skip


@cache
def values() -> Any:
    """They repeat after 128, which no codec of these chunks can see."""
    tile = min(SIDE, 128)
    return np.ascontiguousarray(np.tile(volume("em", (tile,) * 3), [SIDE // tile] * 3)).astype("<u2") * 16


@cache
def stored(codec: str, kind: str) -> dict[str, bytes]:
    store = zarr.storage.MemoryStore()
    chunk, shards = KINDS[kind]
    array = zarr.create_array(
        store, shape=values().shape, chunks=(chunk,) * 3, shards=shards, dtype="<u2", compressors=CODECS[codec]
    )
    array[...] = values()
    return {key: data.to_bytes() for key, data in store._store_dict.items()}


def arrays(codec: str, kind: str) -> dict[str, Any]:
    objects = stored(codec, kind)
    ours, zarrs = MemoryStore(), zarr.storage.MemoryStore()
    context = tensorstore.Context()
    theirs = tensorstore.KvStore.open({"driver": "memory"}, context=context).result()
    for key, data in objects.items():
        ours.put(key, data)
        theirs.write(key, data).result()
        asyncio.run(zarrs.set(key, zarr.core.buffer.cpu.Buffer.from_bytes(data)))
    spec = {"driver": "zarr3", "kvstore": {"driver": "memory"}}
    return {
        "zvcore": zvcore.open(ours, mode="r+"),
        "tensorstore": tensorstore.open(spec, context=context, read=True, write=True).result(),
        "zarr": zarr.open_array(zarrs, mode="r+"),
    }


def reading(codec: str, kind: str, part: str) -> Calls:
    key = PARTS[part]
    found = arrays(codec, kind)
    ours, theirs, zarrs = found["zvcore"], found["tensorstore"], found["zarr"]
    return {"zvcore": lambda: ours[key], "tensorstore": lambda: theirs[key].read().result(), "zarr": lambda: zarrs[key]}


def writing(codec: str, kind: str, part: str) -> Calls:
    key = PARTS[part]
    found = arrays(codec, kind)
    ours, theirs, zarrs = found["zvcore"], found["tensorstore"], found["zarr"]
    given = np.ascontiguousarray(values()[key])
    return {
        "zvcore": lambda: ours.__setitem__(key, given),
        "tensorstore": lambda: theirs[key].write(given).result(),
        "zarr": lambda: zarrs.__setitem__(key, given),
    }


WHO = ("zvcore", "tensorstore", "zarr")
CONTESTS = [
    Contest(f"{how} {task}, {codec}", WHO, partial(make, codec, kind, part))
    for how, make in (("read", reading), ("write", writing))
    for kind, tasks in TASKS.items()
    for task, part in tasks.items()
    for codec in CODECS
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
