"""Annotations that memory does not hold: writing and going through them takes no more for more of them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

CODE = """
import sys
import numpy as np
import zvcore
from zvcore.precomputed import external_sort, write_annotations

def most():
    # Not ru_maxrss: after a vfork that of the process that started this one counts as well.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024

def batches(count, step):
    rng = np.random.default_rng(0)
    for first in range(0, count, step):
        ids = np.arange(first, first + step, dtype=np.uint64)
        points = (rng.random((step, 3)) * 1000).astype("f4")
        yield {"id": ids, "point": points, "size": points[:, 0], "segments": ids // np.uint64(10)}

path, sharding, memory, step, *counts = sys.argv[1], *map(eval, sys.argv[2:])
# What is merged at a time goes with what is sorted at a time.
external_sort.COLUMN_ROWS, external_sort.PIECE_BYTES = memory // 128, memory // 2

def write(path, count):
    write_annotations(
        path, "point", batches(count, step), dimensions=dict.fromkeys("xyz", (1e-9, "m")),
        relationships=["segments"], memory=memory, threads=1, sharding=sharding,
    )
    return most()

write(path + "/warm", counts[0])
small = write(path + "/small", counts[1])
large = write(path + "/large", counts[2])
annotations = zvcore.open(path + "/large")
total = sum(int(len(columns["id"])) for columns in annotations.batches())
print(total, small, large, most())
"""


def measured(path: Path, sharding: str | None, memory: int, step: int, *counts: int) -> list[float]:
    answer = subprocess.run(
        [sys.executable, "-c", CODE, str(path), repr(sharding), str(memory), str(step), *map(str, counts)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    return [*map(float, answer.stdout.split())]


@pytest.mark.slow
def test_writing_and_reading_take_no_more_memory_for_more_annotations(tmp_path: Path) -> None:
    total, small, large, after = measured(tmp_path, "advise", 16 << 20, 50_000, 100_000, 250_000, 1_000_000)
    assert total == 1_000_000
    # Their records, ids and relationships alone are 60 MB, and as many again for each index.
    assert large - small < 40
    # Reading keeps the indexes of shards in a cache that is bounded by itself: 24 bytes for each id.
    assert after - large < 80 and after < 250


@pytest.mark.slow
def test_files_of_their_own_take_no_more_memory_for_more_annotations(tmp_path: Path) -> None:
    total, small, large, after = measured(tmp_path, None, 1 << 20, 5_000, 20_000, 50_000, 200_000)
    assert total == 200_000
    # 15 MB are written, four times as much as of the smaller set.
    assert large - small < 2 and after - large < 16
