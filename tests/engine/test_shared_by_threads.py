"""What the threads of a batch share: no lock of theirs is taken for every chunk, however many threads there are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COUNTER = Path(__file__).with_name("locks_taken.c")

PROGRAM = """
import ctypes, json, sys, time
import numpy as np
import zvcore

taken = ctypes.CDLL(None).locks_taken
taken.restype = ctypes.c_long
folder, found = sys.argv[1], {}
for codec in (None, "zstd"):
    for side in (32, 128):
        values = np.random.default_rng(0).integers(0, 4, (side,) * 3, dtype="u1")
        array = zvcore.create(f"{folder}/{codec}-{side}", format="zarr3", shape=values.shape, dtype="u1",
                              chunks=(8,) * 3, shards=(side,) * 3, codec=codec)
        array.write(..., values, threads=1)
        time.sleep(0.1)     # indexes of files that are just being written are not kept
        room = np.empty_like(values)
        for threads in (1, 2, 16):
            for name, work in (("read", lambda: array.read(..., out=room, threads=threads)),
                               ("write", lambda: array.write(..., values, threads=threads))):
                work()
                least = None
                for _ in range(3):
                    before = taken()
                    work()
                    least = min(least or 10**9, taken() - before)
                found[f"{name} {codec} {threads} {side}"] = least
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def locks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How often locks were taken, by what was done: the reading or writing of 64 or 4096 chunks by so many threads."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler and LD_PRELOAD")
    folder: Path = tmp_path_factory.mktemp("locks")
    library = folder / "count.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, COUNTER, "-ldl"], check=True)
    preloaded = " ".join(filter(None, [os.environ.get("LD_PRELOAD"), str(library)]))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder], env={**os.environ, "LD_PRELOAD": preloaded}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


# What a thread may do for a chunk with locks that only those who write the same shard take.
OF_THE_SHARD = {"read": 0, "write": 3}


@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("what", ["read None", "read zstd", "write None", "write zstd"])
def test_no_lock_of_all_threads_is_taken_for_a_chunk(locks: dict[str, int], what: str, threads: int) -> None:
    few, many = locks[f"{what} {threads} 32"], locks[f"{what} {threads} 128"]
    more = 4096 - 64
    assert many - few < OF_THE_SHARD[what.split()[0]] * more + more / 16
