"""Conversions beside tensorstore, zarr-python with z5py, and copying files. All have two threads.

N5 (gzip) to sharded Zarr v3 (zstd), decoded and re-encoded: a tensorstore script that reads and writes whole shards,
two of them under way at a time, and a script of z5py and zarr-python. Conversions that copy encoded chunks as they are,
beside copying the same files with shutil.

pytest bench/test_convert.py --benchmark-enable
python -m bench.test_convert
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import z5py
import zarr

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.scale import pick

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS = 2
SIZE = pick(512, 64)
CHUNK = pick(64, 16)
SHARD = pick(256, 32)
LEVEL = 3


@lru_cache(maxsize=1)
def folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="zvcore-bench-convert-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@lru_cache(maxsize=1)
def source() -> Path:
    """A container with a dataset `raw`."""
    path = folder() / "source.n5"
    # It repeats at a distance that no codec sees.
    values = np.tile(volume("em", (SIZE // 2,) * 3), (2, 2, 2))
    group = zvcore.open(path, "w", format="n5")
    array = group.create_dataset(
        "raw", shape=values.shape, dtype="uint8", chunks=(CHUNK,) * 3, codec={"name": "gzip", "level": 5}
    )
    array[...] = values.T
    return path


@lru_cache(maxsize=1)
def sharded() -> Path:
    path = folder() / "sharded.zarr"
    convert(source() / "raw", path, shards=(SHARD,) * 3)
    return path


def convert(src: Path, dst: Path, **options: Any) -> Any:
    shutil.rmtree(dst, ignore_errors=True)
    return zvcore.convert(src, dst, **{"format": "zarr3", "threads": THREADS, **options})


def boxes() -> list[tuple[slice, ...]]:
    steps = range(0, SIZE, SHARD)
    return [tuple(slice(n, n + SHARD) for n in (z, y, x)) for z in steps for y in steps for x in steps]


def with_tensorstore(dst: Path) -> None:
    shutil.rmtree(dst, ignore_errors=True)
    context = tensorstore.Context(
        {"data_copy_concurrency": {"limit": THREADS}, "file_io_concurrency": {"limit": THREADS}}
    )
    src = tensorstore.open(
        {"driver": "n5", "kvstore": {"driver": "file", "path": str(source() / "raw")}}, context=context
    ).result()
    sharding = {
        "chunk_shape": [CHUNK] * 3,
        "codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": LEVEL}}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
    }
    metadata = {
        "shape": [SIZE] * 3,
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [SHARD] * 3}},
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
    }
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str(dst), "file_io_sync": False},
        "metadata": metadata,
        "create": True,
    }
    out = tensorstore.open(spec, context=context).result()
    turned = src.T

    def copy(box: tuple[slice, ...]) -> None:
        out[box].write(turned[box].read().result()).result()

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(copy, boxes()))


def with_zarr_and_z5py(dst: Path) -> None:
    shutil.rmtree(dst, ignore_errors=True)
    src = z5py.File(str(source()), use_zarr_format=False)["raw"]
    src.n_threads = THREADS
    with zarr.config.set({"threading.max_workers": THREADS, "async.concurrency": THREADS}):
        out = zarr.create_array(
            dst, shape=(SIZE,) * 3, shards=(SHARD,) * 3, chunks=(CHUNK,) * 3, dtype="uint8",
            compressors=zarr.codecs.ZstdCodec(level=LEVEL),
        )  # fmt: skip
        for box in boxes():
            out[box] = src[box]


def copy_files(src: Path, dst: Path) -> None:
    shutil.rmtree(dst, ignore_errors=True)
    shutil.copytree(src, dst)


def recompressed() -> dict[str, Callable[[], Any]]:
    out = folder()
    source()
    zstd = {"name": "zstd", "level": LEVEL}
    return {
        "zvcore": lambda: convert(source() / "raw", out / "ours", shards=(SHARD,) * 3, codec=zstd),
        "tensorstore": lambda: with_tensorstore(out / "tensorstore"),
        "zarr+z5py": lambda: with_zarr_and_z5py(out / "zarr"),
    }


def copied_into_shards() -> dict[str, Callable[[], Any]]:
    out = folder()
    source()
    return {
        "zvcore": lambda: convert(source() / "raw", out / "ours", shards=(SHARD,) * 3),
        "files": lambda: copy_files(source() / "raw", out / "files"),
    }


def copied_into_files() -> dict[str, Callable[[], Any]]:
    out = folder()
    source()
    return {
        "zvcore": lambda: convert(source() / "raw", out / "ours"),
        "files": lambda: copy_files(source() / "raw", out / "files"),
    }


def resharded() -> dict[str, Callable[[], Any]]:
    out = folder()
    return {
        "zvcore": lambda: convert(sharded(), out / "ours", shards=(SIZE,) * 3),
        "files": lambda: copy_files(sharded(), out / "files"),
    }


CONTESTS = [
    Contest("N5 gzip to sharded Zarr zstd", ("zvcore", "tensorstore", "zarr+z5py"), recompressed, writes=True),
    Contest("N5 gzip to sharded Zarr gzip, as it is", ("zvcore", "files"), copied_into_shards, writes=True),
    Contest("N5 gzip to Zarr gzip, as it is", ("zvcore", "files"), copied_into_files, writes=True),
    Contest("Zarr shards to larger ones, as they are", ("zvcore", "files"), resharded, writes=True),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_convert(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
