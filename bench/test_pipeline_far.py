"""zarr-python's arrays in a bucket with zvcore's pipeline and with its own, near and 5 ms away.

    pytest bench/test_pipeline_far.py --benchmark-enable         times
    python -m bench.test_pipeline_far [word]                     ratios, both taking turns

Both are given the same kind of store: `zarr.storage.ObjectStore`, or `FsspecStore` of a web server. The arrays are
those of `test_buckets`, and the server is the small one of `test_objectstore`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr
from zarr.storage import FsspecStore

import zvcore.zarr3  # noqa: F401 - what the configuration below names
from bench.contest import Contest, entrants, run_alone
from bench.pipelines import PIPELINES, within
from bench.test_buckets import FAR, end, put, server
from bench.test_opening_far import for_zarr
from bench.test_patterns import BOX, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Calls = dict[str, "Callable[[], Any]"]
ALL = (slice(None),) * 3
# As they are called where they are two of several.
WAYS = {"zvcore": "zarr+zvcore", "zarr": "zarr"}
WHERE = {"in a bucket": 0.0, "in a bucket 5 ms away": FAR}


def opened(who: str, delay: float, kind: str, whose: str) -> Any:
    with zarr.config.set({"codec_pipeline.path": PIPELINES[WAYS[who]]}):
        return zarr.open_array(for_zarr(delay, put(delay, kind, "zstd", whose)), mode="r+")


def on_the_web(who: str, delay: float, kind: str, whose: str) -> Any:
    place = put(delay, kind, "zstd", whose)
    with zarr.config.set({"codec_pipeline.path": PIPELINES[WAYS[who]]}):
        return zarr.open_array(FsspecStore.from_url(f"{server(delay).endpoint}/bucket/{place}"), mode="r")


def reading(delay: float, kind: str, key: Any, opened: Callable[..., Any] = opened) -> Calls:
    arrays = {who: opened(who, delay, kind, "of all") for who in WAYS}
    return {who: within(WAYS[who], partial(array.__getitem__, key)) for who, array in arrays.items()}


def writing(delay: float, kind: str, key: Any) -> Calls:
    given = np.ascontiguousarray(values(kind)[key])
    arrays = {who: opened(who, delay, kind, f"of {who}") for who in WAYS}
    return {who: within(WAYS[who], partial(array.__setitem__, key, given)) for who, array in arrays.items()}


TASKS: dict[str, Callable[[float], Calls]] = {
    "read all of chunks": partial(reading, kind="chunks", key=ALL),
    "read a box of chunks": partial(reading, kind="chunks", key=BOX),
    "read all of shards": partial(reading, kind="shards", key=ALL),
    "read a box of shards": partial(reading, kind="shards", key=BOX),
    "read all of chunks by fsspec": partial(reading, kind="chunks", key=ALL, opened=on_the_web),
    "read a box of shards by fsspec": partial(reading, kind="shards", key=BOX, opened=on_the_web),
    "write all of chunks": partial(writing, kind="chunks", key=ALL),
    "write a box of chunks": partial(writing, kind="chunks", key=BOX),
    "write all of shards": partial(writing, kind="shards", key=ALL),
}
CONTESTS = [
    Contest(f"{what} {where}", tuple(WAYS), partial(make, delay))
    for what, make in TASKS.items()
    for where, delay in WHERE.items()
]


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Iterator[None]:
    yield
    end()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_contest(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    try:
        run_alone(CONTESTS)
    finally:
        end()
