"""What a chunk costs, however many threads share the work: instructions, and what threads do that others may wait for.

    python -m bench.thread_counts            with 1, 2, 4, 8 and 16 threads; one processor will do

Everything is counted in two calls that differ only in the number of their chunks. What the larger one takes more, for
each chunk that it has more, is what a chunk costs; the rest is the call itself, starting the threads included.

Callgrind lets one thread run at a time, so what threads lose by waiting for each other is not among the instructions.
Beside them stand the atomic instructions (what threads count together or take from each other needs them, and each has
to own a line of the caches), the locks that are taken, and the system calls by which threads wait for each other.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["THREADS", "measure"]

THREADS = (1, 2, 4, 8, 16)
INNER = 8
REPEATS = 3
# Chunks of the two calls, which are larger where they run at full speed: every thread shall come. There are at least
# 16 shards, one for each thread.
Grids = dict[int, tuple[int, int, int]]
SIMULATED: Grids = {64: (8, 4, 2), 256: (8, 8, 4)}
NATIVE: Grids = {512: (8, 8, 8), 4096: (16, 16, 16)}
LOCKS = Path(__file__).parents[1] / "tests" / "engine" / "locks_taken.c"
CASES: dict[str, dict[str, Any]] = {
    **{f"Zarr shards, {codec or 'raw'}": {"format": "zarr3", "codec": codec} for codec in (None, "zstd", "blosc")},
    **{f"N5, {codec or 'raw'}": {"format": "n5", "codec": codec} for codec in (None, "zstd", "blosc")},
    **{f"precomputed, {codec or 'raw'}": {"format": "precomputed", "codec": codec} for codec in (None, "gzip")},
}
NAMES = [f"{what}: {case}" for case in CASES for what in ("read", "write")]


# --- what is counted, in a process of its own


def made(folder: Path, case: str, grid: tuple[int, int, int]) -> tuple[Any, Any]:
    """An array of such a grid, and its values."""
    import zvcore

    options = dict(CASES[case])
    shape: tuple[int, ...] = tuple(n * INNER for n in grid)
    if options["format"] == "zarr3":
        options["shards"] = (2 * INNER, shape[1] // 2, shape[2] // 2)
    path = folder / f"{case} {grid}"
    array: Any = zvcore.create(path, shape=shape, dtype="u1", chunks=(INNER,) * 3, **options)
    values = np.random.default_rng(0).integers(0, 4, array.shape, dtype="u1")
    array[...] = values
    return array, values


def steps(folder: Path, grids: Grids, threads: tuple[int, ...]) -> Iterator[tuple[str, int, int, Callable[[], Any]]]:
    """(name, threads, chunks, the work) of each call, in the order of `order`; it was done before."""
    for case in CASES:
        arrays = {chunks: made(folder, case, grid) for chunks, grid in grids.items()}
        time.sleep(0.3)  # indexes of files that are just being written are not kept
        for what in ("read", "write"):
            for count in threads:
                for chunks, (array, values) in arrays.items():
                    if what == "read":
                        work = partial(array.read, ..., out=np.empty_like(values), threads=count)
                    else:
                        work = partial(array.write, ..., values, threads=count)
                    work()
                    yield f"{what}: {case}", count, chunks, work


def order(grids: Grids, threads: tuple[int, ...]) -> list[tuple[str, int, int]]:
    return [(name, count, chunks) for name in NAMES for count in threads for chunks in grids]


def perform(grids: Grids, threads: tuple[int, ...]) -> None:
    """Each call between two system calls that nothing else makes."""
    gc.disable()
    with scratch() as folder:
        for _ in range(2):  # what only the first dump counts
            os.getppid()
            os.getpgrp()
        for _, _, _, work in steps(folder, grids, threads):
            for _ in range(REPEATS):
                os.getppid()
                work()
                os.getpgrp()


def perform_locked(grids: Grids, threads: tuple[int, ...]) -> None:
    """How often locks are taken in each call."""
    taken = ctypes.CDLL(None).locks_taken
    taken.restype = ctypes.c_long
    found = []
    with scratch() as folder:
        for *_, work in steps(folder, grids, threads):
            for _ in range(REPEATS):
                before = taken()
                work()
                found.append(taken() - before)
    print(json.dumps(found))


# --- counting


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """In memory where there is such a folder: nothing is counted while the disk is waited for, but it takes minutes."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="zvcore-bench-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def run(mode: str, threads: tuple[int, ...], before: tuple[str, ...] = (), **variables: str) -> str:
    command = [*before, sys.executable, "-W", "ignore", "-m", "bench.thread_counts", mode, *map(str, threads)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def instructions(threads: tuple[int, ...]) -> tuple[list[float], list[float]]:
    """(instructions, atomic ones) of each call of `order`, by callgrind."""
    with scratch() as folder:
        options = ["-q", "--tool=callgrind", "--zero-before=getppid", "--dump-after=getpgrp"]
        options += ["--collect-bus=yes", "--fair-sched=yes", f"--callgrind-out-file={folder}/out"]
        run("simulated", threads, ("valgrind", *options))
        both = [totals(folder / f"out.{number}") for number in range(3, 3 + REPEATS * len(order(SIMULATED, threads)))]
    return least([one["Ir"] for one in both]), least([one["Ge"] for one in both])


def totals(dump: Path) -> dict[str, int]:
    """What callgrind has counted between two marks, in all threads."""
    with dump.open() as lines:
        head = "".join(line for line in lines if line.startswith(("events:", "summary:")))
    events = re.search(r"^events: (.*)$", head, re.MULTILINE)
    numbers = re.search(r"^summary: (.*)$", head, re.MULTILINE)
    assert events is not None and numbers is not None
    names = events[1].split()
    return dict.fromkeys(names, 0) | dict(zip(names, map(int, numbers[1].split()), strict=False))


def least(counts: Sequence[float]) -> list[float]:
    """Of each call the least: a thread that first comes to a call makes what it then keeps."""
    return [min(counts[at : at + REPEATS]) for at in range(0, len(counts), REPEATS)]


def locks(threads: tuple[int, ...]) -> list[float]:
    """How often each call takes a lock, whoever's it is."""
    with scratch() as folder:
        library = folder / "locks_taken.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, LOCKS, "-ldl"], check=True)
        preloaded = " ".join(filter(None, [os.environ.get("LD_PRELOAD"), str(library)]))
        return least(json.loads(run("locked", threads, LD_PRELOAD=preloaded)))


def waits(threads: tuple[int, ...]) -> list[float]:
    """The system calls of each call by which a thread waits for another or wakes it."""
    with scratch() as folder:
        # The last one: other system calls are not even looked at.
        options = ("-f", "-qq", "-e", "trace=futex,getppid,getpgrp", "--seccomp-bpf")
        run("native", threads, ("strace", *options, "-o", f"{folder}/calls"))
        found: list[float] = []
        for line in (folder / "calls").read_text().splitlines():
            if " getppid(" in line:
                found.append(0.0)
            elif " futex(" in line and found:
                found[-1] += 1
        # Of each call the middle one: in the least, threads may not have come in time.
        return [median(found[at : at + REPEATS]) for at in range(2, len(found), REPEATS)]


# --- what a chunk costs


def slopes(grids: Grids, threads: tuple[int, ...], counts: Sequence[float]) -> dict[str, list[dict[str, float]]]:
    """For each name and number of threads: what is counted for a chunk, and what for the call."""
    found: dict[str, list[dict[str, float]]] = {}
    by_call = dict(zip(order(grids, threads), counts, strict=True))
    few, many = grids
    for name in NAMES:
        for count in threads:
            chunk = (by_call[name, count, many] - by_call[name, count, few]) / (many - few)
            call = by_call[name, count, few] - few * chunk
            found.setdefault(name, []).append({"chunk": chunk, "call": call})
    return found


def measure(threads: tuple[int, ...] = THREADS) -> dict[str, Any]:
    """What is counted by everything that is there to count with; empty where there is no valgrind."""
    if shutil.which("valgrind") is None:
        return {}
    counts, atomics = instructions(threads)
    found: dict[str, Any] = {"threads": list(threads)}
    found["instructions"], found["atomic"] = (slopes(SIMULATED, threads, each) for each in (counts, atomics))
    if shutil.which("cc") is not None and sys.platform.startswith("linux"):
        found["locks"] = slopes(NATIVE, threads, locks(threads))
    if shutil.which("strace") is not None:
        found["futex"] = slopes(NATIVE, threads, waits(threads))
    return found


def table(found: dict[str, Any]) -> Iterator[str]:
    """Lines of Markdown: instructions for each number of threads, of the other counts the most for any of them."""
    yield (
        "| what | "
        + " | ".join(f"{n} thread{'s' if n > 1 else ''}" for n in found["threads"])
        + (f" | the call itself, {found['threads'][0]} | {found['threads'][-1]} | atomic | locks | futex |")
    )
    yield "|---|" + "---|" * (len(found["threads"]) + 5)
    for name, counts in found["instructions"].items():
        others = []
        for what in ("atomic", "locks", "futex"):
            chunk = max((one["chunk"] for one in found[what][name]), default=0.0) if what in found else None
            others.append("" if chunk is None else f"{max(chunk, 0.0):.2f}")
        yield (
            f"| {name} | "
            + " | ".join(f"{one['chunk']:,.0f}" for one in counts)
            + f" | {counts[0]['call']:,.0f} | {counts[-1]['call']:,.0f} | "
            + " | ".join(others)
            + " |"
        )


def main() -> None:
    if sys.argv[1:]:
        mode, *numbers = sys.argv[1:]
        work = perform_locked if mode == "locked" else perform
        work(SIMULATED if mode == "simulated" else NATIVE, tuple(map(int, numbers)))
        return
    found = measure()
    print("\n".join(table(found)) if found else "there is no valgrind here")


if __name__ == "__main__":
    main()
