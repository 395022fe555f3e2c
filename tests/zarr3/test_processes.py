"""Real processes that write one shard at once, die in the middle of it, and need little memory."""

from __future__ import annotations

import os
import random
import signal
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import dask.array
import numpy as np
import pytest
import zarr

import zvcore
from tests import processes
from tests.processes import finish, tell, told
from zvcore import _build

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

# How a process changes the array at sys.argv[1]: by our own API, or through zarr-python with our pipeline.
OPEN = {
    "zvcore": "import zvcore; array = zvcore.open(sys.argv[1], mode='r+')",
    "zarr": """
import zarr, zvcore
zarr.config.set({"codec_pipeline.path": "zvcore.zarr3.CodecPipeline"})
array = zarr.open_array(sys.argv[1], mode="r+")
""",
    "replaced codec": """
import zarr, zvcore.zarr3
from zarr.codecs import GzipCodec
class Other(GzipCodec):
    pass
zarr.registry.register_codec("gzip", Other)
zarr.config.set({"codecs.gzip": "__main__.Other", "codec_pipeline.path": "zvcore.zarr3.CodecPipeline"})
array = zarr.open_array(sys.argv[1], mode="r+")
""",
}


def start(way: str, script: str, *arguments: object) -> subprocess.Popen[str]:
    """A process that has opened the array and waits for a line before it continues."""
    code = f"import sys\n{OPEN[way]}\nprint('ready', flush=True); sys.stdin.readline()\n{textwrap.dedent(script)}"
    process = processes.start(code, *arguments)
    assert told(process) == "ready"
    return process


def make(path: Path, **options: object) -> zvcore.Array:
    return zvcore.create(
        path, format="zarr3", shape=(64, 64), dtype="u4", chunks=(8, 8), shards=(64, 64), **{"codec": "zstd", **options}
    )  # fmt: skip


@pytest.mark.parametrize("way", ["zvcore", "zarr"])
def test_four_processes_in_one_shard_lose_nothing(tmp_path: Path, way: str) -> None:
    make(tmp_path)
    script = """
    number = int(sys.argv[2])
    for step in range(16):
        cell = 4 * step + number
        i, j = cell // 8 * 8, cell % 8 * 8
        array[i : i + 8, j : j + 8] = cell + 1
    """
    writers = [start(way, script, tmp_path, number) for number in range(4)]
    for process in writers:
        tell(process)
    for process in writers:
        finish(process)
    expected = (np.arange(64, dtype="u4") + 1).reshape(8, 8).repeat(8, 0).repeat(8, 1)
    np.testing.assert_array_equal(zvcore.open(tmp_path)[...], expected)
    np.testing.assert_array_equal(zarr.open_array(tmp_path, mode="r")[...], expected)


def test_four_processes_in_one_shard_that_is_not_ours_lose_nothing(tmp_path: Path) -> None:
    """A codec that somebody replaced: zarr-python's own pipeline does the work, under the shard's lock."""
    make(tmp_path, codec="gzip")
    script = """
    assert not zvcore.zarr3.explain(array)["native"]
    number = int(sys.argv[2])
    for step in range(8):
        cell = 4 * step + number
        array[cell // 8 * 8, cell % 8 * 8] = cell + 1
    """
    writers = [start("replaced codec", script, tmp_path, number) for number in range(4)]
    for process in writers:
        tell(process)
    for process in writers:
        finish(process)
    found = zvcore.open(tmp_path)[::8, ::8].ravel()
    np.testing.assert_array_equal(found, [*range(1, 33), *[0] * 32])
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if "zvlock" in name]


@pytest.mark.parametrize(("way", "mode"), [("zvcore", "rewrite"), ("zvcore", "append"), ("zarr", "rewrite")])
def test_a_killed_writer_leaves_shards_old_or_new(tmp_path: Path, way: str, mode: str) -> None:
    """Each write gives the whole array one value: what is found afterwards is one of the values, without a crack."""
    array = make(tmp_path)
    array[...] = 1
    script = f"""
    if {way == "zvcore"}:
        array = zvcore.open(sys.argv[1], mode="r+", write_mode={mode!r})
    value = int(sys.argv[2])
    while True:
        value += 1
        array[...] = value
        print("written", flush=True)
    """
    generator = random.Random(7)
    last = 1
    for _ in range(5):
        process = start(way, script, tmp_path, last)
        try:
            tell(process)
            assert told(process) == "written"
            time.sleep(0.05 * generator.random())
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        found = zvcore.open(tmp_path)[...]
        assert (found == found[0, 0]).all()
        assert found[0, 0] > last
        # Other programs know of no notes: they find a whole index too, whatever was killed.
        np.testing.assert_array_equal(zarr.open_array(tmp_path, mode="r")[...], found)
        last = int(found[0, 0])
    # And nothing stands in the way of the next writer.
    zvcore.open(tmp_path, mode="r+")[...] = 5
    assert (zvcore.open(tmp_path)[...] == 5).all()


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
@pytest.mark.parametrize("chunks", [(32, 32), (20, 28)])
def test_dask_writes_and_reads(tmp_path: Path, scheduler: str, chunks: tuple[int, int]) -> None:
    """Blocks along the shards, and blocks of which several write to one shard at once."""
    array = zvcore.create(
        tmp_path, format="zarr3", shape=(70, 64), dtype="u4", chunks=(8, 8), shards=(32, 32), codec="zstd"
    )
    values = np.arange(70 * 64, dtype="u4").reshape(70, 64)
    dask.array.store(dask.array.from_array(values, chunks=chunks), array, lock=False, scheduler=scheduler)
    lazy = dask.array.from_array(zvcore.open(tmp_path), chunks=array.shards)
    np.testing.assert_array_equal(lazy.compute(scheduler=scheduler), values)
    assert (zvcore.open(tmp_path).to_dask().sum(axis=1).compute(scheduler=scheduler) == values.sum(axis=1)).all()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
@pytest.mark.skipif(_build.kind == "sanitize", reason="the sanitizers' own memory would be counted")
@pytest.mark.parametrize("what", ["write", "shard_writer", "read"])
def test_slab_by_slab_needs_one_shard_and_100_mb(tmp_path: Path, what: str) -> None:
    """An array of 256 MB in shards of 64 MB, in slabs of one shard's depth: all of it at once would be too much."""
    zvcore.create(
        tmp_path, format="zarr3", shape=(16, 1024, 16384), dtype="u1", chunks=(4, 128, 128), shards=(4, 1024, 16384),
        codec=None,
    )  # fmt: skip
    work = {
        "write": "array[i : i + 4] = slab",
        "read": "array.read(slice(i, i + 4), out=slab)",
        "shard_writer": "[w.__setitem__(i + k, slab[k]) for k in range(4)]",
    }[what]
    block = "with array.shard_writer() as w:" if what == "shard_writer" else "if True:"
    script = f"""
    import numpy as np
    slab = np.random.default_rng(0).integers(0, 255, (4, 1024, 16384), np.uint8)
    def peak():
        return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) >> 10
    before = peak()
    {block}
        for i in range(0, 16, 4):
            {work}
    print(peak() - before)
    """
    if what == "read":
        array = zvcore.open(tmp_path, mode="r+")
        for i in range(0, 16, 4):
            array[i : i + 4] = 7
    process = start("zvcore", script, tmp_path)
    tell(process)
    assert int(finish(process)) < 64 + 100
    assert sum(len(files) for _, _, files in os.walk(tmp_path / "c")) == 4
