"""Memory stays within what was said, whatever the size of the data, of shards, and of pyramids."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import zvcore

MIB = 1 << 20

# Once with a little of the data, so that everything is loaded; then what the whole takes beyond that.
MEASURED = """
import json, resource, sys, shutil
import zvcore

options = json.loads(sys.argv[3])
for _ in range(2):
    zvcore.convert(sys.argv[1] + "-small", sys.argv[2], **options)
    shutil.rmtree(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
report = zvcore.convert(sys.argv[1], sys.argv[2], **options)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"more": (after - before) * 1024, "bound": report.memory, "values": report.values}))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """120 MiB that do not compress."""
    folder = tmp_path_factory.mktemp("memory")
    block = np.random.default_rng(0).integers(0, 256, (64, 256, 256), dtype="uint8")
    for name, depth in (("src-small", 64), ("src", 1920)):
        array = zvcore.create(
            folder / name, format="zarr3", shape=(depth, 256, 256), dtype="uint8", chunks=(32, 32, 32), codec=None
        )
        for z in range(0, depth, 64):
            array[z : z + 64] = block
    return folder / "src"


@pytest.mark.parametrize(
    "options",
    [
        {"format": "zarr3", "shards": [64, 256, 256], "codec": "zstd"},
        {"format": "zarr3", "shards": [2048, 256, 256], "codec": "zstd"},
        {"format": "zarr3", "shards": [2048, 256, 256]},
        {"format": "n5", "chunks": [64, 64, 64]},
        {"format": "precomputed", "shards": [64, 64, 64], "levels": 2},
        {"format": "zarr3", "shards": [2048, 256, 256], "levels": 2, "codec": "zstd"},
    ],
    ids=["shards", "one shard", "one shard, copied", "files", "pyramid", "pyramid in one shard"],
)
def test_memory_is_bounded(options, source, tmp_path):
    memory = 16 * MIB
    answer = subprocess.run(
        [sys.executable, "-c", MEASURED, str(source), str(tmp_path / "dst"), json.dumps({**options, "memory": memory})],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert not answer.returncode, answer.stderr
    found = json.loads(answer.stdout)
    assert found["values"] >= 120 * MIB
    assert found["bound"] <= memory
    # The allocator keeps some of what is given back.
    assert found["more"] <= memory + 8 * MIB
