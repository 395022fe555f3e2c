"""Chunks here and there of a sharded array behind S3 on this machine, beside tensorstore.

The server is a small one that costs next to nothing and answers at once, after 5 ms or after 30 ms, and, where `make
s3-server` has built it, versitygw as well: a complete server, which spends several times as much on a request as both
clients do, on the same processors.

Each round reads other chunks. tensorstore runs without a cache, which is its default: with one as large as the volume
it would soon read nothing. Both warm up first (zvcore asks for many ranges in one call once it has known an object for
two seconds).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorstore as ts

import bench.s3_server
import zvcore
from bench.contest import Contest, entrants, run_alone
from bench.data import volume
from bench.scale import pick
from tests.stores import servers
from zvcore.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIDE, SHARD, CHUNK = pick((512, 256, 32), (128, 64, 16))
COUNT = pick(200, 20)
_stack = contextlib.ExitStack()
Positions = list[tuple[int, int, int]]


@contextlib.contextmanager
def small_server(delay: float, *, tells_md5: bool = False) -> Iterator[servers.S3]:
    with bench.s3_server.running(delay, tells_md5=tells_md5) as endpoint:
        yield servers.S3("small", int(endpoint.rpartition(":")[2]))


@contextlib.contextmanager
def versitygw() -> Iterator[servers.S3]:
    with tempfile.TemporaryDirectory() as folder, servers.s3_server("versitygw", Path(folder)) as server:
        yield server


@cache
def arrays(running: Callable[[], contextlib.AbstractContextManager[servers.S3]]) -> tuple[zvcore.Array, Any]:
    """(ours, tensorstore's): the same array in the same bucket."""
    server = _stack.enter_context(running())
    options = server.options
    store = open_store("s3://bucket/volume", "w", options)
    tile = volume("em", (SHARD // 2,) * 3)
    with tempfile.TemporaryDirectory() as folder:
        local = zvcore.create(
            folder, format="zarr3", shape=(SIDE,) * 3, dtype=tile.dtype, chunks=(CHUNK,) * 3, shards=(SHARD,) * 3,
            codec={"name": "zstd", "level": 3},
        )  # fmt: skip
        local[...] = np.tile(tile, (2 * SIDE // SHARD,) * 3)
        for path in Path(folder).rglob("*"):
            if path.is_file():
                store.put_if_unchanged(str(path.relative_to(folder)), path.read_bytes(), None)
    os.environ.update(AWS_ACCESS_KEY_ID=options["access_key_id"], AWS_SECRET_ACCESS_KEY=options["secret_access_key"])
    theirs = ts.open({
        "driver": "zarr3",
        "kvstore": {
            "driver": "s3", "bucket": "bucket", "path": "volume/", "endpoint": server.endpoint,
            "aws_region": "us-east-1", "aws_credentials": {"type": "environment"},
        },
    }).result()  # fmt: skip
    ours = zvcore.open("s3://bucket/volume", storage_options=options)
    np.testing.assert_array_equal(ours[...], theirs.read().result())
    time.sleep(2.1)
    return ours, theirs


def region(position: tuple[int, int, int]) -> tuple[slice, ...]:
    return tuple(slice(i * CHUNK, (i + 1) * CHUNK) for i in position)


def readers(
    running: Callable[[], contextlib.AbstractContextManager[servers.S3]], names: tuple[str, ...]
) -> dict[str, Callable[[], list[Any]]]:
    ours, theirs = arrays(running)
    expected = ours[...]
    rng = np.random.default_rng(0)
    rounds = [[tuple(one) for one in rng.integers(0, SIDE // CHUNK, (COUNT, 3)).tolist()] for _ in range(16)]

    def together(positions: Positions) -> list[Any]:
        reads = [theirs[region(one)].read() for one in positions]
        return [read.result() for read in reads]

    def batch(positions: Positions) -> list[Any]:
        with ts.Batch() as batch:
            reads = [theirs[region(one)].read(batch=batch) for one in positions]
        return [read.result() for read in reads]

    ways: dict[str, Callable[[Positions], list[Any]]] = {
        "zvcore": ours.read_blocks,
        "tensorstore": together,
        "tensorstore, Batch": batch,
        "zvcore, one by one": lambda positions: [ours[region(one)] for one in positions],
        "tensorstore, one by one": lambda positions: [theirs[region(one)].read().result() for one in positions],
    }
    for name in names:
        for found, position in zip(ways[name](rounds[0]), rounds[0], strict=True):
            np.testing.assert_array_equal(found, expected[region(position)])
    return {name: _rounds(ways[name], rounds) for name in names}


def _rounds(way: Callable[[Positions], list[Any]], rounds: list[Positions]) -> Callable[[], list[Any]]:
    turns = cycle(rounds)
    return lambda: way(next(turns))


NAMES = ("zvcore", "tensorstore", "tensorstore, Batch", "zvcore, one by one", "tensorstore, one by one")
TASK = "200 chunks of 32^3"
# One by one, what is far away takes seconds for each of the rounds.
TOGETHER = NAMES[:3]
DISTANCES = {TASK: 0.0, f"{TASK}, 5 ms away": 0.005, f"{TASK}, 30 ms away": 0.03}
CONTESTS = [
    Contest(task, names, partial(readers, partial(small_server, delay), names))
    for task, delay in DISTANCES.items()
    for names in (TOGETHER if delay else NAMES,)
]
if servers.versitygw() is not None:
    CONTESTS.append(Contest(f"{TASK}, versitygw", NAMES, partial(readers, versitygw, NAMES)))


@pytest.fixture(scope="module", autouse=True)
def _server_ends() -> Any:
    yield
    _stack.close()


@pytest.mark.parametrize(*entrants(CONTESTS))
def test_chunks_from_s3(benchmark: Any, contest: Contest, who: str) -> None:
    contest.run(benchmark, who)


if __name__ == "__main__":
    with _stack:
        run_alone(CONTESTS)
