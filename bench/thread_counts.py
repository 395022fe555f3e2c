"""What a chunk costs in instructions, however many threads share the work.

    python -m bench.thread_counts            with 1, 2, 4, 8 and 16 threads, by callgrind: one processor will do

Callgrind lets one thread run at a time, so what threads lose by waiting for each other does not show here. What each
chunk costs them does: taking it from the others, and whatever is looked up again for each thread.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["THREADS", "count"]

THREADS = (1, 2, 4, 8, 16)
SIDE, INNER, TIMES = 64, 8, 8
CHUNKS = (SIDE // INNER) ** 3


def read(array: Any, room: Any, threads: int) -> None:
    array.read(..., out=room, threads=threads)


def write(array: Any, values: Any, threads: int) -> None:
    array.write(..., values, threads=threads)


def cases(folder: Path) -> dict[str, Callable[[int], Any]]:
    import zvcore

    values = np.random.default_rng(0).integers(0, 4, (SIDE,) * 3, dtype="u1")
    found: dict[str, Callable[[int], Any]] = {}
    for codec in (None, "zstd"):
        array = zvcore.create(
            folder / f"{codec}", format="zarr3", shape=values.shape, dtype="u1", chunks=(INNER,) * 3,
            shards=(SIDE // 2,) * 3, codec=codec,
        )  # fmt: skip
        array[...] = values
        found[f"read a chunk, {codec or 'raw'}"] = partial(read, array, np.empty_like(values))
        found[f"write a chunk, {codec or 'raw'}"] = partial(write, array, values)
    return found


def counted(threads: int) -> None:
    """What runs under callgrind."""
    with tempfile.TemporaryDirectory(prefix="zvcore-bench-") as folder:
        for _ in range(2):  # what only the first dump counts
            os.getppid()
            os.getpgrp()
        runs = cases(Path(folder))
        time.sleep(0.3)  # indexes of files that are just being written are not kept
        for run in runs.values():
            run(threads)
            os.getppid()
            for _ in range(TIMES):
                run(threads)
            os.getpgrp()


def count(threads: int) -> dict[str, float]:
    """Instructions per chunk of each case."""
    with tempfile.TemporaryDirectory(prefix="zvcore-bench-") as folder:
        names = [*cases(Path(folder) / "names")]
        command = ["valgrind", "-q", "--tool=callgrind", "--zero-before=getppid", "--dump-after=getpgrp"]
        command += [f"--callgrind-out-file={folder}/out", sys.executable, "-m", "bench.thread_counts", str(threads)]
        subprocess.run(command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, check=True, capture_output=True)
        found = {}
        for number, name in enumerate(names, 3):
            totals = re.search(r"^summary: (\d+)", (Path(folder) / f"out.{number}").read_text(), re.MULTILINE)
            assert totals is not None
            found[name] = int(totals[1]) / TIMES / CHUNKS
        return found


def main() -> None:
    counts = {threads: count(threads) for threads in THREADS}
    print(f"| instructions, {CHUNKS} chunks of {INNER}^3 | " + " | ".join(f"{n} threads" for n in THREADS) + " |")
    print("|---|" + "---|" * len(THREADS))
    for name in counts[THREADS[0]]:
        print(f"| {name} | " + " | ".join(f"{counts[threads][name]:.0f}" for threads in THREADS) + " |")


if __name__ == "__main__":
    counted(int(sys.argv[1])) if sys.argv[1:] else main()
