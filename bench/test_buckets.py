"""Reads and writes of all kinds in a bucket, near and 5 ms away, beside tensorstore.

    pytest bench/test_buckets.py --benchmark-enable      times
    python -m bench.test_buckets [word]                  ratios, the competitors taking turns

The server is the small one of `test_objectstore`. Each competitor writes into an array of its own. None has a
cache of chunks.
"""

from __future__ import annotations

import contextlib
import os
import urllib.request
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.scale import pick
from bench.test_objectstore import small_server
from bench.test_patterns import ALL, AT, BOX, KINDS, TINY, for_each, stored, values
from zvcore.precomputed import ShardingSpec
from zvcore.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.stores.servers import S3

FAR = 0.005
# What tensorstore writes has all axes that the volume has.
FLAT = slice(AT, AT + 1)
Calls = dict[str, "Callable[[], Any]"]
_stack = contextlib.ExitStack()


@cache
def server(delay: float) -> S3:
    found = _stack.enter_context(small_server(delay))
    secrets = found.options
    os.environ.update(AWS_ACCESS_KEY_ID=secrets["access_key_id"], AWS_SECRET_ACCESS_KEY=secrets["secret_access_key"])
    return found


@cache
def put(delay: float, kind: str, codec: str, whose: str) -> str:
    """Where in the bucket an array lies that zarr-python has made."""
    return upload(delay, stored(kind, codec), f"{kind} {codec} {whose}")


def upload(delay: float, folder: Path, name: str) -> str:
    """Where in the bucket a copy of a folder lies."""
    place = name.replace(" ", "-")
    store = open_store(f"s3://bucket/{place}", "w", server(delay).options)
    for path in folder.rglob("*"):
        if path.is_file():
            store.put(str(path.relative_to(folder)), path.read_bytes())
    return place


def upload_whole(delay: float, data: bytes, place: str) -> str:
    """The address of an object that is put in one request, however large: the small server takes no others."""
    address = f"{server(delay).endpoint}/bucket/{place}"
    with urllib.request.urlopen(urllib.request.Request(address, data, method="PUT")):
        return address


def end() -> None:
    """End the servers, and forget them: another module may begin them anew."""
    _stack.close()
    server.cache_clear()
    put.cache_clear()
    volume.cache_clear()


def ours(delay: float, place: str, format: str | None = None) -> Any:
    return zvcore.open(f"s3://bucket/{place}", mode="r+", format=format, storage_options=server(delay).options)


def place_for_tensorstore(delay: float, place: str) -> dict[str, Any]:
    return {
        "driver": "s3", "bucket": "bucket", "path": f"{place}/", "endpoint": server(delay).endpoint,
        "aws_region": "us-east-1", "aws_credentials": {"type": "environment"},
    }  # fmt: skip


def theirs(delay: float, place: str) -> Any:
    spec = {"driver": "zarr3", "kvstore": place_for_tensorstore(delay, place), "recheck_cached_data": "open"}
    return tensorstore.open(spec, read=True, write=True).result()


def found_out_by_tensorstore(delay: float, place: str) -> Any:
    spec = {"driver": "auto", "kvstore": place_for_tensorstore(delay, place)}
    return tensorstore.open(spec, read=True, write=True).result()


def reading(delay: float, codec: str, kind: str, key: Any) -> Calls:
    place = put(delay, kind, codec, "of all")
    one, other = ours(delay, place), theirs(delay, place)
    np.testing.assert_array_equal(one[key], other[key].read().result())
    return {"zvcore": lambda: one[key], "tensorstore": lambda: other[key].read().result()}


def opening(delay: float, codec: str, kind: str, key: Any) -> Calls:
    """Both are to find the format out."""
    place = put(delay, kind, codec, "of all")
    return {
        "zvcore": lambda: ours(delay, place)[key],
        "tensorstore": lambda: found_out_by_tensorstore(delay, place)[key].read().result(),
    }


def opening_named(delay: float, codec: str, kind: str, key: Any) -> Calls:
    """Both are told the format."""
    place = put(delay, kind, codec, "of all")
    return {
        "zvcore": lambda: ours(delay, place, "zarr3")[key],
        "tensorstore": lambda: theirs(delay, place)[key].read().result(),
    }


