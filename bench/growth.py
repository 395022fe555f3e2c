"""How cost grows with the work: times and memory against size, with a fitted exponent.

Each line is time ~ size ** exponent, fitted to the upper half of the sizes, where fixed costs no longer hide the rest.
What should be linear may have an exponent of at most 1.15, what should not depend on the size one of 0.3; anything
above that is marked.

    python -m bench --suite growth
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import zvcore
from bench.data import volume
from bench.interleaved import all_times
from bench.memory import peak_of
from bench.scale import pick
from zvcore.precomputed import ShardedStore, ShardingSpec, write_sharded
from zvcore.stores.indexes import index_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["GROWTHS", "fit", "measure"]

# A little above 1: data that no longer fits into the caches costs more per byte.
LINEAR, FLAT = 1.15, 0.3


@dataclass(frozen=True)
class Growth:
    """What grows, how far, and the highest exponent that is right. `make(n, folder)` returns what is timed."""

    name: str
    unit: str
    sizes: Sequence[int]
    make: Callable[[int, Path], Callable[[], Any]]
    most: float
    memory: bool = False


def array_of(folder: Path, shape: tuple[int, ...], chunks: tuple[int, ...], **options: Any) -> Any:
    array = zvcore.create(folder, format="zarr3", shape=shape, dtype="u1", chunks=chunks, overwrite=True, **options)
    tile = volume("em", (64, 64, 64))
    array[...] = np.tile(tile, [-(-n // 64) for n in shape])[tuple(slice(n) for n in shape)]
    return zvcore.open(folder)


def read_whole(n: int, folder: Path) -> Callable[[], Any]:
    """n MiB in chunks of 64^3."""
    array = array_of(folder, (64, 64, 256 * n), (64, 64, 64), shards=(64, 64, 256), codec="zstd")
    return lambda: array[...]


def write_whole(n: int, folder: Path) -> Callable[[], Any]:
    array = zvcore.create(
        folder, format="zarr3", shape=(64, 64, 256 * n), dtype="u1", chunks=(64, 64, 64), shards=(64, 64, 256)
    )
    data = np.tile(volume("em", (64, 64, 64)), (1, 1, 4 * n))
    return lambda: array.__setitem__(..., data)


def many_chunks(n: int, folder: Path) -> Callable[[], Any]:
    """n chunks of 512 bytes in one shard."""
    array = array_of(folder, (8, 8, 8 * n), (8, 8, 8), shards=(8, 8, 8 * n), codec=None)
    return lambda: array[...]


def one_of_a_shard(n: int, folder: Path) -> Callable[[], Any]:
    """One chunk of a shard that holds n; its index is cached."""
    array = array_of(folder, (8, 8, 8 * n), (8, 8, 8), shards=(8, 8, 8 * n), codec=None)
    at = 8 * (n // 2)
    time.sleep(0.02)
    return lambda: array[:, :, at : at + 8]


def first_of_a_shard(n: int, folder: Path) -> Callable[[], Any]:
    """Opening an array and reading one chunk of a shard of n, whose index must be read."""
    array_of(folder, (8, 8, 8 * n), (8, 8, 8), shards=(8, 8, 8 * n), codec=None)

    def work() -> Any:
        index_cache().clear()
        return zvcore.open(folder)[:, :, :8]

    return work


def minishard(n: int, folder: Path) -> ShardedStore:
    spec = ShardingSpec(0, "identity", 0, 0, "raw", "raw")
    write_sharded(folder, spec, ((id, b"some bytes of a value") for id in range(n)), overwrite=True)
    return ShardedStore(folder, spec)


def id_warm(n: int, folder: Path) -> Callable[[], Any]:
    """One id of a minishard of n whose index is cached."""
    kv = minishard(n, folder)
    return lambda: [kv[n // 2 + i] for i in range(20)]


def id_cold(n: int, folder: Path) -> Callable[[], Any]:
    kv = minishard(n, folder)

    def work() -> bytes:
        index_cache().clear()
        return ShardedStore(folder, kv.spec)[n // 2]

    return work


def manifest_table(n: int, folder: Path) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    coords, pieces = rng.integers(-5, 5, (n, 3)).tolist(), rng.integers(0, 100, n).tolist()
    blobs = zvcore.zvf.encode_manifests([[(tuple(c), p)] for c, p in zip(coords, pieces, strict=True)], 3)
    return lambda: zvcore.zvf.decode_manifests(blobs, 3)


def with_threads(n: int, folder: Path) -> Callable[[], Any]:
    """64 MiB, by n threads."""
    if not folder.with_name("threads").exists():
        array_of(folder.with_name("threads"), (64, 64, 256 * 64), (64, 64, 64), shards=(64, 64, 256), codec="gzip")
    array = zvcore.open(folder.with_name("threads"))
    return lambda: array.read(..., threads=n)


def up_to(least: int, most: int, count: int) -> list[int]:
    return sorted({round(n) for n in np.geomspace(least, most, count)})


PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
LADDER = up_to(64, pick(65536, 256), 6)
IDS = up_to(100, pick(300_000, 500), 6)
GROWTHS = [
    Growth("read a whole array", "MiB", up_to(1, pick(128, 4), 8), read_whole, LINEAR, memory=True),
    Growth("write a whole array", "MiB", up_to(1, pick(64, 4), 7), write_whole, LINEAR),
    Growth("read all chunks of a shard", "chunks", LADDER, many_chunks, LINEAR),
    Growth("one chunk of a shard, index at hand", "chunks per shard", LADDER, one_of_a_shard, FLAT),
    Growth("open again, then one chunk of a shard", "chunks per shard", LADDER, first_of_a_shard, LINEAR),
    Growth("values by id, index at hand", "ids per minishard", IDS, id_warm, FLAT),
    Growth("open again, then one value by id", "ids per minishard", IDS, id_cold, LINEAR),
    Growth("decode object manifests", "objects", up_to(1000, pick(300_000, 3000), 6), manifest_table, LINEAR),
    Growth("read 64 MiB of gzip", "threads", sorted({*range(1, PROCESSORS + 1), 2 * PROCESSORS}), with_threads, FLAT),
]  # fmt: skip


def fit(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The exponent of value ~ size ** exponent, over the upper half of the sizes."""
    first = len(sizes) // 2 if len(sizes) > 3 else 0
    x, y = np.log(np.asarray(sizes[first:], float)), np.log(np.maximum(np.asarray(values[first:], float), 1e-12))
    return float(np.polyfit(x, y, 1)[0]) if len(x) > 1 else 0.0


