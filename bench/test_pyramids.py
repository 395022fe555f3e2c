"""Coarser levels beside tensorstore, which makes them by its `downsample` driver. Both have two threads.

A sharded Zarr v3 array becomes an OME-Zarr whose finest level is the array as it is stored: electron microscopy of 8
and of 16 bits (means), and labels of 64 bits (the most frequent value).

    pytest bench/test_pyramids.py --benchmark-enable
    python -m bench.test_pyramids [word]
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import zarr

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.scale import pick
from zvcore.converting.coarse import downsampled

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

THREADS = 2
SIDE = pick(512, 64)
SHAPE = (SIDE // 2, SIDE, SIDE)
CHUNK = SIDE // 8
SHARD = SIDE // 2
EFFORT = 1
KINDS = {"8 bits": ("em", "u1", "mean"), "16 bits": ("em", "u2", "mean"), "labels": ("labels64", "u8", "mode")}
# (shape, data, type, factors, method)
IMAGE = (4 * SIDE, 4 * SIDE)
SHAPED: dict[str, tuple[tuple[int, ...], str, str, tuple[int, ...], Any]] = {
    "an image": (IMAGE, "em", "u1", (2, 2), "mean"),
    "an image by three": (IMAGE, "em", "u1", (3, 3), "mean"),
    "an image in colours": ((*IMAGE, 3), "em", "u1", (2, 2, 1), "mean"),
    "an image in colours of 16 bits": ((*IMAGE, 3), "em", "u2", (2, 2, 1), "mean"),
    "a series whose moments are neighbours": ((SIDE // 8,) * 3 + (32,), "em", "f4", (2, 2, 2, 1), "mean"),
    "labels of planes": ((16, 2 * SIDE, 2 * SIDE), "labels64", "u8", (1, 2, 2), "mode"),
}


@cache
def folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="zvcore-bench-pyramids-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def values(kind: str) -> npt.NDArray[Any]:
    """They repeat after 128, which no codec of these chunks can see."""
    data, dtype, _ = KINDS[kind]
    tile = min(SIDE // 2, 128)
    one = volume(data, (tile,) * 3).astype(dtype) * np.array(16 if dtype == "u2" else 1, dtype)
    return np.ascontiguousarray(np.tile(one, [extent // tile for extent in SHAPE]))


@cache
def source(kind: str) -> Path:
    path = folder() / f"{kind}.zarr"
    array = zarr.create_array(
        path, shape=SHAPE, chunks=(CHUNK,) * 3, shards=(SHARD,) * 3, dtype=KINDS[kind][1],
        compressors=zarr.codecs.ZstdCodec(level=EFFORT),
    )  # fmt: skip
    array[...] = values(kind)
    return path


def ours(kind: str, levels: int) -> None:
    path = folder() / "ours"
    shutil.rmtree(path, ignore_errors=True)
    zvcore.convert(source(kind), path, format="zarr3", levels=levels, method=KINDS[kind][2], threads=THREADS)


def with_tensorstore(kind: str, levels: int) -> None:
    """A copy of the files, and each level made of the one before it, shard by shard."""
    path = folder() / "tensorstore"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(source(kind), path / "0")
    context = tensorstore.Context(
        {"data_copy_concurrency": {"limit": THREADS}, "file_io_concurrency": {"limit": THREADS}}
    )
    for level in range(1, levels + 1):
        finer = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path / str(level - 1))}}
        view = {"driver": "downsample", "base": finer, "downsample_factors": [2] * 3}
        coarser = tensorstore.open({**view, "downsample_method": KINDS[kind][2]}, context=context, read=True).result()
        target = tensorstore.open(_level(path / str(level), coarser), context=context).result()
        steps = [range(0, extent, SHARD) for extent in coarser.shape]
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(partial(_copy, coarser, target), product(*steps)))


def _level(path: Path, shown: Any) -> dict[str, Any]:
    sharding = {
        "chunk_shape": [CHUNK] * 3,
        "codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": EFFORT}}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
    }
    metadata = {
        "shape": shown.shape,
        "data_type": shown.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [SHARD] * 3}},
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
    }
    kvstore = {"driver": "file", "path": str(path), "file_io_sync": False}
    return {"driver": "zarr3", "kvstore": kvstore, "metadata": metadata, "create": True}


def _copy(source: Any, target: Any, corner: tuple[int, ...]) -> None:
    box = tuple(slice(at, min(at + SHARD, extent)) for at, extent in zip(corner, source.shape, strict=True))
    target[box].write(source[box].read().result()).result()


def pyramid(kind: str, levels: int) -> dict[str, Callable[[], Any]]:
    source(kind)
    return {"zvcore": partial(ours, kind, levels), "tensorstore": partial(with_tensorstore, kind, levels)}


def in_memory(kind: str) -> dict[str, Callable[[], Any]]:
    """Values of other shapes, without the files around them."""
    shape, data, dtype, factors, method = SHAPED[kind]
    tile = volume(data, (min(SIDE // 2, 128),) * 3).reshape(-1)
    fine = np.resize(tile, shape).astype(dtype)
    array = tensorstore.array(fine, context=tensorstore.Context({"data_copy_concurrency": {"limit": THREADS}}))
    view = tensorstore.downsample(array, factors, method)
    np.testing.assert_allclose(downsampled(fine, factors, method), view.read().result(), rtol=1e-6)
    return {
        "zvcore": lambda: downsampled(fine, factors, method, THREADS),
        "tensorstore": lambda: view.read().result(),
    }


CONTESTS = [
    *(
        Contest(f"{levels} coarser of {kind}", ("zvcore", "tensorstore"), partial(pyramid, kind, levels), writes=True)
        for kind in KINDS
        for levels in (1, 3)
    ),
    *(Contest(f"coarser values of {kind}", ("zvcore", "tensorstore"), partial(in_memory, kind)) for kind in SHAPED),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
