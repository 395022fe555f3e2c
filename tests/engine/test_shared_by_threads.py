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


# Files that replace others, on a disk. What waits for the disk goes on waiting: whoever works on that takes locks, too.
REPLACING = """
import ctypes, json, sys
import numpy as np
import zvcore
from zvcore.stores import late_writes

taken = ctypes.CDLL(None).locks_taken
taken.restype = ctypes.c_long
late_writes.rest(True)
folder, found = sys.argv[1], {}
for threads in (1, 2, 16):
    for side in (4, 8):
        array = zvcore.create(f"{folder}/{threads}-{side}", format="n5", shape=(side,) * 3, dtype="u1",
                              chunks=(1,) * 3, codec=None)
        array.write(..., np.uint8(1), threads=threads)
        array.write(..., np.uint8(2), threads=threads)
        least = None
        for value in range(3):
            before = taken()
            array.write(..., np.uint8(value + 3), threads=threads)
            least = min(least or 10**9, taken() - before)
            late_writes.settle()
        found[f"{threads} {side}"] = least
late_writes.rest(False)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that counts locks."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler and LD_PRELOAD")
    library: Path = tmp_path_factory.mktemp("locks") / "count.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, COUNTER, "-ldl"], check=True)
    return library


def counted(counter: Path, program: str, folder: Path) -> dict[str, int]:
    preloaded = " ".join(filter(None, [os.environ.get("LD_PRELOAD"), str(counter)]))
    done = subprocess.run(
        [sys.executable, "-c", program, folder], env={**os.environ, "LD_PRELOAD": preloaded}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def locks(counter: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How often locks were taken, by what was done: the reading or writing of 64 or 4096 chunks by so many threads."""
    return counted(counter, PROGRAM, tmp_path_factory.mktemp("arrays"))


# What a thread may do for a chunk with locks that only those who write the same shard take.
OF_THE_SHARD = {"read": 0, "write": 3}


@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("what", ["read None", "read zstd", "write None", "write zstd"])
def test_no_lock_of_all_threads_is_taken_for_a_chunk(locks: dict[str, int], what: str, threads: int) -> None:
    few, many = locks[f"{what} {threads} 32"], locks[f"{what} {threads} 128"]
    more = 4096 - 64
    assert many - few < OF_THE_SHARD[what.split()[0]] * more + more / 16


def test_no_lock_is_taken_for_a_file_that_replaces_another(counter: Path, disk_path: Path) -> None:
    found = counted(counter, REPLACING, disk_path)
    for threads in (1, 2, 16):
        assert found[f"{threads} 8"] - found[f"{threads} 4"] < (512 - 64) / 16