def measure(seconds: float) -> list[dict[str, Any]]:
    results = []
    end = time.perf_counter() + seconds
    for number, growth in enumerate(GROWTHS):
        share = (end - time.perf_counter()) / (len(GROWTHS) - number)
        result = measure_one(growth, share)
        print(f"growth       {growth.name}: {growth.unit} ** {result['exponent']:.2f}", file=sys.stderr, flush=True)
        results.append(result)
    return results


def measure_one(growth: Growth, seconds: float) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="zvcore-bench-", dir=os.environ.get("ZVCORE_BENCH_DIR")))
    end = time.perf_counter() + seconds
    try:
        works = {n: growth.make(n, folder / str(n)) for n in growth.sizes}
        peaks = [peak_of(work) for work in works.values()] if growth.memory else None
        for work in works.values():
            work()
        found = all_times({str(n): work for n, work in works.items()}, max(0.0, end - time.perf_counter()), 3)
        times = [min(found[str(n)]) for n in works]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    exponent = fit(growth.sizes, times)
    memory = fit(growth.sizes, [max(peak, 1 << 20) for peak in peaks]) if peaks else None
    return {
        "name": growth.name, "unit": growth.unit, "sizes": list(growth.sizes), "seconds": times, "peaks": peaks,
        "exponent": exponent, "most": growth.most, "within": exponent <= growth.most,
        "memory exponent": memory, "memory within": memory is None or memory <= LINEAR,
    }  # fmt: skip
