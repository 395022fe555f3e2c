"""Zarr v3 in a zip archive in a bucket, near and 5 ms away, beside tensorstore's zip.

    pytest bench/test_archives_far.py --benchmark-enable      times
    python -m bench.test_archives_far [word]                  ratios, the competitors taking turns

The archives are those of `test_archives`, of chunks, and the server is the small one of `test_objectstore`.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.test_archives import ONE, READS, archive
from bench.test_buckets import FAR, end, server, upload_whole

if TYPE_CHECKING:
    from collections.abc import Callable

Calls = dict[str, "Callable[[], Any]"]
WHO = ("zvcore", "tensorstore")
WHERE = {"in a bucket": 0.0, "in a bucket 5 ms away": FAR}


@cache
def put(codec: str, delay: float) -> str:
    return upload_whole(delay, archive(codec, "chunks").read_bytes(), f"archives/{codec}.zip")


def ours(codec: str, delay: float) -> Any:
    put(codec, delay)
    return zvcore.open(f"s3://bucket/archives/{codec}.zip", storage_options=server(delay).options)


def theirs(codec: str, delay: float) -> Any:
    put(codec, delay)
    place = {
        "driver": "s3", "bucket": "bucket", "path": f"archives/{codec}.zip", "endpoint": server(delay).endpoint,
        "aws_region": "us-east-1", "aws_credentials": {"type": "environment"},
    }  # fmt: skip
    spec = {"driver": "zarr3", "kvstore": {"driver": "zip", "base": place}, "recheck_cached_data": "open"}
    return tensorstore.open(spec).result()


def reading(codec: str, delay: float, key: Any) -> Calls:
    one, other = ours(codec, delay), theirs(codec, delay)
    np.testing.assert_array_equal(one[key], other[key].read().result())
    return {"zvcore": lambda: one[key], "tensorstore": lambda: other[key].read().result()}


def opening(codec: str, delay: float) -> Calls:
    return {
        "zvcore": lambda: ours(codec, delay)[ONE],
        "tensorstore": lambda: theirs(codec, delay)[ONE].read().result(),
    }


CONTESTS = [
    *(
        Contest(f"{what}, {codec}, {where}", WHO, partial(reading, codec, delay, key))
        for what, key in READS.items()
        for codec in ("raw", "zstd")
        for where, delay in WHERE.items()
    ),
    *(
        Contest(f"open and read one item, {codec}, {where}", WHO, partial(opening, codec, delay))
        for codec in ("raw", "zstd")
        for where, delay in WHERE.items()
    ),
]


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Any:
    yield
    end()
    put.cache_clear()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    try:
        run_alone(CONTESTS)
    finally:
        end()
