"""The workloads of the public zarr_benchmarks suite: read all, by shard, by inner chunk, and a round trip.

Each tool runs in processes of its own, once with all processors and once on a single one, so that its peak memory is
its own and tools share no threads. "cold" reads everything after the system was asked to drop the files from its cache.

    python -m bench --suite workloads
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.scale import pick

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TASKS", "WHO", "measure"]

SHAPE = pick((256, 512, 512), (64, 64, 64))
SHARD, INNER = pick(128, 32), pick(32, 16)
# The suite's compression: blosc with its own codec, bits shuffled.
BLOSC = {"cname": "blosclz", "clevel": 9, "shuffle": "bitshuffle", "typesize": 2, "blocksize": 0}
PIPELINES = {
    "zarrs": "zarrs.ZarrsCodecPipeline",
    "zarr": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "zarr-fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
    "zarr+zvcore": "zvcore.zarr3.CodecPipeline",
}
if tuple(map(int, importlib.metadata.version("zarr").split(".")[:2])) < (3, 3):
    del PIPELINES["zarr-fused"]
TASKS = ("read all", "read all, cold", "read by shard", "read by inner chunk", "round trip")
WHO = ("zvcore", "tensorstore", *PIPELINES)


def boxes(side: int) -> list[tuple[slice, ...]]:
    starts = itertools.product(*(range(0, extent, side) for extent in SHAPE))
    return [tuple(slice(at, at + side) for at in corner) for corner in starts]


def make(path: Path, filled: bool = True) -> None:
    import zvcore
    from bench.data import volume

    array = zvcore.create(
        path, format="zarr3", shape=SHAPE, dtype="u2", chunks=(INNER,) * 3, shards=(SHARD,) * 3, fill_value=0,
        codec=zvcore.codecs.from_zarr3({"name": "blosc", "configuration": BLOSC}), overwrite=True,
    )  # fmt: skip
    if filled:
        tile = volume("microscopy", (SHARD,) * 3)
        for box in boxes(SHARD):
            array[box] = tile


# --- in a process of its own: the readers and writers


def tensorstore_array(path: str, write: bool) -> Any:
    import tensorstore

    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": path},
        "context": {"cache_pool": {"total_bytes_limit": 0}, "file_io_sync": False},
    }
    return tensorstore.open(spec, open=True, read=True, write=write).result()


def access(who: str, source: str, target: str) -> tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]:
    """(read a region of the source, write one of the target)"""
    if who == "zvcore":
        import zvcore

        return zvcore.open(source).__getitem__, zvcore.open(target, mode="r+").__setitem__
    if who == "tensorstore":
        old, new = tensorstore_array(source, False), tensorstore_array(target, True)
        return (lambda region: old[region].read().result()), (lambda region, data: new[region].write(data).result())
    import zarr

    zarr.config.set({"codec_pipeline.path": PIPELINES[who]})
    return zarr.open_array(source, mode="r").__getitem__, zarr.open_array(target, mode="r+").__setitem__


def run_child(who: str, source: str, target: str, seconds: float) -> dict[str, Any]:
    from bench.memory import peak_of
    from zvcore.commands.measuring import drop_from_cache

    read, write = access(who, source, target)

    def round_trip() -> None:
        for box in boxes(SHARD):
            write(box, read(box))

    works: dict[str, Callable[[], Any]] = {
        "read all": lambda: read(...),
        "read by shard": lambda: [read(box).shape for box in boxes(SHARD)],
        "read by inner chunk": lambda: [read(box).shape for box in boxes(INNER)],
        "round trip": round_trip,
        "read all, cold": lambda: read(...),
    }
    first = read(boxes(SHARD)[0])
    assert np.asarray(first).any()
    found = {}
    for task, work in works.items():
        before = drop_from_cache if task.endswith("cold") else None
        peak = peak_of(work)
        times: list[float] = []
        end = time.perf_counter() + seconds / len(works)
        while not times or (time.perf_counter() < end and len(times) < 20):
            if before is not None:
                before(source)
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        found[task] = {"best": min(times), "median": float(np.median(times)), "turns": len(times), "peak": peak}
    return found


def measure(seconds: float) -> list[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="zvcore-bench-", dir=os.environ.get("ZVCORE_BENCH_DIR")))
    try:
        make(folder / "source")
        affinity = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        counts = sorted({1, len(affinity) or 1})
        results = []
        end = time.perf_counter() + seconds
        runs = [(who, count) for count in counts for who in WHO]
        for number, (who, count) in enumerate(runs):
            # A process takes a second or two before it begins.
            share = max(0.3, (end - time.perf_counter()) / (len(runs) - number) - 2)
            make(folder / "target", filled=False)
            found = start_child(who, folder, share, sorted(affinity)[:count])
            print(f"workloads    {who} on {count}: {short(found)}", file=sys.stderr, flush=True)
            results.append({"who": who, "processors": count, **found})
        return results
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start_child(who: str, folder: Path, seconds: float, processors: list[int]) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "bench.workloads", who, str(folder), str(seconds)]
    root = str(Path(__file__).resolve().parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
    command.append(json.dumps(processors))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["died"])[-1]
        return {"error": last}
    return {"tasks": json.loads(done.stdout)}


def short(found: dict[str, Any]) -> str:
    if "error" in found:
        return str(found["error"])
    return ", ".join(f"{task} {times['best'] * 1e3:.0f} ms" for task, times in found["tasks"].items())


if __name__ == "__main__":
    _, name, place, share, cores = sys.argv
    if cores != "[]":
        with contextlib.suppress(AttributeError, OSError):
            os.sched_setaffinity(0, json.loads(cores))
    print(json.dumps(run_child(name, f"{place}/source", f"{place}/target", float(share))))
