"""Conversions to, from and within a bucket, beside a tensorstore script that writes one array into the other.

    pytest bench/test_convert_far.py --benchmark-enable     times
    python -m bench.test_convert_far [word]                 ratios, the competitors taking turns

The server is the small one of `test_objectstore`. What is converted has the same chunks on both sides, so that neither
decodes one twice. zvcore notes how far it has come and ends with a report, which takes some requests.
"""

from __future__ import annotations

import shutil
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.s3_server import empty
from bench.scale import pick
from bench.scratch import journaled
from bench.test_buckets import end as end_servers
from bench.test_buckets import place_for_tensorstore, server
from bench.test_copies import clear, targets

if TYPE_CHECKING:
    from collections.abc import Callable

Calls = dict[str, "Callable[[], Any]"]
SIDE = pick(256, 32)
CHUNK, SHARD = SIDE // 8, SIDE // 2
LEVEL = 1
ZSTD = {"name": "zstd", "configuration": {"level": LEVEL, "checksum": False}}
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


@cache
def values() -> np.ndarray:
    half = volume("em", (SIDE,) * 3).astype("u2") * 16
    return np.concatenate([half, half])


def n5_here() -> dict[str, Any]:
    return {
        "driver": "n5",
        "kvstore": {"driver": "file", "path": str(journaled() / "source.n5"), "file_io_sync": False},
    }


@cache
def made_here() -> str:
    path = journaled() / "source.n5"
    shutil.rmtree(path, ignore_errors=True)
    array = zvcore.create(
        path, format="n5", shape=values().shape, dtype="u2", chunks=(CHUNK,) * 3, codec={"name": "gzip", "level": 1}
    )
    array[...] = values()
    return str(path)


def zarr_far(delay: float, place: str, sharded: bool) -> dict[str, Any]:
    inner = [BYTES, ZSTD]
    shards = [{"name": "sharding_indexed", "configuration": {"chunk_shape": [CHUNK] * 3, "codecs": inner}}]
    grid = {"name": "regular", "configuration": {"chunk_shape": [SHARD if sharded else CHUNK] * 3}}
    metadata = {
        "shape": values().shape, "data_type": "uint16", "chunk_grid": grid, "codecs": shards if sharded else inner,
    }  # fmt: skip
    return {"driver": "zarr3", "kvstore": place_for_tensorstore(delay, place), "metadata": metadata, "create": True}


@cache
def made_far(delay: float, sharded: bool) -> str:
    """Where in the bucket an array of zstd lies."""
    made_here()
    place = f"source-{'shards' if sharded else 'chunks'}"
    by_tensorstore(n5_here(), zarr_far(delay, place, sharded))
    return place


def by_tensorstore(source: dict[str, Any], target: dict[str, Any]) -> None:
    array = tensorstore.open({**source, "open": True, "create": False}).result()
    tensorstore.open(target).result().write(array).result()


def by_zvcore(source: str, target: str, delay: float, **options: Any) -> None:
    secrets = server(delay).options
    codec = zvcore.codecs.get("gzip" if options.get("format") == "n5" else "zstd", level=LEVEL)
    report = zvcore.convert(
        source, target, storage_options=secrets if "://" in target else None,
        source_options={"storage_options": secrets} if "://" in source else None,
        **{"format": "zarr3", "chunks": (CHUNK,) * 3, "codec": codec, **options},
    )  # fmt: skip
    assert report.ok


def uploading(delay: float, sharded: bool) -> Calls:
    shards = (SHARD,) * 3 if sharded else False
    return {
        "zvcore": partial(by_zvcore, made_here(), "s3://bucket/targets/ours", delay, shards=shards),
        "tensorstore": partial(by_tensorstore, n5_here(), zarr_far(delay, "targets/theirs", sharded)),
    }


def downloading(delay: float, sharded: bool) -> Calls:
    place = made_far(delay, sharded)
    metadata = {
        "dimensions": values().shape, "blockSize": [CHUNK] * 3, "dataType": "uint16",
        "compression": {"type": "gzip", "level": LEVEL},
    }  # fmt: skip
    kvstore = {"driver": "file", "path": str(targets() / "theirs"), "file_io_sync": False}
    theirs = {"driver": "n5", "kvstore": kvstore, "metadata": metadata, "create": True}
    return {
        "zvcore": partial(by_zvcore, f"s3://bucket/{place}", str(targets() / "ours"), delay, format="n5"),
        "tensorstore": partial(by_tensorstore, zarr_far(delay, place, sharded), theirs),
    }


def within(delay: float, sharded: bool) -> Calls:
    """Shards become chunks, or chunks shards; their bytes stay as they are, if somebody sees that they may."""
    place = made_far(delay, sharded)
    shards = False if sharded else (SHARD,) * 3
    return {
        "zvcore": partial(by_zvcore, f"s3://bucket/{place}", "s3://bucket/targets/ours", delay, shards=shards),
        "tensorstore": partial(
            by_tensorstore, zarr_far(delay, place, sharded), zarr_far(delay, "targets/theirs", not sharded)
        ),
    }


def clear_all(delay: float) -> None:
    clear()
    empty(server(delay).endpoint, "targets")


TASKS: tuple[tuple[str, Callable[[float, bool], Calls], bool], ...] = (
    ("N5 gzip to Zarr zstd in a bucket", uploading, False),
    ("N5 gzip to sharded Zarr zstd in a bucket", uploading, True),
    ("sharded Zarr zstd in a bucket to N5 gzip", downloading, True),
    ("Zarr zstd in a bucket to shards there, as it is", within, False),
    ("sharded Zarr zstd in a bucket to chunks there, as it is", within, True),
)
CONTESTS = [
    Contest(
        f"{what}{distance}", ("zvcore", "tensorstore"), partial(prepare, delay, sharded), writes=True,
        clearing=partial(clear_all, delay),
    )
    for delay, distance in ((0.0, ""), (0.005, ", 5 ms away"))
    for what, prepare, sharded in TASKS
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _servers_end() -> Any:
    yield
    end()


def end() -> None:
    end_servers()
    made_far.cache_clear()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    try:
        run_alone(CONTESTS)
    finally:
        end()
