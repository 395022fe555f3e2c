"""N5 datasets beside tensorstore and z5py: whole, and a block at a time. All have two threads.

pytest bench/test_n5.py --benchmark-enable
python -m bench.test_n5
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import z5py

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.scale import pick

if TYPE_CHECKING:
    from collections.abc import Callable

THREADS = 2
SHAPE = (pick(256, 64),) * 3
BLOCK = (pick(64, 16),) * 3
# How each tool is asked for the same compression.
CODECS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "raw": ({"type": "raw"}, {"compression": "raw"}),
    "gzip": ({"type": "gzip", "level": 5, "useZlib": False}, {"compression": "gzip", "level": 5}),
    "zstd": ({"type": "zstd", "level": 3}, {"compression": "zstd", "level": 3}),
    "blosc": (
        {"type": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0},
        {"compression": "blosc", "codec": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0, "nthreads": 1},
    ),
    "bzip2": ({"type": "bzip2", "blockSize": 5}, {"compression": "bzip2", "level": 5}),
    "xz": ({"type": "xz", "preset": 1}, {"compression": "xz", "level": 1}),
}


@lru_cache(maxsize=1)
def folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="zvcore-bench-n5-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@lru_cache(maxsize=1)
def values() -> Any:
    # It repeats at a distance that no codec sees.
    return np.tile(volume("microscopy", tuple(n // 2 for n in SHAPE)), (2, 2, 2))


def open_tensorstore(path: Path, compression: dict[str, Any] | None = None) -> Any:
    spec: dict[str, Any] = {
        "driver": "n5",
        "kvstore": {"driver": "file", "path": str(path)},
        "recheck_cached_data": True,
    }
    if compression is not None:
        spec["metadata"] = {
            "dimensions": SHAPE, "blockSize": BLOCK, "dataType": "uint16", "compression": compression,
        }  # fmt: skip
        spec["create"] = True
    context = tensorstore.Context(
        {"data_copy_concurrency": {"limit": THREADS}, "file_io_concurrency": {"limit": THREADS},
         "cache_pool": {"total_bytes_limit": 0}}
    )  # fmt: skip
    return tensorstore.open(spec, context=context).result()


@lru_cache(maxsize=8)
def written(codec: str) -> Path:
    """A container with one dataset, which all tools read."""
    container = zvcore.open(folder() / f"{codec}.n5", "w", format="n5", order="C")
    compression = CODECS[codec][0]
    container.create_dataset("d", shape=SHAPE, dtype="uint16", chunks=BLOCK, codec=compression)[...] = values()
    return folder() / f"{codec}.n5"


def readers(codec: str) -> dict[str, Callable[[], Any]]:
    path = written(codec)
    ours = zvcore.open(path / "d", order="C")
    theirs = open_tensorstore(path / "d").T
    z5 = z5py.File(str(path), mode="r")["d"]
    z5.n_threads = THREADS
    functions: dict[str, Callable[[], Any]] = {
        "zvcore": lambda: ours.read(..., threads=THREADS),
        "tensorstore": lambda: theirs.read().result(),
        "z5py": lambda: z5[...],
    }
    for function in functions.values():
        np.testing.assert_array_equal(function(), values())
    return functions


def writers(codec: str) -> dict[str, Callable[[], Any]]:
    data = values()
    container = zvcore.open(folder() / f"w-{codec}.n5", "w", format="n5", order="C")
    ours = container.create_dataset("zvcore", shape=SHAPE, dtype="uint16", chunks=BLOCK, codec=CODECS[codec][0])
    theirs = open_tensorstore(folder() / f"w-{codec}.n5/tensorstore", CODECS[codec][0]).T
    z5 = z5py.File(str(folder() / f"w-{codec}.n5"), mode="a").create_dataset(
        "z5py", shape=SHAPE, chunks=BLOCK, dtype="uint16", n_threads=THREADS, **CODECS[codec][1]
    )
    functions: dict[str, Callable[[], Any]] = {
        "zvcore": lambda: ours.write(..., data, threads=THREADS),
        "tensorstore": lambda: theirs.write(data).result(),
        "z5py": lambda: z5.__setitem__(slice(None), data),
    }
    for function in functions.values():
        function()
    for name in functions:
        again = zvcore.open(folder() / f"w-{codec}.n5/{name}", order="C")
        np.testing.assert_array_equal(again[...], data)
    return functions


def block_readers(codec: str) -> dict[str, Callable[[], Any]]:
    """One block, and the compression alone on the same bytes."""
    path = written(codec)
    ours = zvcore.open(path / "d", order="C")
    theirs = open_tensorstore(path / "d").T
    z5 = z5py.File(str(path), mode="r")["d"]
    side = BLOCK[0]
    region = (slice(side, 2 * side), slice(2 * side, 3 * side), slice(0, side))
    payload = ours.read_encoded((1, 2, 0))[16:]
    out = bytearray(int(np.prod(BLOCK)) * 2)
    functions: dict[str, Callable[[], Any]] = {
        "zvcore": lambda: ours[region],
        "tensorstore": lambda: theirs[region].read().result(),
        "z5py": lambda: z5[region],
        "decoding alone": lambda: ours.codec.decode(payload, out=out),
        "read_block": lambda: ours.read_block((1, 2, 0)),
    }
    for name, function in functions.items():
        if name != "decoding alone":
            np.testing.assert_array_equal(function(), values()[region])
    return functions


PEERS = ("zvcore", "tensorstore", "z5py")
CONTESTS = [
    *(Contest(f"read whole, {codec}", PEERS, partial(readers, codec)) for codec in CODECS),
    *(Contest(f"write whole, {codec}", PEERS, partial(writers, codec), writes=True) for codec in CODECS),
    *(
        Contest(f"read a block, {codec}", (*PEERS, "decoding alone", "read_block"), partial(block_readers, codec))
        for codec in CODECS
    ),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_n5(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
