"""Memory stays within what was said, whatever the size of the data, of shards, and of pyramids."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import zvcore
from tests.processes import PATIENCE

MIB = 1 << 20

# Once with a little of the data, so that everything is loaded; then what the whole takes beyond that. The mark of the
# peak is set back in between. (What getrusage tells is no use: a process inherits it from the one that started it.)
MEASURED = """
import ctypes, gc, json, sys, shutil
import zvcore

def status(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field + ":"))

options = json.loads(sys.argv[3])
for _ in range(2):
    zvcore.convert(sys.argv[1] + "-small", sys.argv[2], **options)
    shutil.rmtree(sys.argv[2])
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = status("VmRSS")
report = zvcore.convert(sys.argv[1], sys.argv[2], **options)
print(json.dumps({"more": status("VmHWM") - before, "bound": report.memory, "values": report.values}))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """64 MiB that do not compress."""
    folder = tmp_path_factory.mktemp("memory")
    block = np.random.default_rng(0).integers(0, 256, (64, 256, 256), dtype="uint8")
    for name, depth in (("src-small", 64), ("src", 1024)):
        array = zvcore.create(
            folder / name, format="zarr3", shape=(depth, 256, 256), dtype="uint8", chunks=(32, 32, 32), codec=None
        )
        for z in range(0, depth, 64):
            array[z : z + 64] = block
    return folder / "src"


VOLUME = {"format": "precomputed", "chunks": [32, 32, 32], "shards": [256, 256, 1024]}
SCATTERED = {
    "@type": "neuroglancer_uint64_sharded_v1", "hash": "murmurhash3_x86_128", "preshift_bits": 0, "minishard_bits": 3,
    "shard_bits": 0, "minishard_index_encoding": "gzip", "data_encoding": "raw",
}  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {"format": "zarr3", "shards": [64, 256, 256], "codec": "zstd"},
        {"format": "zarr3", "shards": [1024, 256, 256], "codec": "zstd"},
        {"format": "zarr3", "shards": [1024, 256, 256], "chunks": [64, 64, 64], "codec": []},
        {"format": "zarr3", "shards": [1024, 256, 256]},
        {**VOLUME, "codec": "gzip"},
        {**VOLUME, "codec": "raw", "chunks": [64, 64, 64]},
        {**VOLUME, "codec": "raw"},
        {**VOLUME, "sharding": SCATTERED, "shards": None},
        {"format": "n5", "chunks": [64, 64, 64]},
        {"format": "precomputed", "shards": [64, 64, 64], "levels": 2},
        {"format": "zarr3", "shards": [1024, 256, 256], "levels": 2, "codec": "zstd"},
        {**VOLUME, "levels": 1},
    ],
    ids=[
        "shards", "one shard", "one shard, raw", "one shard, copied", "one volume's shard", "one, raw", "one, copied",
        "one, hashed", "files", "pyramid", "pyramid in one shard", "pyramid of volumes in one shard each",
    ],
)  # fmt: skip
def test_memory_is_bounded(options, source, tmp_path):
    """A shard, where there is one, is several times as large as what may be in memory."""
    memory = 8 * MIB
    answer = subprocess.run(
        [sys.executable, "-c", MEASURED, str(source), str(tmp_path / "dst"), json.dumps({**options, "memory": memory})],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert not answer.returncode, answer.stderr
    found = json.loads(answer.stdout)
    assert found["values"] >= 64 * MIB
    assert found["bound"] <= memory
    # The allocator keeps some of what is given back.
    assert found["more"] <= memory + 8 * MIB
