"""Whole writes into new files and over old ones, by each way to replace a file, beside the other implementations.

    python -m bench.durability [SECONDS]        a table; ZVCORE_BENCH_DIR says on which file system

All take turns on the same bytes. Times are the least of all turns: wall clock, and the processors' (of all threads),
which says more on a machine that others use.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorstore
import z5py

import zvcore
from bench.data import volume
from bench.pipelines import opened, within
from bench.scale import pick
from zvcore.stores.durability import DURABILITIES
from zvcore.stores.late_writes import settle

if TYPE_CHECKING:
    from collections.abc import Callable

SIDE, LARGE_SIDE = pick(256, 32), pick(512, 64)
SHARD, INNER, BLOCK = pick(128, 16), pick(64, 8), pick(32, 8)


def rewritable(path: Path, how: str, **options: Any) -> Any:
    """The array of a path, written by one of `DURABILITIES`."""
    return zvcore.open(path, "r+", **{"durability": how, **options})


def shards(codec: str | None, who: str, path: Path, data: Any) -> Callable[[], Any]:
    """Functions that write the whole of a Zarr array of shards, which was just made."""
    zvcore.create(
        path, format="zarr3", shape=data.shape, dtype="u1", chunks=(INNER,) * 3, shards=(SHARD,) * 3, codec=codec,
        fill_value=0,
    )  # fmt: skip
    if who == "tensorstore":
        spec = {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": str(path)},
            "context": {"cache_pool": {"total_bytes_limit": 0}, "file_io_sync": False},
        }
        theirs = tensorstore.open(spec, open=True, read=True, write=True).result()
        return lambda: theirs.write(data).result()
    if who == "zarrs":
        return within(who, partial(opened(path, who, "r+").__setitem__, ..., data))
    return partial(rewritable(path, who).__setitem__, ..., data)


def blocks(codec: str | None, who: str, path: Path, data: Any) -> Callable[[], Any]:
    """Functions that write the whole of an N5 dataset, which was just made."""
    if who == "z5py":
        options = {"compression": codec or "raw"}
        made = z5py.File(str(path), mode="a").create_dataset(
            "d", shape=data.shape, chunks=(BLOCK,) * 3, dtype="uint8", n_threads=len(os.sched_getaffinity(0)), **options
        )
        return partial(made.__setitem__, slice(None), data)
    root = zvcore.open(path, "w", format="n5")
    root.create_dataset("d", shape=data.shape, dtype="u1", chunks=(BLOCK,) * 3, codec=codec)
    if who == "tensorstore":
        spec = {
            "driver": "n5",
            "kvstore": {"driver": "file", "path": str(path / "d")},
            "context": {"cache_pool": {"total_bytes_limit": 0}, "file_io_sync": False},
        }
        theirs = tensorstore.open(spec, open=True).result()
        return lambda: theirs.T.write(data).result()
    return partial(rewritable(path / "d", who, order="C").__setitem__, ..., data)


CASES: dict[str, tuple[Callable[..., Callable[[], Any]], tuple[str, ...], int]] = {
    "Zarr, shards, raw": (partial(shards, None), ("tensorstore", "zarrs"), SIDE),
    "Zarr, shards, zstd": (partial(shards, "zstd"), ("tensorstore", "zarrs"), SIDE),
    "N5, blocks, raw": (partial(blocks, None), ("tensorstore", "z5py"), SIDE),
    "N5, blocks, gzip": (partial(blocks, "gzip"), ("tensorstore", "z5py"), SIDE),
    f"Zarr, shards of {LARGE_SIDE}^3, raw": (partial(shards, None), ("tensorstore",), LARGE_SIDE),
}


def values_of(side: int) -> Any:
    tile = min(side, 256)
    return np.ascontiguousarray(np.tile(volume("em", (tile,) * 3), [side // tile] * 3))


def measure(case: str, over: bool, folder: Path, seconds: float) -> dict[str, tuple[float, float]]:
    """(least wall clock, least time of processors) of each."""
    make, peers, side = CASES[case]
    data = values_of(side)
    who = [*DURABILITIES, *peers]
    writers = {name: make(name, folder / name, data) for name in who}
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    end = time.perf_counter() + seconds
    turn = 0
    while turn < 4 or time.perf_counter() < end:
        for name in who:
            settle()  # a function must not pay for writes that the one before it left to the system
            if not over:
                shutil.rmtree(folder / name, ignore_errors=True)
                writers[name] = make(name, folder / name, data)
            wall, processors = time.perf_counter(), time.process_time()
            writers[name]()
            if turn or not over:  # the first writes over nothing
                times[name].append((time.perf_counter() - wall, time.process_time() - processors))
        turn += 1
    settle()
    shutil.rmtree(folder)
    return {name: (min(wall for wall, _ in found), min(cpu for _, cpu in found)) for name, found in times.items()}


def main(seconds: float) -> None:
    print("| write | files | " + " | ".join(DURABILITIES) + " | peers |\n|---|---|---|---|---|---|---|")
    for case, (_, peers, _) in CASES.items():
        for over in (False, True):
            folder = Path(tempfile.mkdtemp(prefix="zvcore-bench-", dir=os.environ.get("ZVCORE_BENCH_DIR")))
            found = measure(case, over, folder, seconds / len(CASES) / 2)
            cells = {name: f"{wall * 1e3:.1f} / {cpu * 1e3:.1f}" for name, (wall, cpu) in found.items()}
            ours = " | ".join(cells[name] for name in DURABILITIES)
            theirs = ", ".join(f"{name} {cells[name]}" for name in peers)
            print(f"| {case} | {'old' if over else 'new'} | {ours} | {theirs} |", flush=True)
    print(f"ms of wall clock / of processors; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
