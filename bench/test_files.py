"""Files of other formats to sharded Zarr v3, beside scripts of the libraries that read them and zarr-python.

A tiled OME-TIFF (zlib, with and without the predictor), decoded and encoded again as zstd; the same with its tiles
copied as they are; an HDF5 data set (gzip) copied as it is. All have two threads; the scripts write whole shards.

pytest bench/test_files.py --benchmark-enable
python -m bench.test_files
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.pipelines import within
from bench.scale import pick

if TYPE_CHECKING:
    from collections.abc import Callable


def _optional(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:  # the contests below take no part
        return None


h5py, tifffile = _optional("h5py"), _optional("tifffile")

THREADS = 2
PLANES = pick(64, 4)
SIZE = pick(1024, 64)
TILE = pick(256, 32)
SHARD = (pick(16, 2), SIZE, SIZE)
LEVEL = 3
BY_ZARR = ("zarrs", "zarr")


@cache
def folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix="zvcore-bench-files-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def values() -> np.ndarray[Any, Any]:
    part = volume("microscopy", (PLANES, SIZE // 4, SIZE // 4))
    return np.tile(part, (1, 4, 4))


@cache
def tiff(predictor: bool) -> Path:
    path = folder() / f"predictor-{predictor}.ome.tif"
    tifffile.imwrite(
        path, values(), tile=(TILE, TILE), compression="zlib", predictor=predictor, photometric="minisblack",
        metadata={"axes": "ZYX", "PhysicalSizeX": 0.2, "PhysicalSizeY": 0.2, "PhysicalSizeZ": 1.0},
    )  # fmt: skip
    return path


@cache
def hdf5() -> Path:
    path = folder() / "source.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values(), chunks=(1, TILE, TILE), compression="gzip", compression_opts=4)
    return path


def convert(source: str | Path, **options: Any) -> None:
    out = folder() / "ours"
    shutil.rmtree(out, ignore_errors=True)
    zvcore.convert(
        source, out, format="zarr3", chunks=(1, TILE, TILE), shards=SHARD, threads=THREADS, ome=False, **options
    )


def write(read: Callable[[slice], Any], shape: tuple[int, ...], dtype: Any, codec: Any) -> None:
    out = folder() / "theirs"
    shutil.rmtree(out, ignore_errors=True)
    with zarr.config.set({"threading.max_workers": THREADS, "async.concurrency": THREADS}):
        array = zarr.create_array(
            out, shape=shape, dtype=dtype, chunks=(1, TILE, TILE), shards=SHARD, compressors=codec
        )
        for start in range(0, shape[0], SHARD[0]):
            planes = slice(start, min(start + SHARD[0], shape[0]))
            array[planes] = read(planes)


def with_tifffile(source: Path) -> None:
    with tifffile.TiffFile(source) as file:
        series = file.series[0]

        def read(planes: slice) -> Any:
            return series.asarray(key=planes, maxworkers=THREADS)

        write(read, series.shape, series.dtype, zarr.codecs.ZstdCodec(level=LEVEL))


def with_h5py(source: Path) -> None:
    with h5py.File(source) as file:
        data = file["x"]
        write(data.__getitem__, data.shape, data.dtype, zarr.codecs.GzipCodec(level=4))


def of_tiff(predictor: bool, codec: Any) -> dict[str, Callable[[], Any]]:
    source = tiff(predictor)
    theirs = {f"tifffile+{who}": within(who, partial(with_tifffile, source)) for who in BY_ZARR}
    return {"zvcore": partial(convert, source, codec=codec), **theirs}


def of_hdf5() -> dict[str, Callable[[], Any]]:
    source = hdf5()
    theirs = {f"h5py+{who}": within(who, partial(with_h5py, source)) for who in BY_ZARR}
    return {"zvcore": partial(convert, f"{source}:/x"), **theirs}


def peers(reader: str) -> tuple[str, ...]:
    return ("zvcore", *(f"{reader}+{who}" for who in BY_ZARR))


ZSTD = {"name": "zstd", "level": LEVEL}
ZLIB = "numcodecs.zlib"
CONTESTS = [
    *(
        Contest(name, peers("tifffile"), partial(of_tiff, predictor, codec), writes=True)
        for name, predictor, codec in (
            ("OME-TIFF zlib to sharded Zarr zstd", False, ZSTD),
            ("OME-TIFF predictor to sharded Zarr zstd", True, ZSTD),
            ("OME-TIFF zlib to sharded Zarr, as it is", False, ZLIB),
        )
    ),
    Contest("HDF5 gzip to sharded Zarr, as it is", peers("h5py"), of_hdf5, writes=True),
]
if None in (h5py, tifffile):
    CONTESTS.clear()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_files(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