def writing(delay: float, codec: str, kind: str, *keys: Any) -> Calls:
    """The same values each time, into each of several regions."""
    one = ours(delay, put(delay, kind, codec, "of zvcore"))
    other = theirs(delay, put(delay, kind, codec, "of tensorstore"))
    given = np.ascontiguousarray(values(kind)[keys[0]])
    return {
        "zvcore": partial(for_each, keys, lambda key: one.__setitem__(key, given)),
        "tensorstore": partial(for_each, keys, lambda key: other[key].write(given).result()),
    }


@cache
def volume(delay: float, codec: str, whose: str) -> str:
    """Where in the bucket a volume in shards lies that has the values of the other arrays."""
    data = values("shards")
    place = f"volume-{codec}-{whose}"
    made = zvcore.create(
        f"s3://bucket/{place}",
        format="precomputed", shape=data.shape, dtype=data.dtype, storage_options=server(delay).options,
        chunks=(pick(32, 8),) * 3, sharding=ShardingSpec(6, "identity", 0, 3, "raw", codec),
    )  # fmt: skip
    made[...] = data[..., np.newaxis]
    return place


def of_volume(delay: float, place: str) -> tuple[Any, Any]:
    """The same place for both."""
    spec = {"driver": "neuroglancer_precomputed", "kvstore": place_for_tensorstore(delay, place)}
    return ours(delay, place)[0], tensorstore.open(spec, read=True, write=True).result()


def reading_volume(delay: float, codec: str, key: Any) -> Calls:
    one, other = of_volume(delay, volume(delay, codec, "of-all"))
    np.testing.assert_array_equal(one[key], other[key].read().result())
    return {"zvcore": lambda: one[key], "tensorstore": lambda: other[key].read().result()}


def writing_volume(delay: float, codec: str, key: Any) -> Calls:
    one, _ = of_volume(delay, volume(delay, codec, "of-zvcore"))
    _, other = of_volume(delay, volume(delay, codec, "of-tensorstore"))
    given = np.ascontiguousarray(values("shards")[..., np.newaxis][key])
    return {"zvcore": lambda: one.write(key, given), "tensorstore": lambda: other[key].write(given).result()}


TASKS: list[tuple[str, Callable[..., Calls], str, tuple[Any, ...]]] = [
    ("read chunks", reading, "chunks", (ALL,)),
    ("read a plane", reading, "chunks", ((AT,),)),
    ("read a box", reading, "chunks", (BOX,)),
    ("read a frame", reading, "frames", ((AT,),)),
    ("read tiny chunks", reading, "tiny chunks", (ALL,)),
    ("read what is not there", reading, "nothing in files", (ALL,)),
    ("read shards", reading, "shards", (ALL,)),
    ("read a plane of shards", reading, "shards", ((AT,),)),
    ("open an array and read a chunk", opening, "chunks", ((slice(0, 16),) * 3,)),
    ("open an array, told its format, and read a chunk", opening_named, "chunks", ((slice(0, 16),) * 3,)),
    ("write chunks", writing, "chunks", (ALL,)),
    ("write a plane", writing, "chunks", ((AT,),)),
    ("write a box", writing, "chunks", (BOX,)),
    ("write 8 frames, each by itself", writing, "frames", tuple((number,) for number in range(pick(8, 2)))),
    ("write tiny chunks", writing, "tiny chunks", (ALL,)),
    ("write all but the edges of tiny chunks", writing, "tiny chunks", ((slice(4, TINY - 4),) * 3,)),
    ("write shards", writing, "shards", (ALL,)),
    ("write a plane of shards", writing, "shards", ((AT,),)),
]
TASKS_OF_VOLUMES: list[tuple[str, Callable[[float, str, Any], Calls], Any]] = [
    ("read a plane of a volume in shards", reading_volume, FLAT),
    ("write a volume in shards", writing_volume, ALL),
    ("write a plane of a volume in shards", writing_volume, FLAT),
]
assert all(kind in KINDS for _, _, kind, _ in TASKS)
CONTESTS = [
    Contest(f"{what}, {codec}{distance}", ("zvcore", "tensorstore"), partial(make, delay, codec, kind, *keys))
    for codec, delay, distance in (("raw", 0.0, ""), ("zstd", 0.0, ""), ("zstd", FAR, ", 5 ms away"))
    for what, make, kind, keys in TASKS
] + [
    Contest(f"{what}, {codec}{distance}", ("zvcore", "tensorstore"), partial(make, delay, codec, key))
    for codec, delay, distance in (("raw", 0.0, ""), ("gzip", FAR, ", 5 ms away"))
    for what, make, key in TASKS_OF_VOLUMES
]


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Any:
    yield
    end()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    with _stack:
        run_alone(CONTESTS)
