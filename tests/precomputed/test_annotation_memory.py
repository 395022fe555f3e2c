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
from zvcore.precomputed import write_annotations

def most():
    # Not ru_maxrss: after a vfork that of the process that started this one counts as well.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024

def batches(count, step=50_000):
    rng = np.random.default_rng(0)
    for first in range(0, count, step):
        ids = np.arange(first, first + step, dtype=np.uint64)
        points = (rng.random((step, 3)) * 1000).astype("f4")
        yield {"id": ids, "point": points, "size": points[:, 0], "segments": ids // np.uint64(10)}

def write(path, count):
    write_annotations(
        path, "point", batches(count), dimensions=dict.fromkeys("xyz", (1e-9, "m")), relationships=["segments"],
        memory=16 << 20, threads=1,
    )
    return most()

path = sys.argv[1]
write(path + "/warm", 100_000)
small = write(path + "/small", 250_000)
large = write(path + "/large", 1_000_000)
annotations = zvcore.open(path + "/large")
total = sum(int(len(columns["id"])) for columns in annotations.batches())
print(total, small, large, most())
"""


@pytest.mark.slow
def test_writing_and_reading_take_no_more_memory_for_more_annotations(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert answer.returncode == 0, answer.stderr
    total, small, large, after = map(float, answer.stdout.split())
    assert total == 1_000_000
    # Their records, ids and relationships alone are 60 MB, and as many again for each index.
    assert large - small < 40
    # Reading keeps the indexes of shards in a cache that is bounded by itself: 24 bytes for each id.
    assert after - large < 80 and after < 250
