"""Zarr v2: whole reads and random chunks beside the other implementations, and migration into shards of v3.

    pytest bench/test_zarr2.py --benchmark-enable            times (small arrays; ZVCORE_BENCH_SIDE=512 for real ones)
    ZVCORE_BENCH_SIDE=512 python -m bench.test_zarr2         ratios, the competitors taking turns

All read the same files. "files" is the limit of migration: the files of the source, copied one by one; "cp -r" is the
same by a program. Where there are many chunks, all have the same bytes, each in a file of its own.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import subprocess
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore
import zarr

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.scale import BRIEF, pick

if TYPE_CHECKING:
    from collections.abc import Callable

SIDE = int(os.environ.get("ZVCORE_BENCH_SIDE", pick("128", "64")))
CHUNK = min(64, SIDE // 2)
RANDOM = 32
# Where there are many chunks: how many of each edge length lie along the first axis, with 8 and 8 along the others. A
# shard takes 4.
MANY = {64: pick(4 if BRIEF else 32, 1), 128: pick(1 if BRIEF else 4, 1)}
FOLDER = Path(tempfile.mkdtemp(prefix="zvcore-bench-", dir=os.environ.get("ZVCORE_BENCH_DIR")))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

# (compressor, filters) by name; tensorstore knows no filters.
CODECS: dict[str, tuple[dict[str, Any] | None, list[dict[str, Any]] | None]] = {
    "raw": (None, None),
    "blosc": ({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}, None),
    "zstd": ({"id": "zstd", "level": 1}, None),
    "gzip": ({"id": "gzip", "level": 5}, None),
    "delta": ({"id": "zstd", "level": 1}, [{"id": "delta", "dtype": "<u2", "astype": "<u2"}]),
}
# Chunks of so many blocks that several threads can decode one.
LARGE = {
    f"blosc {cname}": ({"id": "blosc", "cname": cname, "clevel": 5, "shuffle": 1, "blocksize": 0}, None)
    for cname in ("lz4", "zstd")
}
PIPELINES = {"zarr": "zarr.core.codec_pipeline.BatchedCodecPipeline", "zarr+zvcore": "zvcore.zarr3.CodecPipeline"}
# The same, as Zarr v3 spells it.
BLOSC: dict[str, Any] = {
    "name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 2},
}  # fmt: skip
Calls = dict[str, "Callable[[], Any]"]
Ways = dict[str, "Callable[..., Any]"]


@cache
def values() -> Any:
    """Electron microscopy of 16 bits; it repeats after 128, which no codec of chunks of at most 64^3 can see."""
    tile = min(SIDE, 128)
    return np.ascontiguousarray(np.tile(volume("em", (tile, tile, tile)), [SIDE // tile] * 3)).astype("<u2") * 16


@cache
def stored(codec: str, edge: int) -> Path:
    path = FOLDER / f"{codec}-{edge}"
    compressor, filters = (CODECS | LARGE)[codec]
    array = zvcore.create(
        path, format="zarr2", shape=(SIDE,) * 3, dtype="<u2", chunks=(edge,) * 3, codec=compressor, filters=filters,
        dimension_separator="/",
    )  # fmt: skip
    array[...] = values()
    return path


def by_tensorstore(path: Path) -> Any:
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(path)}, "recheck_cached_data": "open"}
    return tensorstore.open(spec, open=True, read=True, context=None).result()


def by_zarr(path: Path, who: str) -> Any:
    with zarr.config.set({"codec_pipeline.path": PIPELINES[who]}):
        return zarr.open_array(path, mode="r", zarr_format=2)


def readers(codec: str, edge: int = CHUNK) -> dict[str, Any]:
    path = stored(codec, edge)
    found = {"zvcore": zvcore.open(path), **{who: by_zarr(path, who) for who in PIPELINES}}
    if (CODECS | LARGE)[codec][1] is None:
        found["tensorstore"] = by_tensorstore(path)
    return found


def whole(array: Any) -> Any:
    found = array[...]
    return found.read().result() if isinstance(found, tensorstore.TensorStore) else found


def reading(codec: str) -> Calls:
    return {who: partial(whole, array) for who, array in readers(codec).items()}


def places(edge: int) -> list[tuple[slice, ...]]:
    each = np.random.default_rng(1).integers(0, SIDE // edge, (RANDOM, 3)) * edge
    return [tuple(slice(int(at), int(at) + edge) for at in one) for one in each]


def chunks_of(array: Any, keys: list[tuple[slice, ...]]) -> Any:
    found = [array[key] for key in keys]
    return [one.read().result() if isinstance(one, tensorstore.TensorStore) else one for one in found]


def reading_chunks(codec: str, edge: int = CHUNK) -> Calls:
    return {who: partial(chunks_of, array, places(edge)) for who, array in readers(codec, edge).items()}


def copied(source: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(source, to)


def migrated(source: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    report = zvcore.convert(source, to, format="zarr3", shards=(SIDE,) * 3)
    assert report.encoded == 0


def migrated_by_zarr(source: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    theirs = by_zarr(source, "zarr")
    made = zarr.create_array(
        to, shape=theirs.shape, dtype=theirs.dtype, chunks=(CHUNK,) * 3, shards=(SIDE,) * 3, compressors=[BLOSC]
    )
    made[...] = theirs[...]


def migrating(codec: str) -> Calls:
    source = stored(codec, CHUNK)
    numbers = itertools.count()
    ways: Ways = {"zvcore": migrated, "files": copied, "zarr": migrated_by_zarr}
    return {who: partial(way, source, FOLDER / f"to-{next(numbers)}-{codec}") for who, way in ways.items()}


@cache
def many(edge: int) -> Path:
    path = FOLDER / f"many-{edge}"
    array = zvcore.create(
        path, format="zarr2", shape=(MANY[edge] * edge, 8 * edge, 8 * edge), dtype="<u2", chunks=(edge,) * 3,
        codec=CODECS["blosc"][0], dimension_separator="/",
    )  # fmt: skip
    array[:edge, :edge, :edge] = np.ascontiguousarray(volume("em", (edge,) * 3)).astype("<u2") * 16
    stored = array.read_encoded((0, 0, 0))
    for position in np.ndindex(*array.grid):
        array.write_encoded(position, stored)
    return path


def copied_by_cp(source: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    subprocess.run(["cp", "-r", source, to], check=True)


def migrated_in_shards(source: Path, to: Path, edge: int) -> None:
    shutil.rmtree(to, ignore_errors=True)
    report = zvcore.convert(source, to, format="zarr3", shards=(4 * edge, 8 * edge, 8 * edge))
    assert report.encoded == 0


def migrated_by_zarr_in_shards(source: Path, to: Path, edge: int) -> None:
    shutil.rmtree(to, ignore_errors=True)
    theirs = by_zarr(source, "zarr")
    made = zarr.create_array(
        to, shape=theirs.shape, dtype=theirs.dtype, chunks=(edge,) * 3, shards=(4 * edge, 8 * edge, 8 * edge),
        compressors=[BLOSC],
    )  # fmt: skip
    for begin in range(0, theirs.shape[0], 4 * edge):
        made[begin : begin + 4 * edge] = theirs[begin : begin + 4 * edge]


def migrating_many(edge: int) -> Calls:
    source = many(edge)
    ways: Ways = {
        "zvcore": partial(migrated_in_shards, edge=edge), "cp -r": copied_by_cp,
        "zarr": partial(migrated_by_zarr_in_shards, edge=edge),
    }  # fmt: skip
    return {who: partial(way, source, FOLDER / f"{who}-{edge}") for who, way in ways.items()}


def who_reads(codec: str) -> tuple[str, ...]:
    return ("zvcore", *PIPELINES, *(("tensorstore",) if (CODECS | LARGE)[codec][1] is None else ()))


CONTESTS = [
    *(Contest(f"read {codec}", who_reads(codec), partial(reading, codec)) for codec in CODECS),
    *(Contest(f"random chunks {codec}", who_reads(codec), partial(reading_chunks, codec)) for codec in CODECS),
    # The decoder decides about large chunks, what lies around it about small ones.
    *(
        Contest(f"random small chunks {codec}", who_reads(codec), partial(reading_chunks, codec, CHUNK // 2))
        for codec in CODECS
    ),
    *(Contest(f"one large chunk {codec}", who_reads(codec), partial(reading_chunks, codec, SIDE)) for codec in LARGE),
    Contest("migrate blosc", ("zvcore", "files", "zarr"), partial(migrating, "blosc"), writes=True),
    *(
        Contest(
            f"migrate {64 * deep} chunks of {edge}^3",
            ("zvcore", "cp -r", "zarr"),
            partial(migrating_many, edge),
            writes=True,
        )
        for edge, deep in MANY.items()
    ),
]


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_zarr2(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
