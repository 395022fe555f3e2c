"""N5, Zarr v2 and Neuroglancer volumes of a chunk per object in a bucket, near and 5 ms away, beside tensorstore.

    pytest bench/test_formats_far.py --benchmark-enable      times
    python -m bench.test_formats_far [word]                  ratios, the competitors taking turns

The server is the small one of `test_objectstore`, the values are those of `test_buckets`. Each competitor writes into
an array of its own.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore

import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.scale import pick
from bench.test_buckets import FAR, end, place_for_tensorstore, server
from bench.test_formats import DRIVERS
from bench.test_patterns import values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Calls = dict[str, "Callable[[], Any]"]
WHO = ("zvcore", "tensorstore")
WHERE = {"in a bucket": 0.0, "in a bucket 5 ms away": FAR}
CHUNK = pick(32, 16)
KINDS: dict[str, dict[str, Any]] = {
    "n5 gzip": {"format": "n5", "codec": "gzip"},
    "zarr2 zstd": {"format": "zarr2", "codec": "zstd"},
    "volume raw": {"format": "precomputed", "codec": "raw"},
}
REGIONS: dict[str, tuple[slice, ...]] = {
    "all": (slice(None),) * 3,
    "a plane": (slice(CHUNK, CHUNK + 1),),
    "a box": (slice(CHUNK // 2, 2 * CHUNK),) * 3,
    "a chunk": (slice(0, CHUNK),) * 3,
}


def data_of(kind: str) -> Any:
    data = np.ascontiguousarray(values("chunks"))
    return data[..., np.newaxis] if KINDS[kind]["format"] == "precomputed" else data


@cache
def put(delay: float, kind: str, whose: str) -> str:
    """Where in the bucket an array lies."""
    data, place = data_of(kind), f"formats-{kind}-{whose}".replace(" ", "-")
    made: Any = zvcore.create(
        f"s3://bucket/{place}", shape=data.shape, dtype=data.dtype, chunks=(CHUNK,) * 3,
        storage_options=server(delay).options, **KINDS[kind],
    )  # fmt: skip
    (made if isinstance(made, zvcore.Array) else made[0])[...] = data
    return place


def ours(delay: float, place: str) -> Any:
    found: Any = zvcore.open(f"s3://bucket/{place}", mode="r+", storage_options=server(delay).options)
    return found if isinstance(found, zvcore.Array) else found[0]


def theirs(delay: float, kind: str, place: str) -> Any:
    """What "auto" finds out, but for N5, which it does not know."""
    driver = "n5" if kind.startswith("n5") else "auto"
    spec = {"driver": driver, "kvstore": place_for_tensorstore(delay, place)}
    found = tensorstore.open(spec, read=True, write=True).result()
    assert found.spec().to_json()["driver"] == DRIVERS[KINDS[kind]["format"]]
    return found


def reading(delay: float, kind: str, key: Any) -> Calls:
    place = put(delay, kind, "of-all")
    one, other = ours(delay, place), theirs(delay, kind, place)
    np.testing.assert_array_equal(one[key], other[key].read().result())
    return {"zvcore": lambda: one[key], "tensorstore": lambda: other[key].read().result()}


def opening(delay: float, kind: str, key: Any) -> Calls:
    place = put(delay, kind, "of-all")
    return {
        "zvcore": lambda: ours(delay, place)[key],
        "tensorstore": lambda: theirs(delay, kind, place)[key].read().result(),
    }


def writing(delay: float, kind: str, key: Any) -> Calls:
    one = ours(delay, put(delay, kind, "of-zvcore"))
    other = theirs(delay, kind, put(delay, kind, "of-tensorstore"))
    given = np.ascontiguousarray(data_of(kind)[key])
    return {"zvcore": lambda: one.__setitem__(key, given), "tensorstore": lambda: other[key].write(given).result()}


CONTESTS = [
    *(
        Contest(f"{verb} {region}, {kind}, {where}", WHO, partial(make, delay, kind, key))
        for kind in KINDS
        for verb, make in (("read", reading), ("write", writing))
        for region, key in REGIONS.items()
        for where, delay in WHERE.items()
    ),
    *(
        Contest(f"open and read a chunk, {kind}, {where}", WHO, partial(opening, delay, kind, REGIONS["a chunk"]))
        for kind in KINDS
        for where, delay in WHERE.items()
    ),
]


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Iterator[None]:
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
