"""Reads of all kinds from a web server, near and 5 ms away, beside tensorstore.

    pytest bench/test_web.py --benchmark-enable      times
    python -m bench.test_web [word]                  ratios, the competitors taking turns

The server is that of `test_buckets`, asked by plain addresses. Arrays are zarr-python's, volumes our own; none has a
cache of chunks.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.test_buckets import FAR, end, put, server
from bench.test_patterns import ALL, AT, BOX, values
from zvcore.stores import MemoryStore, open_store

if TYPE_CHECKING:
    from collections.abc import Callable

Calls = dict[str, "Callable[[], Any]"]
SMALL_BOX = (slice(17, 37),) * 3
FIRST = (slice(0, 16),) * 3
VOLUMES: dict[str, dict[str, Any]] = {"a volume": {}, "a sharded volume": {"shards": (128, 128, 128)}}


@cache
def volume(delay: float, kind: str) -> str:
    """Where in the bucket a volume lies."""
    source = MemoryStore()
    data = values("chunks")[..., None]
    zvcore.create(source, format="precomputed", data=data, chunks=(64, 64, 64), codec="raw", **VOLUMES[kind])
    place = kind.replace(" ", "-")
    store = open_store(f"s3://bucket/{place}", "w", server(delay).options)
    for name in source.list():
        store.put(name, bytes(source.get(name) or b""))
    return place


def address(delay: float, kind: str, codec: str) -> str:
    place = volume(delay, kind) if kind in VOLUMES else put(delay, kind, codec, "of all")
    return f"{server(delay).endpoint}/bucket/{place}"


def ours(url: str, format: str | None = None) -> Any:
    found = zvcore.open(url, format=format)
    return found if isinstance(found, zvcore.Array) else found[0]


def theirs(url: str, kind: str) -> Any:
    driver = "neuroglancer_precomputed" if kind in VOLUMES else "zarr3"
    kvstore = {"driver": "http", "base_url": f"{url}/"}
    return tensorstore.open({"driver": driver, "kvstore": kvstore, "recheck_cached_data": "open"}, read=True).result()


def found_out_by_tensorstore(url: str) -> Any:
    kvstore = {"driver": "http", "base_url": f"{url}/"}
    return tensorstore.open({"driver": "auto", "kvstore": kvstore}, read=True).result()


def reading(delay: float, codec: str, kind: str, key: Any) -> Calls:
    url = address(delay, kind, codec)
    one, other = ours(url), theirs(url, kind)
    np.testing.assert_array_equal(one[key], other[key].read().result())
    return {"zvcore": lambda: one[key], "tensorstore": lambda: other[key].read().result()}


def opening(delay: float, codec: str, kind: str, key: Any) -> Calls:
    """Both are to find the format out."""
    url = address(delay, kind, codec)
    return {"zvcore": lambda: ours(url)[key], "tensorstore": lambda: found_out_by_tensorstore(url)[key].read().result()}


def opening_named(delay: float, codec: str, kind: str, key: Any) -> Calls:
    """Both are told the format."""
    url = address(delay, kind, codec)
    format = "precomputed" if kind in VOLUMES else "zarr3"
    return {"zvcore": lambda: ours(url, format)[key], "tensorstore": lambda: theirs(url, kind)[key].read().result()}


TASKS: list[tuple[str, Callable[..., Calls], str, Any]] = [
    ("read chunks", reading, "chunks", ALL),
    ("read a plane", reading, "chunks", (AT,)),
    ("read a box", reading, "chunks", BOX),
    ("read a small box", reading, "chunks", SMALL_BOX),
    ("read tiny chunks", reading, "tiny chunks", ALL),
    ("read shards", reading, "shards", ALL),
    ("read a plane of shards", reading, "shards", (AT,)),
    ("read a small box of shards", reading, "shards", SMALL_BOX),
    ("open an array and read a chunk", opening, "chunks", FIRST),
    ("open an array, told its format, and read a chunk", opening_named, "chunks", FIRST),
]
OF_VOLUMES: list[tuple[str, Callable[..., Calls], str, Any]] = [
    (f"{what} {kind}", make, kind, key)
    for kind in VOLUMES
    for what, make, key in [
        ("read all of", reading, ALL),
        ("read a plane of", reading, (AT,)),
        ("read a small box of", reading, SMALL_BOX),
        ("open and read a chunk of", opening, FIRST),
        ("open, told its format, and read a chunk of", opening_named, FIRST),
    ]
]
CONTESTS = [
    Contest(f"{what}, {codec}{distance}", ("zvcore", "tensorstore"), partial(make, delay, codec, kind, key))
    for codec, delay, distance in (("raw", 0.0, ""), ("zstd", 0.0, ""), ("zstd", FAR, ", 5 ms away"))
    for what, make, kind, key in TASKS
] + [
    Contest(f"{what}{distance}", ("zvcore", "tensorstore"), partial(make, delay, "raw", kind, key))
    for delay, distance in ((0.0, ""), (FAR, ", 5 ms away"))
    for what, make, kind, key in OF_VOLUMES
]


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Any:
    yield
    end()
    volume.cache_clear()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    run_alone(CONTESTS)
    end()
