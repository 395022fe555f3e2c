"""Conversions beside tensorstore, zarr-python with z5py, and copying files. All have two threads.

N5 (gzip) to sharded Zarr v3 (zstd), decoded and re-encoded: a tensorstore script that reads and writes whole shards,
two of them under way at a time, and a script of z5py and zarr-python. Conversions that copy encoded chunks as they are,
beside copying the same files with shutil. Files of other formats to Zarr v3 and back, beside scripts of their libraries
and tensorstore that have all values in memory.

pytest bench/test_convert.py --benchmark-enable
python -m bench.test_convert
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest
import tensorstore
import tifffile
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


def convert(src: Path | str, dst: Path, **options: Any) -> Any:
    shutil.rmtree(dst, ignore_errors=True)
    return zvcore.convert(src, dst, **{"format": "zarr3", "threads": THREADS, **options})


@lru_cache(maxsize=1)
def microscopy() -> dict[str, Path]:
    """Files of one volume of 16 bits, by what reads them."""
    side = SIZE // 2
    values = np.tile(volume("em", (side // 2,) * 3), (2, 2, 2)).astype("u2") * 16
    found = {"TIFF": folder() / "volume.tif", "HDF5": folder() / "volume.h5", "Zarr": folder() / "volume.zarr"}
    tifffile.imwrite(found["TIFF"], values)
    with h5py.File(found["HDF5"], "w") as file:
        file.create_dataset("raw", data=values, chunks=(CHUNK,) * 3, compression="gzip")
    array = zarr.create_array(
        found["Zarr"], shape=values.shape, chunks=(CHUNK,) * 3, dtype="u2", compressors=zarr.codecs.ZstdCodec(level=1)
    )
    array[...] = values
    return found


def to_zarr(values: Any) -> None:
    """With tensorstore, from memory."""
    path = folder() / "tensorstore"
    shutil.rmtree(path, ignore_errors=True)
    metadata = {
        "shape": values.shape,
        "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [CHUNK] * 3}},
        "codecs": [{"name": "bytes"}, {"name": "zstd", "configuration": {"level": LEVEL}}],
    }
    kvstore = {"driver": "file", "path": str(path), "file_io_sync": False}
    spec = {"driver": "zarr3", "kvstore": kvstore, "metadata": metadata, "create": True}
    tensorstore.open(spec, context=two_threads()).result().write(values).result()


def from_hdf5() -> None:
    with h5py.File(microscopy()["HDF5"]) as file:
        to_zarr(file["raw"][...])


def to_tiff() -> None:
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(microscopy()["Zarr"])}}
    values = tensorstore.open(spec, context=two_threads()).result().read().result()
    tifffile.imwrite(folder() / "theirs.tif", values)


def two_threads() -> Any:
    return tensorstore.Context({"data_copy_concurrency": {"limit": THREADS}, "file_io_concurrency": {"limit": THREADS}})


def boxes() -> list[tuple[slice, ...]]:
    steps = range(0, SIZE, SHARD)
    return [tuple(slice(n, n + SHARD) for n in (z, y, x)) for z in steps for y in steps for x in steps]


def with_tensorstore(dst: Path) -> None:
    shutil.rmtree(dst, ignore_errors=True)
    context = two_threads()
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


def of_other_formats(name: str) -> dict[str, Callable[[], Any]]:
    given = microscopy()
    ours, zstd = folder() / "ours", {"name": "zstd", "level": LEVEL}
    if name == "TIFF":
        return {
            "zvcore": lambda: convert(given["TIFF"], ours, chunks=(CHUNK,) * 3, codec=zstd),
            "tifffile+tensorstore": lambda: to_zarr(tifffile.imread(given["TIFF"])),
        }
    if name == "HDF5":
        return {
            "zvcore": lambda: convert(f"{given['HDF5']}:/raw", ours, chunks=(CHUNK,) * 3, codec=zstd),
            "h5py+tensorstore": from_hdf5,
        }
    file = folder() / "ours.tif"

    def back() -> None:
        file.unlink(missing_ok=True)
        zvcore.convert(given["Zarr"], file, threads=THREADS)

    return {"zvcore": back, "tensorstore+tifffile": to_tiff}


CONTESTS = [
    Contest("N5 gzip to sharded Zarr zstd", ("zvcore", "tensorstore", "zarr+z5py"), recompressed, writes=True),
    Contest("N5 gzip to sharded Zarr gzip, as it is", ("zvcore", "files"), copied_into_shards, writes=True),
    Contest("N5 gzip to Zarr gzip, as it is", ("zvcore", "files"), copied_into_files, writes=True),
    Contest("Zarr shards to larger ones, as they are", ("zvcore", "files"), resharded, writes=True),
    Contest("TIFF to Zarr zstd", ("zvcore", "tifffile+tensorstore"), partial(of_other_formats, "TIFF"), writes=True),
    Contest("HDF5 gzip to Zarr zstd", ("zvcore", "h5py+tensorstore"), partial(of_other_formats, "HDF5"), writes=True),
    Contest("Zarr zstd to TIFF", ("zvcore", "tensorstore+tifffile"), partial(of_other_formats, "Zarr"), writes=True),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_convert(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
