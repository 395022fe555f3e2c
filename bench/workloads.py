"""The workloads of the public zarr_benchmarks suite: read all, by shard, by inner chunk, and a round trip.

Each tool runs in processes of its own, once with all processors and once on a single one, so that its peak memory is
its own and tools share no threads. They take turns: each waits until it is told to do a task, and says how long that
took. "cold" reads everything after the system was asked to drop the files from its cache.

    python -m bench --suite workloads
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.pipelines import PIPELINES
from bench.scale import pick

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TASKS", "WHO", "measure"]

SHAPE = pick((256, 512, 512), (64, 64, 64))
SHARD, INNER = pick(128, 32), pick(32, 16)
# The suite's compression: blosc with its own codec, bits shuffled.
BLOSC = {"cname": "blosclz", "clevel": 9, "shuffle": "bitshuffle", "typesize": 2, "blocksize": 0}
# Who is so many times as slow as the fastest, and takes a second, has only the turn in which memory is measured.
FAR = 8
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


def append_result(results: list[float], work: Callable[[], float]) -> None:
    results.append(work())


def run_child(who: str, source: str, target: str) -> None:
    """Do each task that a line of stdin names and print the seconds that it took; after "peak", which has memory given
    back before, its peak of memory too.
    """
    from bench.interleaved import timed
    from bench.memory import peak_of
    from zvcore.stores.plain_files import drop_from_cache

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
    write(boxes(SHARD)[0], first)  # whatever is imported late is there now
    for line in sys.stdin:
        order, _, task = line.strip().partition(" ")
        if task.endswith("cold"):
            drop_from_cache(source)
        if order == "peak":
            taken: list[float] = []
            peak = peak_of(partial(append_result, taken, timed(works[task])))
            print(taken[0], peak, flush=True)
        else:
            print(timed(works[task])(), 0, flush=True)


class Child:
    """A tool in a process of its own, which does one task at a time."""

    def __init__(self, who: str, folder: Path, processors: list[int]) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "bench.workloads", who, str(folder / "source")]
        command += [str(folder / f"target-{who}"), json.dumps(processors)]
        root = str(Path(__file__).resolve().parent.parent)
        paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        self.said = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip

    def do(self, order: str, task: str) -> tuple[float, int]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(f"{order} {task}\n")
            self.process.stdin.flush()
            seconds, peak = self.process.stdout.readline().split()
            return float(seconds), int(peak)
        except (OSError, ValueError):
            self.process.wait()
            self.said.seek(0)
            last = (self.said.read().decode(errors="replace").strip().splitlines() or ["died"])[-1]
            raise ChildDied(last) from None

    def stop(self) -> None:
        with self.process, self.said, contextlib.suppress(OSError):
            self.process.kill()


class ChildDied(Exception):
    """A tool failed; the message is the last line that it said."""


def measure(seconds: float) -> list[dict[str, Any]]:
    folder = Path(tempfile.mkdtemp(prefix="zvcore-bench-", dir=os.environ.get("ZVCORE_BENCH_DIR")))
    try:
        make(folder / "source")
        affinity = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        counts = sorted({1, len(affinity) or 1})
        results = []
        end = time.perf_counter() + seconds
        for number, count in enumerate(counts):
            for who in WHO:
                make(folder / f"target-{who}", filled=False)
            share = (end - time.perf_counter()) / (len(counts) - number)
            results += measure_together(folder, sorted(affinity)[:count], count, share)
        return results
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_together(folder: Path, processors: list[int], count: int, seconds: float) -> list[dict[str, Any]]:
    """All tools on so many processors, taking turns at each task."""
    end = time.perf_counter() + seconds
    children = {who: Child(who, folder, processors) for who in WHO}
    found: dict[str, dict[str, Any]] = {who: {"tasks": {}} for who in WHO}
    try:
        for number, task in enumerate(TASKS):
            measure_task(children, found, task, (end - time.perf_counter()) / (len(TASKS) - number))
    finally:
        for child in children.values():
            child.stop()
    for who, what in found.items():
        print(f"workloads    {who} on {count}: {short(what)}", file=sys.stderr, flush=True)
    return [{"who": who, "processors": count, **what} for who, what in found.items()]


def measure_task(children: dict[str, Child], found: dict[str, dict[str, Any]], task: str, seconds: float) -> None:
    from bench.measuring import FOR_ALL, first_turns, more_turns, summary

    end = time.perf_counter() + seconds
    peaks = dict.fromkeys(children, 0)

    def do(who: str, order: str) -> float:
        try:
            taken, peak = children[who].do(order, task)
        except ChildDied as error:
            found[who] = {"error": str(error)}
            return math.inf
        peaks[who] = max(peaks[who], peak)
        return taken

    times = {who: [do(who, "peak")] for who in children if "error" not in found[who]}
    if not times:
        return
    near = max(FAR * min(times.values())[0], 1.0)
    once = {who: taken for who, (taken,) in times.items() if taken < near or (who == "zvcore" and taken < math.inf)}
    works = {who: partial(do, who, "time") for who in once}
    if works:
        times |= first_turns(works, once, end - time.perf_counter() - (1 - FOR_ALL) * seconds, close=1)
    if "zvcore" in works:
        more_turns(works, times, end - time.perf_counter())
    for who, one in summary(times).items():
        if "error" not in found[who]:
            found[who]["tasks"][task] = {**one, "peak": peaks[who]}


def short(found: dict[str, Any]) -> str:
    if "error" in found:
        return str(found["error"])
    return ", ".join(f"{task} {times['best'] * 1e3:.0f} ms" for task, times in found["tasks"].items())


if __name__ == "__main__":
    _, name, source, target, cores = sys.argv
    if cores != "[]":
        with contextlib.suppress(AttributeError, OSError):
            os.sched_setaffinity(0, json.loads(cores))
    run_child(name, source, target)
